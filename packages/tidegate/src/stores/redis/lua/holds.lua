--[[
  Holds: the port of algorithms/holds.ts. A hold is { id, units, ttl in ms, expiry in ms }; holds
  are kept in the order of their expiry, packed behind the state of their key.
]]
local HOLDS_MAX = 10000

local function by_expiry(one, other)
  return one[4] < other[4]
end

-- Without the expired, and with none that lasts longer from now than it was granted for; also
-- whether there were such, which has to be kept, so that a clock that jumps back revives none.
local function open_holds(holds, now)
  local open, is_moved = {}, false
  for _, hold in ipairs(holds) do
    if hold[4] > now then
      is_moved = is_moved or hold[4] > now + hold[3]
      hold[4] = math.min(hold[4], now + hold[3])
      open[#open + 1] = hold
    end
  end
  if is_moved then table.sort(open, by_expiry) end
  return open, is_moved or #open < #holds
end

local function held_units(holds)
  local units = 0
  for _, hold in ipairs(holds) do units = units + hold[2] end
  return units
end

local function with_hold(holds, id, units, ttl, now)
  local more = {}
  for at, hold in ipairs(holds) do more[at] = hold end
  more[#more + 1] = { id, units, ttl, now + ttl }
  table.sort(more, by_expiry)
  return more
end

local function without_hold(holds, id)
  local left = {}
  for _, hold in ipairs(holds) do
    if hold[1] ~= id then left[#left + 1] = hold end
  end
  return left
end

-- -1 stands for never.
local function later(one, other)
  if one < 0 or other < 0 then return -1 end
  return math.max(one, other)
end

-- The wait until the algorithm admits, looking at each interval between two expiries.
local function retry_beside(algorithm, state, holds, held, cost, now, p)
  local from = 0
  for _, hold in ipairs(holds) do
    local stop = hold[4] - now
    local _, _, _, wait = algorithm.charge(state, cost, now, p, held)
    wait = later(wait, from)
    if wait >= 0 and wait < stop then return wait end
    held = held - hold[2]
    from = stop
  end
  local _, _, _, wait = algorithm.charge(state, cost, now, p, 0)
  return later(wait, from)
end

local function charge_beside(algorithm, state, holds, cost, now, p)
  if #holds == 0 then return algorithm.charge(state, cost, now, p, 0) end
  local held = held_units(holds)
  local after, allowed, remaining, retry, reset = algorithm.charge(state, cost, now, p, held)
  if not allowed then retry = retry_beside(algorithm, state, holds, held, cost, now, p) end
  return after, allowed, remaining, retry, later(reset, holds[#holds][4] - now)
end
