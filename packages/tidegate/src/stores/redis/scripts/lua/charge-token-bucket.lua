--[[
  Charges single counters of a token bucket, one after the other, each with the same cost. It is the
  fast path of most commands: token-bucket.lua without tables and functions, and with numbers that
  are formatted as integers, which takes a third of the time of a double. If a counter has open
  leases, it only grants. Counters with other holds, and those from the future, are left to
  charge.lua.

  KEYS     the counters
  ARGV     burst, units per token, units per ms; the cost if it is not 1; for tests, the time in
           ms instead of the server's
  Returns  for each counter, as an integer, the level in units: as it is now if the cost was
           granted; if it was denied, the negative of it less 2; or -1 if the counter is not for
           this script and nothing was done. The units left follow from the level. If the cost was
           granted and there are leases, a list of the level, of the units that they hold, and of
           the time in ms until the last stops to matter. For a single counter not as a list
  Expiry   of each counter exactly when the level has drained to zero, at most 400 days; also if
           it was denied under a limit that drains more slowly than the one before
]]
local call, pcall, ceil, format = redis.call, redis.pcall, math.ceil, string.format
local scale, rate = ARGV[2] + 0, ARGV[3] + 0
local capacity, wanted = ARGV[1] * scale, ARGV[4] and ARGV[4] * scale or scale
local now_override = ARGV[5]
-- @include now
local EXACT_MAX, LIFETIME_MAX = 9007199254740991, 34560000000
local HEAD, HEAD_BYTES = '<dI2I6I5I6I6I2', 35
local count = #KEYS
-- The answers replace their keys, so that no other table has to grow.
local reply = KEYS

-- The value of a counter that was empty: it is the same for all of them, so it is written once.
local first_text, first_lifetime
-- Redis 7 reads a counter and creates it if it is absent in one command, which takes a quarter less
-- than two. Behind an absent counter the next one is tried that way; another one costs no more.
local can_create, is_absent = redis.REDIS_VERSION_NUM, false

for at = 1, count do
  local key = KEYS[at]
  local level, room, is_left, is_created, leases, last = 0, capacity, false, false, nil, nil
  local value
  if is_absent and first_text and can_create then
    value = pcall('SET', key, first_text, 'PX', first_lifetime, 'NX', 'GET')
    is_created = not value
  else
    value = pcall('GET', key)
  end
  is_absent = not value
  local number = value and tonumber(value)
  if number and number <= EXACT_MAX then
    local time = number % 1e13
    level = (number - time) / 1e13 * scale - (now - time) * rate
    is_left = time > now
  elseif value then
    local found
    if type(value) == 'table' then
      found = value.err:find('WRONGTYPE') and rate > 0 and call('ZRANGE', key, -2, -1, 'WITHSCORES')
      value, is_left = '', true
    end
    -- Open leases in a set (hold-set.lua), and the bucket beside them.
    if found and found[3] then
      leases = { struct.unpack(HEAD, found[3]) }
      is_left = leases[7] ~= leases[2] or leases[3] > now or leases[5] <= now
      local stamp = tonumber(found[2])
      last = (stamp - stamp % 4096) / 4096 + 1577836800000 + ceil(capacity / rate)
      leases.member, value = found[3], string.sub(found[3], HEAD_BYTES + 1)
      room = capacity - leases[1] * scale
    end
    if value ~= '' then
      local used, time, part = string.match(value, '^(%d+):(%d+):(%d+)$')
      if not used then used, time = string.match(value, '^(%d+)(%d%d%d%d%d%d%d%d%d%d%d%d%d)$') end
      used, time, part = tonumber(used), tonumber(time), tonumber(part) or 0
      if used and time <= now then
        level = used * scale - (now - time) * rate + (part > rate and rate or part)
      else
        is_left = true
      end
    end
  end
  if level < 0 then level = 0 end
  local after, answer = level + wanted, nil

  if is_created then
    answer = wanted
  elseif is_left or (leases and after > room) then
    answer = -1
  elseif after > room then
    if level > 0 and rate > 0 then
      local reset = ceil(level / rate)
      if reset > LIFETIME_MAX then reset = LIFETIME_MAX end
      if reset > call('PTTL', key) + 1 then call('PEXPIRE', key, reset) end
    end
    answer = -2 - level
  elseif level == 0 and first_text and not leases then
    call('SET', key, first_text, 'PX', first_lifetime)
    answer = wanted
  else
    -- The level in units as tokens, the moment of it, and the part of a millisecond.
    local rest = after % scale
    local used, time, part, text = (after - rest) / scale, now, 0, nil
    if rest > 0 then
      local drained = scale - rest
      local ago = ceil(drained / rate)
      used, time, part = used + 1, now - ago, ago * rate - drained
    end
    if part == 0 and time >= 1e12 and used < 900000 then
      text = format('%d%d', used, time)
    else
      text = format('%d:%d:%d', used, time, part)
    end
    local reset = ceil(after / rate)
    if leases and last - now > reset then reset = last - now end
    if reset > LIFETIME_MAX then reset = LIFETIME_MAX end
    local lifetime = format('%d', reset)
    if leases then
      leases[6] = last
      call('ZREM', key, leases.member)
      call('ZADD', key, 'inf', struct.pack(HEAD, unpack(leases, 1, 7)) .. text)
      call('PEXPIRE', key, lifetime)
      answer = { after, leases[1], last - now }
    else
      call('SET', key, text, 'PX', lifetime)
      if level == 0 then first_text, first_lifetime = text, lifetime end
      answer = after
    end
  end
  if count == 1 then return answer end
  reply[at] = answer
end
return reply
