--[[
  `now`: the time in ms, from `now_override` in tests, otherwise the server's.
]]
local now = tonumber(now_override)
if not now then
  local time = redis.call('TIME')
  local us = tonumber(time[2])
  now = time[1] * 1000 + (us - us % 1000) / 1000
end
