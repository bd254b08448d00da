--[[
  Charges single counters of a fixed window, one after the other, each with the same cost: the fast
  path of fixed-window.lua, without tables and functions. Counters with holds, and those from the
  future, are left to charge.lua.

  KEYS     the counters
  ARGV     limit, length in ms; the cost if it is not 1; for tests, the time in ms instead of the
           server's
  Returns  integers: the time in ms, then for each counter how much was used in this window before;
           or -1 if the counter is not for this script and nothing was done. Everything else, such
           as whether it was granted, follows from that
  Expiry   of each counter the end of the window, at most 400 days
]]
local call = redis.call
local limit, per, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3] or 1)
local now_override = ARGV[4]
-- @include now
local start = now - now % per
local reset = start + per - now
if reset > 34560000000 then reset = 34560000000 end
local lifetime = string.format('%d', reset)
local reply = { now }

-- MGET replies nil for a set; GET would be an error, which the server counts.
for at = 1, #KEYS do
  local key = KEYS[at]
  local value, count, counted = call('MGET', key)[1], 0, nil
  if value and #value == 16 then
    count, counted = struct.unpack('<dd', value)
    if counted < start then count = 0 end
  end
  if not value then
    local text = struct.pack('<dd', cost, start)
    if cost > limit or not call('SET', key, text, 'PX', lifetime, 'NX') then count = -1 end
  elseif not counted or counted > start then
    count = -1
  elseif count + cost <= limit then
    call('SET', key, struct.pack('<dd', count + cost, start), 'PX', lifetime)
  elseif count > 0 and reset > call('PTTL', key) + 1 then
    call('PEXPIRE', key, lifetime)
  end
  reply[at + 1] = count
end
return reply
