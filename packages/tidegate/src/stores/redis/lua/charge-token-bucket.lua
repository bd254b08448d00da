--[[
  Charges single counters of a token bucket, one after the other, each with the same cost: what most
  commands do, and so the one script that is written for speed. It is token-bucket.lua without
  functions and tables. It leaves counters with holds, and those from the future, to charge.lua.

  KEYS     the counters
  ARGV     the time in ms, or -1 for the server's; the cost; burst, units per token, units per ms
  Returns  integers: the time in ms, then for each counter: granted units, -1 if denied, or -2 if it
           is not for this script and nothing was done; remaining units; retry time in ms, -1 for
           never; reset time in ms, -1 for never
  Expiry   of each counter exactly when the level has drained to zero
]]
local now = tonumber(ARGV[1])
if now < 0 then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local cost, burst = tonumber(ARGV[2]), tonumber(ARGV[3])
local scale, rate = tonumber(ARGV[4]), tonumber(ARGV[5])
local call, ceil, sub = redis.call, math.ceil, string.sub
local capacity, wanted = burst * scale, cost * scale
local reply, at = { now }, 1
for _, key in ipairs(KEYS) do
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
    reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = -2, 0, 0, 0
  elseif level + wanted <= capacity then
    level = level + wanted
    local used, reset = ceil(level / scale), ceil(level / rate)
    local drained = used * scale - level
    local ago = ceil(drained / rate)
    local part, time = ago * rate - drained, now - ago
    local text = used .. time
    if part > 0 or time < 1e12 or used >= 900000 then
      text = string.format('%d:%d:%d', used, time, part)
    end
    call('SET', key, text, 'PX', reset)
    reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = cost, burst - used, 0, reset
  else
    local remaining, retry, reset = burst - ceil(level / scale), -1, 0
    if remaining < 0 then remaining = 0 end
    if cost <= burst then retry = ceil((level + wanted - capacity) / rate) end
    if level > 0 then reset = rate > 0 and ceil(level / rate) or -1 end
    reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = -1, remaining, retry, reset
  end
  at = at + 4
end
return reply
