--[[
  Adds units without a decision or gives them back, and drops or prolongs holds.

  KEYS     the counters
  ARGV     the time in ms, or -1 for the server's; the limits (counters.lua); then for each counter
           the number of its limit, the units (negative to give back), the id of the hold or '', and
           0 to drop it or the ttl in ms to prolong it by
  Returns  integers: the time in ms, then for each counter: 0, or -1 if a hold to prolong is not
           open; remaining units; 0; reset time in ms, -1 for never
  Expiry   of each counter exactly when nothing is used or held any more
]]
-- @include modules
-- @include counters

local now = read_now()
local limits = read_limits(now)
local reply = { now }

for _, key in ipairs(KEYS) do
  local limit, units, id, ttl =
    limits[next_number()], next_number(), next_argument(), next_number()
  local before, holds = load_counter(key, limit, now)
  local is_lost = false
  if ttl > 0 then
    local renewed = holds and modules.holds.renewed(holds, id, ttl, now, limit)
    holds, is_lost = renewed or holds, not renewed
  elseif holds and id ~= '' then
    holds = modules.holds.without(holds, id, now, limit)
  end
  local state = limit.algorithm.adjust(before, units, now, limit)
  local remaining, reset = settle_counter(key, limit, state, holds, now)
  reply[#reply + 1] = is_lost and -1 or 0
  reply[#reply + 1] = remaining
  reply[#reply + 1] = 0
  reply[#reply + 1] = reset
end

return reply
