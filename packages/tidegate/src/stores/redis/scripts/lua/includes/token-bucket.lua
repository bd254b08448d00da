--[[
  Token bucket: the port of algorithms/token-bucket.ts.

  Params   p[1] burst, p[2] units per token, p[3] units per ms (whole numbers)
  State    { tokens used, the moment in ms, the part of the next ms in units of the drain }
  Value    tokens and moment as one decimal number, the moment in its last 13 digits, which the
           server keeps in 8 bytes; where that is not enough, `tokens:moment:part`
  Expiry   when the level has drained to zero
]]
local token_bucket = {}

function token_bucket.load(value)
  if not string.find(value, ':', 1, true) then
    return { tonumber(string.sub(value, 1, -14)), tonumber(string.sub(value, -13)), 0 }
  end
  local used, time, part = string.match(value, '^(%d+):(%d+):(%d+)$')
  return { tonumber(used), tonumber(time), tonumber(part) }
end

function token_bucket.save(state)
  local used, time, part = state[1], state[2], state[3]
  if part == 0 and time >= 1e12 and used < 900000 then return used .. time end
  return string.format('%d:%d:%d', used, time, part)
end

local function bucket_level(state, now, p)
  if not state then return 0 end
  local used = state[1] * p[2]
  local level = used - (now - state[2]) * p[3] + math.min(state[3], p[3])
  if now >= state[2] then return level > 0 and level or 0 end
  return math.min(level, math.max(used, p[1] * p[2]))
end

local function bucket_drain(units, p)
  if units <= 0 then return 0 end
  if p[3] == 0 then return -1 end
  return math.ceil(units / p[3])
end

local function bucket_state(used, level, now, p)
  local drained = used * p[2] - level
  local ago = bucket_drain(drained, p)
  return { used, now - ago, ago * p[3] - drained }
end

function token_bucket.charge(state, cost, now, p, held)
  local scale = p[2]
  local level = bucket_level(state, now, p)
  local capacity = (p[1] - held) * scale
  local after = level + cost * scale
  local allowed = after <= capacity or cost == 0
  local retry = 0
  if not allowed then
    retry = cost > p[1] - held and -1 or bucket_drain(after - capacity, p)
    after = level
  end
  local used = math.ceil(after / scale)
  if (allowed and cost > 0) or (state and state[2] > now) then
    state = bucket_state(used, after, now, p)
  end
  return state, allowed, math.max(0, p[1] - held - used), retry, bucket_drain(after, p)
end

function token_bucket.adjust(state, units, now, p)
  local level = bucket_level(state, now, p) + units * p[2]
  return level > 0 and bucket_state(math.ceil(level / p[2]), level, now, p) or nil
end

return token_bucket
