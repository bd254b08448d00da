--[[
  What the entry scripts share: time, limits, and the loading and storing of counters.

  A limit in ARGV: the number of its algorithm, how many parameters follow, the parameters.
]]
local algorithms = { token_bucket, sliding_window, sliding_log, fixed_window, concurrency }

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

-- Whatever can be wrong with a limit shows here, before anything is written.
local function read_limits(now)
  local limits = {}
  for at = 1, next_number() do
    local limit = { algorithm = algorithms[next_number()] }
    for param = 1, next_number() do limit[param] = next_number() end
    if limit.algorithm.check then limit.algorithm.check(limit, now) end
    limits[at] = limit
  end
  return limits
end

-- The state and the open holds of a key, and whether these have to be kept as they are now.
local function load_counter(key, limit, now)
  local algorithm = limit.algorithm
  if algorithm.load_list then
    local state, holds = algorithm.load_list(key)
    return state, open_holds(holds, now)
  end
  local value = redis.call('GET', key)
  if not value then return nil, {}, false end
  local state, stop = algorithm.load(value, now)
  if #value < stop then return state, {}, false end
  return state, open_holds(cmsgpack.unpack(string.sub(value, stop)), now)
end

-- Stores what a counter is now; one that holds nothing is deleted.
local function store_counter(key, limit, state, holds, now, reset)
  local algorithm = limit.algorithm
  if reset < 0 or reset > LIFETIME_MAX then reset = LIFETIME_MAX end
  if algorithm.load_list then
    algorithm.store_list(key, state, holds, now, reset)
    return
  end
  local has_holds = #holds > 0
  if (not state and not has_holds) or reset == 0 then
    redis.call('DEL', key)
    return
  end
  local value = state and algorithm.save(state, has_holds, reset) or algorithm.none
  if has_holds then value = value .. cmsgpack.pack(holds) end
  redis.call('SET', key, value, 'PX', reset)
end

-- A counter that is not changed lasts longer under a limit that drains more slowly than before. One
-- millisecond may have passed since the time was read.
local function prolong_counter(key, reset)
  if reset > LIFETIME_MAX then reset = LIFETIME_MAX end
  if reset > 0 and reset > redis.call('PTTL', key) + 1 then redis.call('PEXPIRE', key, reset) end
end

-- Stores a counter that was adjusted, and tells what is left of it and when nothing is used.
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
