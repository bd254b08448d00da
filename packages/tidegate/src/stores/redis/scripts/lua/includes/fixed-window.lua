--[[
  Fixed window: the port of algorithms/fixed-window.ts.

  Params   p[1] limit, p[2] length in ms, or 0 and then p[3], p[4], ... the starts in ms of calendar
           windows that follow each other
  State    { count, start of the window in ms }
  Value    16 bytes: two doubles
  Expiry   the end of the window
]]
local fixed_window = {}

function fixed_window.load(value)
  local count, start = struct.unpack('<dd', value)
  return { count, start }
end

function fixed_window.save(state)
  return struct.pack('<dd', state[1], state[2])
end

local function window_at(now, p)
  if p[2] > 0 then
    local start = now - now % p[2]
    return start, start + p[2]
  end
  for at = 3, #p - 1 do
    if p[at] <= now and now < p[at + 1] then return p[at], p[at + 1] end
  end
  return nil
end

-- The caller's time is so wrong that none of its calendar windows contains the server's time.
function fixed_window.check(p, now)
  if not window_at(now, p) then error('TIDEGATE-WINDOW ' .. now) end
end

local function window_count(state, start)
  return state and state[2] >= start and state[1] or 0
end

function fixed_window.charge(state, cost, now, p, held)
  local start, stop = window_at(now, p)
  local capacity = p[1] - held
  local count = window_count(state, start)
  local allowed = count + cost <= capacity or cost == 0
  local after = allowed and count + cost or count
  local retry = 0
  if not allowed then retry = cost > capacity and -1 or stop - now end
  if (allowed and cost > 0) or (state and state[2] > start) then state = { after, start } end
  return state, allowed, math.max(0, capacity - after), retry, after > 0 and stop - now or 0
end

function fixed_window.adjust(state, units, now, p)
  local start = window_at(now, p)
  local count = window_count(state, start) + units
  return count > 0 and { count, start } or nil
end

return fixed_window
