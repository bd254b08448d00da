--[[
  Charges groups of token buckets, each group all or nothing, in order: the fast path of charge.lua
  for groups of one shape. Groups with a counter that has holds, or that is from the future, are
  left to charge.lua.

  KEYS     the counters, in the order of the groups
  ARGV     the time in ms, or -1 for the server's; for each charge of a group: burst, units per
           token, units per ms, cost
  Returns  for each counter, as an integer, the level in units as it is now; if it was denied, the
           negative of it less 2; or -1 for all of a group that is not for this script, of which
           nothing was done. If one of a group is denied, none of it is charged
  Expiry   of each counter when the level has drained to zero, at most 400 days; also if it was not
           charged under a limit that drains more slowly than the one before
]]
local call, pcall, ceil, format = redis.call, redis.pcall, math.ceil, string.format
local now_override = ARGV[1] ~= '-1' and ARGV[1]
-- @include now
local EXACT_MAX, LIFETIME_MAX = 9007199254740991, 34560000000
local size = (#ARGV - 1) / 4
local scales, rates, capacities, wanteds, levels, reply = {}, {}, {}, {}, {}, {}
for at = 1, size do
  local from = at * 4 - 2
  local scale = ARGV[from + 1] + 0
  scales[at], rates[at] = scale, ARGV[from + 2] + 0
  capacities[at], wanteds[at] = ARGV[from] * scale, ARGV[from + 3] * scale
end

for first = 0, #KEYS - 1, size do
  local is_left, is_denied = false, false
  for at = 1, size do
    local value, level, rate = pcall('GET', KEYS[first + at]), 0, rates[at]
    local number = value and tonumber(value)
    if number and number <= EXACT_MAX then
      local time = number % 1e13
      level = (number - time) / 1e13 * scales[at] - (now - time) * rate
      if time > now then is_left = true end
    elseif type(value) == 'string' then
      local used, time, part = string.match(value, '^(%d+):(%d+):(%d+)$')
      if not used then used, time = string.match(value, '^(%d+)(%d%d%d%d%d%d%d%d%d%d%d%d%d)$') end
      used, time, part = tonumber(used), tonumber(time), tonumber(part) or 0
      if used and time <= now then
        level = used * scales[at] - (now - time) * rate + (part > rate and rate or part)
      else
        is_left = true
      end
    elseif value then
      is_left = true
    end
    if level < 0 then level = 0 end
    levels[at] = level
    if level + wanteds[at] > capacities[at] then is_denied = true end
  end

  for at = 1, size do
    local key, level, rate, scale = KEYS[first + at], levels[at], rates[at], scales[at]
    local after = level + wanteds[at]
    if is_left then
      reply[first + at] = -1
    elseif is_denied then
      if level > 0 and rate > 0 then
        local reset = ceil(level / rate)
        if reset > LIFETIME_MAX then reset = LIFETIME_MAX end
        if reset > call('PTTL', key) + 1 then call('PEXPIRE', key, reset) end
      end
      reply[first + at] = after > capacities[at] and -2 - level or level
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
      if reset > LIFETIME_MAX then reset = LIFETIME_MAX end
      call('SET', key, text, 'PX', format('%d', reset))
      reply[first + at] = after
    end
  end
end
return reply
