--[[
  Sliding log: the port of algorithms/sliding-log.ts, as a list, because a string would be copied
  whole for every request.

  Params   p[1] limit, p[2] length in ms
  State    { key, sum of the costs, entries, entries that left the window, cost to append, whether
           there are entries from the future to be brought to the present, what follows the entries,
           cost to take back }
  Value    a list of whole numbers, the oldest first: (time in ms since 2020) * 4096 + cost, a cost
           above 4095 in several entries; last the sum. A list keeps such a number in 10 bytes.
           With holds there follow their pages (hold-pages.lua), and last is an h, their head
           (hold-set.lua), the sum as a double and in two bytes the number of pages
  Expiry   when the newest entry leaves the window
]]
local sliding_log = { no_holds = { pages = {}, held = 0, count = 0, leases = 0 } }

-- @include stamp

local LOG_STEP = 128

-- Pushes a cost in entries of at most 4095 to the end.
local function log_push(key, time, cost)
  while cost > 0 do
    local part = math.min(cost, STAMP_UNITS - 1)
    redis.call('RPUSH', key, string.format('%.0f', write_stamp(time, part)))
    cost = cost - part
  end
end

-- Loads the state and the holds; nothing is written before the state is stored.
function sliding_log.load_list(key)
  local last = redis.call('LINDEX', key, -1)
  if not last then return nil, nil end
  local sum, holds, tail = tonumber(last), nil, 1
  if not sum then
    local at
    holds, at = modules.holds.read_head(key, last, 2)
    sum, holds.pages_stored = struct.unpack('<dI2', last, at)
    tail = holds.pages_stored + 1
  end
  return { key, sum, redis.call('LLEN', key) - tail, 0, 0, false, tail, 0 }, holds
end

-- Walks from an entry on until `visit` returns something, mostly at the first, so with longer steps
-- the farther it gets.
local function log_walk(state, from, visit)
  local step = 1
  while from < state[3] do
    local stop = math.min(from + step, state[3]) - 1
    step = math.min(step * 4, LOG_STEP)
    for _, text in ipairs(redis.call('LRANGE', state[1], from, stop)) do
      local time, cost = read_stamp(text)
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
  if state[3] > state[4] then
    newest = read_stamp(redis.call('LINDEX', state[1], -state[7] - 1))
  end
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
  local tail = state and state[7] or 0
  local after = { state and state[1], sum + granted, count, gone, granted, false, tail, 0 }
  local retry = 0
  if not allowed then
    retry = state and log_wait(state, gone, sum + cost - capacity, now, p) or -1
  end
  local reset, is_ahead = log_reset(after, now, p)
  after[6] = is_ahead
  return after, allowed, math.max(0, capacity - after[2]), retry, reset
end

function sliding_log.adjust(state, units, now, p)
  local after = sliding_log.charge(state, 0, now, p, 0)
  after[2] = math.max(0, after[2] + units)
  after[units < 0 and 8 or 5] = math.abs(units)
  return after
end

-- The clock jumped back: entries ahead of it count as of now.
local function log_bring_to_present(key, now)
  local ahead, newest = 0, redis.call('RPOP', key)
  while newest do
    local time, cost = read_stamp(newest)
    if time <= now then
      redis.call('RPUSH', key, newest)
      break
    end
    ahead, newest = ahead + cost, redis.call('RPOP', key)
  end
  log_push(key, now, ahead)
end

-- Takes back the newest first.
local function log_take_back(key, cost)
  while cost > 0 do
    local newest = redis.call('RPOP', key)
    if not newest then return end
    local time, units = read_stamp(newest)
    log_push(key, time, units - math.min(cost, units))
    cost = cost - units
  end
end

-- The values after the entries.
local function log_tail(sum, holds)
  if not holds or holds.count == 0 then return { sum } end
  local tail = { unpack(modules.holds.load_pages(holds)) }
  tail[#tail + 1] = 'h' .. modules.holds.write_head(holds) .. struct.pack('<dI2', sum, #tail)
  return tail
end

function sliding_log.store_list(key, state, holds, now, reset)
  local sum = state and state[2] or 0
  if sum == 0 and not (holds and holds.count > 0) then
    redis.call('DEL', key)
    return
  end
  local tail = log_tail(sum, holds)
  if state and state[1] then
    redis.call('LTRIM', key, state[4], -state[7] - 1)
    if state[6] then log_bring_to_present(key, now) end
    log_take_back(key, state[8])
  end
  if state then log_push(key, now, state[5]) end
  redis.call('RPUSH', key, unpack(tail))
  redis.call('PEXPIRE', key, reset)
end

return sliding_log
