--[[
  Charges single counters of a sliding window, one after the other, each with the same cost: the
  fast path of sliding-window.lua, without tables and functions. Counters with holds, and those from
  the future, are left to charge.lua.

  KEYS     the counters
  ARGV     limit, length in ms; the cost if it is not 1; for tests, the time in ms instead of the
           server's
  Returns  integers: the time in ms, then for each counter how much was used before, in the previous
           and in the current window; or -1 and 0 if the counter is not for this script and nothing
           was done. Everything else, such as whether it was granted, follows from that
  Expiry   of each counter when neither count weighs any more, at most 400 days
]]
local call, format = redis.call, string.format
local limit, per, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3] or 1)
local now_override = ARGV[4]
-- @include now
local LIFETIME_MAX = 34560000000
local start = now - now % per
local left = start + per - now
local reset = left + per
if reset > LIFETIME_MAX then reset = LIFETIME_MAX end
local lifetime = format('%d', reset)
local reply = { now }

-- MGET replies nil for a set; GET would be an error, which the server counts.
for at = 1, #KEYS do
  local key = KEYS[at]
  local value, previous, current, counted = call('MGET', key)[1], 0, 0, nil
  if value and #value == 24 then
    previous, current, counted = struct.unpack('<ddd', value)
    if counted < start - per then
      previous, current = 0, 0
    elseif counted < start then
      previous, current = current, 0
    end
  end
  if not value then
    local text = struct.pack('<ddd', 0, cost, start)
    if cost > limit or not call('SET', key, text, 'PX', lifetime, 'NX') then previous = -1 end
  elseif not counted or counted > start then
    previous, current = -1, 0
  elseif previous * left + current * per <= (limit - cost) * per then
    call('SET', key, struct.pack('<ddd', previous, current + cost, start), 'PX', lifetime)
  elseif current > 0 or previous > 0 then
    local lasts = current > 0 and reset or left
    if lasts > call('PTTL', key) + 1 then call('PEXPIRE', key, format('%d', lasts)) end
  end
  reply[at * 2] = previous
  reply[at * 2 + 1] = current
end
return reply
