--[[
  Charges single counters of a token bucket, one after the other, each with the same cost: what most
  commands do, and so the one script that is written for speed. It is token-bucket.lua without
  tables, and with numbers that are formatted as integers, which takes a third of the time of a
  double. It leaves counters with holds, and those from the future, to charge.lua.

  KEYS     the counters
  ARGV     the cost; burst, units per token, units per ms; for tests, the time in ms instead of the
           server's
  Returns  integers: the time in ms, then for each counter the level in units: as it is now if the
           cost was granted; if it was denied, the negative of it less 2; or -1 if the counter is
           not for this script and nothing was done. What is left, and when, follows from the level
  Expiry   of each counter exactly when the level has drained to zero, at most 400 days; also where
           it was denied under a limit that drains more slowly than the one before
]]
local call, pcall, ceil, format = redis.call, redis.pcall, math.ceil, string.format
local cost, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local scale, rate = tonumber(ARGV[3]), tonumber(ARGV[4])
local now = tonumber(ARGV[5])
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local capacity, wanted = burst * scale, cost * scale
local EXACT_MAX, LIFETIME_MAX = 9007199254740991, 34560000000
local reply = { now }

-- A value that is no exact number; nothing where it is not a bucket without holds.
local function read_other(value)
  if type(value) ~= 'string' then return end
  local used, time, part = string.match(value, '^(%d+):(%d+):(%d+)$')
  if not used then used, time = string.match(value, '^(%d+)(%d%d%d%d%d%d%d%d%d%d%d%d%d)$') end
  return tonumber(used), tonumber(time), tonumber(part) or 0
end

-- What to store in a counter that was empty: the same for all of them, written once.
local first_text, first_lifetime

for at = 1, #KEYS do
  local key = KEYS[at]
  local value, level = pcall('GET', key), 0
  if value then
    local number, used, time, part = tonumber(value), nil, nil, 0
    if number and number <= EXACT_MAX then
      time = number % 1e13
      used = (number - time) / 1e13
    else
      used, time, part = read_other(value)
    end
    if used and time <= now then
      level = used * scale - (now - time) * rate + (part > rate and rate or part)
      if level < 0 then level = 0 end
    else
      level = nil
    end
  end
  if not level then
    reply[at + 1] = -1
  elseif level + wanted > capacity then
    if level > 0 and rate > 0 then
      local reset = ceil(level / rate)
      if reset > LIFETIME_MAX then reset = LIFETIME_MAX end
      if reset > call('PTTL', key) + 1 then call('PEXPIRE', key, reset) end
    end
    reply[at + 1] = -2 - level
  elseif level == 0 and first_text then
    call('SET', key, first_text, 'PX', first_lifetime)
    reply[at + 1] = wanted
  else
    local after = level + wanted
    local used, time, part = ceil(after / scale), now, 0
    local drained = used * scale - after
    if drained > 0 then
      local ago = ceil(drained / rate)
      time, part = now - ago, ago * rate - drained
    end
    local text
    if part == 0 and time >= 1e12 and used < 900000 then
      text = format('%d%d', used, time)
    else
      text = format('%d:%d:%d', used, time, part)
    end
    local reset = ceil(after / rate)
    if reset > LIFETIME_MAX then reset = LIFETIME_MAX end
    local lifetime = format('%d', reset)
    call('SET', key, text, 'PX', lifetime)
    if level == 0 then first_text, first_lifetime = text, lifetime end
    reply[at + 1] = after
  end
end
return reply
