--[[
  Registers a process, and counts the registered ones.

  KEYS     the sorted set of the processes, each with the end of its registration in ms
  ARGV     the id of the process, and the ms of its registration; 0 ends it
  Returns  the number of processes
  Expiry   of the set when the last registration ends
]]
local MEMBERS_MAX = 10000

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local key, id, lifetime = KEYS[1], ARGV[1], tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', now))
if lifetime == 0 then
  redis.call('ZREM', key, id)
else
  -- A clock that was ahead and is right again must not prolong registrations.
  redis.call('ZREMRANGEBYSCORE', key, string.format('(%d', now + lifetime), '+inf')
  if redis.call('ZCARD', key) < MEMBERS_MAX then
    redis.call('ZADD', key, string.format('%d', now + lifetime), id)
  end
  redis.call('PEXPIRE', key, lifetime)
end
return redis.call('ZCARD', key)
