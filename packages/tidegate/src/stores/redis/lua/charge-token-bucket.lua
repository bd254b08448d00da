--[[
  Charges single counters of a token bucket, one after the other, each with the same cost: what most
  commands do, and so the one script that is written for speed. It is token-bucket.lua without
  functions and tables. It leaves counters with holds, and those from the future, to charge.lua.

  KEYS     the counters
  ARGV     the time in ms, or -1 for the server's; the cost; burst, units per token, units per ms
  Returns  integers: the time in ms, then for each counter the level in units: as it is now if the
           cost was granted; if it was denied, the negative of it less 2; or -1 if the counter is
           not for this script and nothing was done. What is left, and when, follows from the level
  Expiry   of each counter exactly when the level has drained to zero, at most 400 days; also where
           it was denied under a limit that drains more slowly than the one before
]]
local now = tonumber(ARGV[1])
if now < 0 then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local cost, burst = tonumber(ARGV[2]), tonumber(ARGV[3])
local scale, rate = tonumber(ARGV[4]), tonumber(ARGV[5])
local call, ceil, sub, format = redis.call, math.ceil, string.sub, string.format
local capacity, wanted = burst * scale, cost * scale
local LIFETIME_MAX = 34560000000
local reply = { now }
for at, key in ipairs(KEYS) do
  local value, level = call('GET', key), 0
  if value then
    local used, time, part = tonumber(sub(value, 1, -14)), tonumber(sub(value, -13)), 0
    if not (used and time) then
      used, time, part = string.match(value, '^(%d+):(%d+):(%d+)$')
      if used then used, time, part = tonumber(used), tonumber(time), tonumber(part) end
    end
    if used and time <= now then
      if part > rate then part = rate end
      level = used * scale - (now - time) * rate + part
      if level < 0 then level = 0 end
    else
      level = nil
    end
  end
  if not level then
    reply[at + 1] = -1
  elseif level + wanted <= capacity then
    level = level + wanted
    local used = ceil(level / scale)
    local drained = used * scale - level
    local ago = ceil(drained / rate)
    local part, time = ago * rate - drained, now - ago
    local text
    if part > 0 or time < 1e12 or used >= 900000 then
      text = format('%.0f:%.0f:%.0f', used, time, part)
    else
      text = used .. time
    end
    local reset = ceil(level / rate)
    if reset > LIFETIME_MAX then reset = LIFETIME_MAX end
    call('SET', key, text, 'PX', reset)
    reply[at + 1] = level
  else
    if level > 0 and rate > 0 then
      local reset = ceil(level / rate)
      if reset > LIFETIME_MAX then reset = LIFETIME_MAX end
      if reset > call('PTTL', key) + 1 then call('PEXPIRE', key, reset) end
    end
    reply[at + 1] = -2 - level
  end
end
return reply
