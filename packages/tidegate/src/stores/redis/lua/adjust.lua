--[[
  Adds units without asking or gives them back, and drops holds.

  KEYS     the counters
  ARGV     the time in ms, or -1 for the server's; the limits (counters.lua); then for each counter
           the number of its limit, the units (negative to give back), the id of the hold or ''
  Returns  integers: the time in ms, then for each counter: 0, remaining units, 0, reset time in ms,
           -1 for never
  Expiry   of each counter exactly when nothing is used or held any more
]]
-- @include modules
-- @include counters

local now = read_now()
local limits = read_limits(now)
local reply = { now }

for _, key in ipairs(KEYS) do
  local limit, units, release = limits[next_number()], next_number(), next_argument()
  local before, holds = load_counter(key, limit, now)
  if holds and release ~= '' then holds = modules.holds.without(holds, release, now, limit) end
  local state = limit.algorithm.adjust(before, units, now, limit)
  local remaining, reset = settle_counter(key, limit, state, holds, now)
  reply[#reply + 1] = 0
  reply[#reply + 1] = remaining
  reply[#reply + 1] = 0
  reply[#reply + 1] = reset
end

return reply
