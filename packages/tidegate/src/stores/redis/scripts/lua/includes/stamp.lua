--[[
  A stamp is a time and less than 4096 units in one whole number: (ms since 2020) * 4096 + units.
]]
local STAMP_UNITS = 4096

local function write_stamp(time, units)
  return (time - 1577836800000) * STAMP_UNITS + units
end

local function read_stamp(text)
  local number = tonumber(text)
  local units = number % STAMP_UNITS
  return (number - units) / STAMP_UNITS + 1577836800000, units
end
