--[[
  Sliding window: the port of algorithms/sliding-window.ts.

  Params   p[1] limit, p[2] length in ms
  State    { previous count, current count, start of the current window in ms }
  Value    24 bytes: three doubles
  Expiry   when neither count weighs any more
]]
local sliding_window = {}

function sliding_window.load(value)
  local previous, current, start = struct.unpack('<ddd', value)
  return { previous, current, start }
end

function sliding_window.save(state)
  return struct.pack('<ddd', state[1], state[2], state[3])
end

local function roll_to(state, now, p)
  local start = now - now % p[2]
  if not state or state[3] < start - p[2] then return 0, 0, start end
  if state[3] == start or state[3] > start then return state[1], state[2], start end
  return state[2], 0, start
end

local function drops_at(previous, room, per)
  if previous <= room then return 0 end
  return per - math.floor(room * per / previous)
end

local function sliding_wait(previous, current, start, room, now, per)
  if room < 0 then return -1 end
  local since = now - start
  if current <= room then return drops_at(previous, room - current, per) - since end
  return per - since + drops_at(current, room, per)
end

function sliding_window.charge(state, cost, now, p, held)
  local per = p[2]
  local previous, current, start = roll_to(state, now, p)
  local capacity = p[1] - held
  local weight = previous * (start + per - now)
  local allowed = weight + current * per <= (capacity - cost) * per or cost == 0
  local retry = 0
  if not allowed then
    retry = sliding_wait(previous, current, start, capacity - cost, now, per)
  end
  local after = allowed and current + cost or current
  local left = capacity * per - weight - after * per
  local reset = 0
  if after > 0 then
    reset = start + 2 * per - now
  elseif previous > 0 then
    reset = start + per - now
  end
  if (allowed and cost > 0) or (state and state[3] > start) then
    state = { previous, after, start }
  end
  return state, allowed, left > 0 and math.floor(left / per) or 0, retry, reset
end

function sliding_window.adjust(state, units, now, p)
  local previous, current, start = roll_to(state, now, p)
  current = current + units
  if current < 0 then previous = math.max(0, previous + current) end
  if current <= 0 and previous == 0 then return nil end
  return { previous, math.max(0, current), start }
end

return sliding_window
