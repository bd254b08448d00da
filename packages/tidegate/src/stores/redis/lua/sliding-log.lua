--[[
  Sliding log: the port of algorithms/sliding-log.ts, as a list, because a string would be copied
  whole for every request.

  Params   p[1] limit, p[2] length in ms
  State    { key, sum of the costs, entries, entries that left the window, cost to append, whether
           there are entries from the future to be brought to the present }
  Value    a list of whole numbers, the oldest first: (time in ms since 2020) * 4096 + cost, a cost
           above 4095 in several entries; last the sum, or the sum and the holds packed together.
           A list keeps such a number in 10 bytes
  Expiry   when the newest entry leaves the window
]]
local sliding_log = {}

local LOG_EPOCH = 1577836800000
local LOG_COST = 4096
local LOG_STEP = 128

local function log_read(text)
  local number = tonumber(text)
  local cost = number % LOG_COST
  return (number - cost) / LOG_COST + LOG_EPOCH, cost
end

-- Pushes a cost in entries of at most 4095 to the end.
local function log_push(key, time, cost)
  while cost > 0 do
    local part = math.min(cost, LOG_COST - 1)
    redis.call('RPUSH', key, string.format('%.0f', (time - LOG_EPOCH) * LOG_COST + part))
    cost = cost - part
  end
end

-- The clock jumped back: what lies ahead of it happened, as far as anyone can tell, just now.
local function log_bring_to_present(key, now)
  local last, ahead = redis.call('RPOP', key), 0
  local newest = redis.call('RPOP', key)
  while newest do
    local time, cost = log_read(newest)
    if time <= now then
      redis.call('RPUSH', key, newest)
      break
    end
    ahead = ahead + cost
    newest = redis.call('RPOP', key)
  end
  log_push(key, now, ahead)
  redis.call('RPUSH', key, last)
end

-- Loads the state and the holds; nothing is written before the state is stored.
function sliding_log.load_list(key)
  local last = redis.call('LINDEX', key, -1)
  if not last then return nil, {} end
  local sum, holds = tonumber(last), {}
  if not sum then
    local packed = cmsgpack.unpack(last)
    sum, holds = packed[1], packed[2]
  end
  return { key, sum, redis.call('LLEN', key) - 1, 0, 0 }, holds
end

-- Walks from an entry on until `visit` returns something, mostly at the first, so with longer steps
-- the farther it gets.
local function log_walk(state, from, visit)
  local step = 1
  while from < state[3] do
    local stop = math.min(from + step, state[3]) - 1
    step = math.min(step * 4, LOG_STEP)
    for _, text in ipairs(redis.call('LRANGE', state[1], from, stop)) do
      local time, cost = log_read(text)
      local found = visit(time, cost)
      if found then return found end
      from = from + 1
    end
  end
end

local function log_expired(state, now, p)
  local gone, sum = 0, state[2]
  log_walk(state, 0, function(time, cost)
    if time + p[2] > now then return true end
    gone, sum = gone + 1, sum - cost
  end)
  return gone, sum
end

local function log_wait(state, gone, units, now, p)
  local freed = 0
  return log_walk(state, gone, function(time, cost)
    freed = freed + cost
    if freed >= units then return math.min(time, now) + p[2] - now end
  end) or -1
end

-- When the newest entry leaves the window, and whether it is from the future.
local function log_reset(state, now, p)
  local newest = now
  if state[3] > state[4] then newest = log_read(redis.call('LINDEX', state[1], -2)) end
  if state[5] > 0 then return p[2], newest > now end
  if state[2] == 0 then return 0, false end
  return math.min(newest, now) + p[2] - now, newest > now
end

function sliding_log.charge(state, cost, now, p, held)
  local gone, sum, count = 0, 0, 0
  if state then
    gone, sum = log_expired(state, now, p)
    count = state[3]
  end
  local capacity = p[1] - held
  local allowed = sum + cost <= capacity or cost == 0
  local granted = allowed and cost or 0
  local after = { state and state[1], sum + granted, count, gone, granted }
  local retry = 0
  if not allowed then
    retry = state and log_wait(state, gone, sum + cost - capacity, now, p) or -1
  end
  local reset, is_ahead = log_reset(after, now, p)
  after[6] = is_ahead
  return after, allowed, math.max(0, capacity - after[2]), retry, reset
end

-- Takes back the newest first, or appends without asking.
function sliding_log.adjust(state, units, now, p)
  local after = sliding_log.charge(state, 0, now, p, 0)
  if units >= 0 then
    after[2], after[5] = after[2] + units, units
    return after
  end
  local key, left = after[1], -units
  if not key then return nil end
  local last = redis.call('RPOP', key)
  while left > 0 and after[3] > after[4] do
    local text = redis.call('RPOP', key)
    local time, cost = log_read(text)
    local taken = math.min(left, cost)
    after[2], after[3], left = after[2] - taken, after[3] - 1, left - taken
    if taken < cost then
      log_push(key, time, cost - taken)
      after[3] = after[3] + 1
    end
  end
  redis.call('RPUSH', key, last)
  return after
end

function sliding_log.store_list(key, state, holds, now, reset)
  local sum = state and state[2] or 0
  if sum == 0 and #holds == 0 then
    redis.call('DEL', key)
    return
  end
  if state and state[4] > 0 then redis.call('LTRIM', key, state[4], -1) end
  if state and state[6] then log_bring_to_present(key, now) end
  redis.call('RPOP', key)
  if state then log_push(key, now, state[5]) end
  local last = sum
  if #holds > 0 then last = cmsgpack.pack({ sum, holds }) end
  redis.call('RPUSH', key, last)
  redis.call('PEXPIRE', key, reset)
end
