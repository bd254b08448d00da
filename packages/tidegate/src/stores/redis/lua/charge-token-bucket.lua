--[[
  Charges single counters of a token bucket, one after the other, each with the same cost: what most
  commands do, and so the one script that is written for speed. It is token-bucket.lua without
  tables, and with numbers that are formatted as integers, which takes a third of the time of a
  double. Beside open leases it only grants; what else has holds, and what is from the future, is
  left to charge.lua.

  KEYS     the counters
  ARGV     the cost; burst, units per token, units per ms; for tests, the time in ms instead of the
           server's
  Returns  integers: the time in ms, then for each counter the level in units: as it is now if the
           cost was granted; if it was denied, the negative of it less 2; or -1 if the counter is
           not for this script and nothing was done. What is left, and when, follows from the level.
           Where it was granted beside leases, a list of the level, of the units that they hold, and
           of the time in ms until the last stops to matter
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
  local used, time, part = string.match(value, '^(%d+):(%d+):(%d+)$')
  if not used then used, time = string.match(value, '^(%d+)(%d%d%d%d%d%d%d%d%d%d%d%d%d)$') end
  return tonumber(used), tonumber(time), tonumber(part) or 0
end

local function text_of(used, time, part)
  if part == 0 and time >= 1e12 and used < 900000 then return format('%d%d', used, time) end
  return format('%d:%d:%d', used, time, part)
end

-- The level in units as tokens, the moment of it, and the part of a millisecond.
local function state_of(level)
  local used = ceil(level / scale)
  local drained = used * scale - level
  if drained == 0 then return used, now, 0 end
  local ago = ceil(drained / rate)
  return used, now - ago, ago * rate - drained
end

local HEAD, HEAD_BYTES = '<dI2I6I5I6I6I2', 35

-- A charge beside leases in a set (hold-set.lua); nothing where it is not that simple.
local function charge_beside_leases(key)
  if rate == 0 then return end
  local found = call('ZRANGE', key, -2, -1, 'WITHSCORES')
  local old = found[3]
  if not old then return end
  local held, count, latest, ttl, first, _, leases = struct.unpack(HEAD, old)
  if leases ~= count or latest > now or first <= now then return end
  local level = 0
  if #old > HEAD_BYTES then
    local used, time, part = read_other(string.sub(old, HEAD_BYTES + 1))
    if time > now then return end
    level = math.max(0, used * scale - (now - time) * rate + math.min(part, rate))
  end
  local after = level + wanted
  if after > capacity - held * scale then return end
  local stamp = tonumber(found[2])
  local last = (stamp - stamp % 4096) / 4096 + 1577836800000 + ceil(capacity / rate)
  local head = struct.pack(HEAD, held, count, latest, ttl, first, last, leases)
  call('ZREM', key, old)
  call('ZADD', key, 'inf', head .. text_of(state_of(after)))
  local reset = math.max(ceil(after / rate), last - now)
  call('PEXPIRE', key, reset > LIFETIME_MAX and LIFETIME_MAX or reset)
  return { after, held, last - now }
end

-- What to store in a counter that was empty: the same for all of them, written once.
local first_text, first_lifetime

for at = 1, #KEYS do
  local key = KEYS[at]
  local value, level = pcall('GET', key), 0
  if value and type(value) ~= 'string' then
    reply[at + 1] = value.err:find('WRONGTYPE') and charge_beside_leases(key) or -1
    level = nil
  elseif value then
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
      level, reply[at + 1] = nil, -1
    end
  end
  if not level then
    -- Answered already.
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
    local text = text_of(state_of(after))
    local reset = ceil(after / rate)
    if reset > LIFETIME_MAX then reset = LIFETIME_MAX end
    local lifetime = format('%d', reset)
    call('SET', key, text, 'PX', lifetime)
    if level == 0 then first_text, first_lifetime = text, lifetime end
    reply[at + 1] = after
  end
end
return reply
