--[[
  Decides about groups of counters and charges them, each group all or nothing, in order.

  KEYS     the counters, in the order of the groups
  ARGV     the time in ms, or -1 for the server's; the limits (counters.lua); then runs of groups
           of the same shape: how many groups, mode (0 all, 1 partial, 2 peek, 3 lease), times,
           charges per group, and for each charge the number of its limit, its cost, the ttl in ms
           of its hold or 0, and the id of its hold or ''
           Mode 3 is partial for a group of one; then follow the id of a hold that is settled first,
           and how much was spent of it. It is denied if that hold is not known
           Times above 1 stands for as many groups of one charge on the same counter: its cost is
           granted that many times, or as often as there is room
  Returns  integers: the time in ms, then for each counter: granted units, or how many times, or -1
           if denied; remaining units; retry time in ms, and reset time in ms, -1 for never
  Expiry   of each counter exactly when nothing is used or held any more
]]
-- @include modules
-- @include counters

local ALL, PARTIAL, PEEK, LEASE = 0, 1, 2, 3

local now = read_now()
local limits = read_limits(now)
local reply = { now }
local replied = 1

local function answer(granted, remaining, retry, reset)
  reply[replied + 1] = granted
  reply[replied + 2] = remaining
  reply[replied + 3] = retry
  reply[replied + 4] = reset
  replied = replied + 4
end

-- A denied charge leaves a state unchanged, except for expired parts.
local function is_changed(before, after, holds_before, holds)
  if holds ~= holds_before then return true end
  if after == before then return false end
  if after and after[5] then return after[4] > 0 or after[5] > 0 or after[6] end
  return true
end

local function charge_one(key, limit, cost)
  local before, holds, is_moved = load_counter(key, limit, now)
  local after, allowed, remaining, retry, reset =
    charge_beside(limit.algorithm, before, holds, cost, now, limit)
  if is_moved or is_changed(before, after, holds, holds) then
    store_counter(key, limit, after, holds, now, reset)
  else
    prolong_counter(key, reset)
  end
  answer(allowed and cost or -1, remaining, retry, reset)
end

local function charge_times(key, limit, cost, times)
  local algorithm = limit.algorithm
  local before, holds, is_moved = load_counter(key, limit, now)
  local after, _, remaining, _, reset = charge_beside(algorithm, before, holds, 0, now, limit)
  local granted = cost == 0 and times or math.min(times, math.floor(remaining / cost))
  local retry = 0
  if granted > 0 and cost > 0 then
    after, _, remaining, _, reset =
      charge_beside(algorithm, before, holds, granted * cost, now, limit)
  end
  if is_moved or is_changed(before, after, holds, holds) then
    store_counter(key, limit, after, holds, now, reset)
    if granted < times then after, holds = load_counter(key, limit, now) end
  else
    prolong_counter(key, reset)
  end
  if granted < times then
    _, _, _, retry = charge_beside(algorithm, after, holds, cost, now, limit)
  end
  answer(granted, remaining, retry, reset)
end

local function look(counter)
  local _, _, remaining, _, reset =
    charge_beside(counter.limit.algorithm, counter.state, counter.holds, 0, now, counter.limit)
  return remaining, reset
end

local function judge(counter, cost)
  local algorithm, limit, holds = counter.limit.algorithm, counter.limit, counter.holds
  if counter.is_lost then cost = 0 end
  local after, allowed, remaining, retry, reset =
    charge_beside(algorithm, counter.state, holds, cost, now, limit)
  local judged = { after = after, holds = holds, allowed = allowed, cost = cost }
  judged.remaining, judged.retry, judged.reset = remaining, retry, reset
  if counter.is_lost then judged.allowed = false end
  if not judged.allowed or counter.ttl == 0 then return judged end
  judged.after = counter.state
  if holds and holds.count >= modules.holds.max then
    judged.allowed, judged.retry = false, modules.holds.first_expiry(holds, now) - now
    return judged
  end
  judged.holds = modules.holds.with(counter, cost, now)
  local _, _, left, _, held_reset =
    charge_beside(algorithm, counter.state, judged.holds, 0, now, limit)
  judged.remaining, judged.reset = left, held_reset
  return judged
end

local function keep(counter, after, holds, reset)
  if counter.is_moved or is_changed(counter.state, after, counter.holds, holds) then
    store_counter(counter.key, counter.limit, after, holds, now, reset)
  else
    prolong_counter(counter.key, reset)
  end
end

-- The most units that every charge can have; at least 1, so that nothing left is a denial.
local function partial_units(counters)
  local least = math.huge
  for _, counter in ipairs(counters) do least = math.min(least, (look(counter))) end
  return math.max(1, least)
end

local function charge_group(counters, mode)
  local is_partial = mode == PARTIAL or mode == LEASE
  local units = is_partial and partial_units(counters) or math.huge
  local judged, all_allowed = {}, true
  for at, counter in ipairs(counters) do
    if mode == PEEK then counter.ttl = 0 end
    judged[at] = judge(counter, math.min(counter.cost, units))
    all_allowed = all_allowed and judged[at].allowed
  end
  for at, counter in ipairs(counters) do
    local one = judged[at]
    if mode == PEEK then
      local remaining, reset = look(counter)
      answer(one.allowed and 0 or -1, remaining, one.retry, reset)
    elseif all_allowed or not one.allowed then
      keep(counter, one.after, one.holds, one.reset)
      answer(one.allowed and one.cost or -1, one.remaining, one.retry, one.reset)
    else
      counter.ttl = 0
      local none = judge(counter, 0)
      keep(counter, none.after, none.holds, none.reset)
      answer(0, none.remaining, 0, none.reset)
    end
  end
end

local key_at = 0

local function read_charges(size)
  local charges = {}
  for at = 1, size do
    charges[at] = { limits[next_number()], next_number(), next_number(), next_argument() }
  end
  return charges
end

-- Drops a hold and charges the units that were spent of it.
local function settle(counter, release, spent)
  local before, limit = counter.holds, counter.limit
  if before then counter.holds = modules.holds.without(before, release, now, limit) end
  counter.is_lost = not before or counter.holds.count == before.count
  counter.state = limit.algorithm.adjust(counter.state, spent, now, limit)
  counter.is_moved = true
end

local function load_group(charges)
  local counters = {}
  for at, charge in ipairs(charges) do
    key_at = key_at + 1
    local counter = { key = KEYS[key_at], limit = charge[1], cost = charge[2] }
    counter.ttl, counter.id = charge[3], charge[4]
    counter.state, counter.holds, counter.is_moved = load_counter(counter.key, counter.limit, now)
    counters[at] = counter
  end
  return counters
end

while position < #ARGV do
  local groups, mode, times, size = next_number(), next_number(), next_number(), next_number()
  local charges = read_charges(size)
  local first = charges[1]
  for _ = 1, groups do
    if size == 1 and mode == ALL and first[3] == 0 then
      key_at = key_at + 1
      if times == 1 then
        charge_one(KEYS[key_at], first[1], first[2])
      else
        charge_times(KEYS[key_at], first[1], first[2], times)
      end
    else
      local counters = load_group(charges)
      if mode == LEASE then settle(counters[1], next_argument(), next_number()) end
      charge_group(counters, mode)
    end
  end
end

return reply
