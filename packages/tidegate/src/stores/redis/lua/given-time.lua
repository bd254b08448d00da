--[[
  The time in ms that is given in `given_time`, for tests, or else the server's.
]]
local now = tonumber(given_time)
if not now then
  local time = redis.call('TIME')
  local us = tonumber(time[2])
  now = time[1] * 1000 + (us - us % 1000) / 1000
end
