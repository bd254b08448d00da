--[[
  `now`: the time in ms, from `now_override` in tests, otherwise the server's.
]]
local now = now_override and now_override + 0
if not now then
  local time = redis.call('TIME')
  local us = time[2] + 0
  now = time[1] * 1000 + (us - us % 1000) / 1000
end
