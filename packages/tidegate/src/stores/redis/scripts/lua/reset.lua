--[[
  Forgets counters.

  KEYS     the counters
  ARGV     none
  Returns  how many there were
  Expiry   none
]]
return redis.call('DEL', unpack(KEYS))
