--[[
  Shared by the entry scripts: time, limits, and the loading and storing of counters.

  A limit in ARGV: the number of its algorithm, how many parameters follow, the parameters.
]]
local LIFETIME_MAX = 34560000000

local position = 0

local function next_argument()
  position = position + 1
  return ARGV[position]
end

local function next_number()
  position = position + 1
  return tonumber(ARGV[position])
end

-- Milliseconds: the server's own time, or that of a test.
local function read_now()
  local given = next_number()
  if given >= 0 then return given end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- Errors in a limit are raised here, before any write.
local function read_limits(now)
  local limits = {}
  for at = 1, next_number() do
    local number = next_number()
    local limit = { algorithm = modules[number], number = number }
    for param = 1, next_number() do limit[param] = next_number() end
    if limit.algorithm.check then limit.algorithm.check(limit, now) end
    limits[at] = limit
  end
  return limits
end

-- The state in a set with holds, and the holds.
local function load_beside_holds(key, algorithm)
  local member = redis.call('ZRANGE', key, -1, -1)[1]
  if not member then return nil, nil end
  local holds, value = modules.holds.load_set(key, member)
  return value ~= '' and algorithm.load(value) or nil, holds
end

-- Returns the state and the open holds of a key, and true if the holds have to be stored again.
-- MGET returns nothing for a set; GET would be an error, which the server counts.
local function load_counter(key, limit, now)
  local algorithm = limit.algorithm
  local state, holds
  if algorithm.load_list then
    state, holds = algorithm.load_list(key)
  else
    local value = algorithm.load and redis.call('MGET', key)[1]
    if value then return algorithm.load(value), nil, false end
    state, holds = load_beside_holds(key, algorithm)
  end
  if not holds then return state, nil, false end
  local present, is_changed = modules.holds.open(holds, state, now, limit)
  return present, holds, is_changed
end

-- Decides about a cost with held units.
local function charge_beside(algorithm, state, holds, cost, now, p)
  if not holds or holds.count == 0 then return algorithm.charge(state, cost, now, p, 0) end
  return modules.holds.charge_beside(algorithm, state, holds, cost, now, p)
end

-- Stores a counter; an empty one is deleted. So is a set before it becomes a
-- string, because then a server without memory does not refuse it.
local function store_counter(key, limit, state, holds, now, reset)
  local algorithm = limit.algorithm
  if reset < 0 or reset > LIFETIME_MAX then reset = LIFETIME_MAX end
  if algorithm.load_list then
    algorithm.store_list(key, state, holds, now, reset)
  elseif holds and holds.count > 0 then
    modules.holds.store_set(key, holds, state and algorithm.save(state) or '', reset)
  else
    local is_empty = not state or reset == 0
    if holds or is_empty then redis.call('DEL', key) end
    if not is_empty then redis.call('SET', key, algorithm.save(state), 'PX', reset) end
  end
end

-- A counter that is not changed lasts longer under a limit that drains more slowly than before. One
-- millisecond may have passed since the time was read.
local function prolong_counter(key, reset)
  if reset > LIFETIME_MAX then reset = LIFETIME_MAX end
  if reset > 0 and reset > redis.call('PTTL', key) + 1 then redis.call('PEXPIRE', key, reset) end
end

-- Stores an adjusted counter; returns the units left and the time until nothing is used.
local function settle_counter(key, limit, state, holds, now)
  local algorithm = limit.algorithm
  if algorithm.load_list then
    algorithm.store_list(key, state, holds, now, limit[2])
    state, holds = algorithm.load_list(key)
  end
  local _, _, remaining, _, reset = charge_beside(algorithm, state, holds, 0, now, limit)
  if not algorithm.load_list then
    store_counter(key, limit, state, holds, now, reset)
  elseif reset > 0 then
    redis.call('PEXPIRE', key, reset)
  end
  return remaining, reset
end
