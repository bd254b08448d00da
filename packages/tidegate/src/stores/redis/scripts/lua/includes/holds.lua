--[[
  Holds: the port of algorithms/holds.ts. A hold is { id, units, ttl in ms, expiry in ms }. A lease
  is one whose id begins with !; it is charged when its time is over.

  The holds of a counter are nil, or a table with the fields of their head (hold-set.lua) and the
  changes of the set: the hold that is `added`, the members of the one that is `dropped`, the time
  up to which they have `expired_by`; and after the clock has jumped back, `all` that are open and
  those that have `moved`. In a list they are in `pages` (hold-pages.lua), read when needed.
]]
-- @include stamp
-- @include hold-set

local ID_BYTES = 36
local PART_MAX = 128

local LEASE_MARK = string.byte('!')
local MONTH_MAX = 2678400000

local no_holds = { held = 0, count = 0, leases = 0 }

local function is_lease(id)
  return string.byte(id) == LEASE_MARK
end

-- The longest time that used units of a limit can matter.
local function lasts(limit)
  local number = limit.number
  if number == 1 then
    return limit[3] == 0 and 34560000000 or math.ceil(limit[1] * limit[2] / limit[3])
  elseif number == 2 then
    return 2 * limit[2]
  elseif number == 3 then
    return limit[2]
  elseif number == 4 then
    return limit[2] == 0 and MONTH_MAX or limit[2]
  end
  return 0
end

local function load_pages(holds)
  if holds.pages_stored and not holds.pages then
    holds.pages = redis.call('LRANGE', holds.key, -holds.pages_stored - 1, -2)
  end
  return holds.pages
end

-- Shows them to `visit` in parts, the first to expire first and the expired as well, until it
-- returns something; mostly at once, so that the parts of a set are longer the farther it gets.
local function walk_holds(holds, visit)
  if holds.all then return visit(holds.all) end
  local pages, stored = holds.pages, holds.pages_stored
  for number = 1, pages and #pages or stored or 0 do
    local page = pages and pages[number] or redis.call('LINDEX', holds.key, number - stored - 2)
    local found = visit(modules.hold_pages.read(page))
    if found then return found end
  end
  if pages or stored then return nil end
  local from, size = 0, 1
  repeat
    local part, is_last = read_members(holds, from, size)
    local found = visit(part)
    if found then return found end
    from, size = from + size, math.min(size * 4, PART_MAX)
  until is_last
end

local function by_expiry(one, other)
  return one[4] < other[4]
end

-- The clock jumped back: no hold lasts longer from now than its ttl.
local function bring_holds_to_present(holds, now)
  local open, moved, held, leases, is_sorted = {}, {}, 0, 0, true
  walk_holds(holds, function(part)
    for _, hold in ipairs(part) do
      if hold[4] > now + hold[3] then
        hold[4] = now + hold[3]
        moved[#moved + 1] = hold
      end
      if hold[4] > now then
        is_sorted = is_sorted and (#open == 0 or open[#open][4] <= hold[4])
        open[#open + 1], held = hold, held + hold[2]
        if is_lease(hold[1]) then leases = leases + 1 end
      elseif is_lease(hold[1]) then
        holds.due[#holds.due + 1] = hold
      end
    end
  end)
  holds.latest = now
  if #moved == 0 and #open == holds.count then return false end
  if not is_sorted then table.sort(open, by_expiry) end
  holds.held, holds.count, holds.leases, holds.expired_by = held, #open, leases, now
  if #open > 0 then holds.first, holds.last = open[1][4], open[#open][4] end
  if holds.pages_stored then
    holds.pages = modules.hold_pages.of(open)
  else
    holds.all, holds.moved = open, moved
  end
  return true
end

-- When the last open one stops to matter; a lease still does after it was charged. Without one id.
local function last_without(holds, id, now, limit)
  local last = now
  walk_holds(holds, function(part)
    for _, hold in ipairs(part) do
      if hold[1] ~= id and hold[4] > now then
        last = math.max(last, hold[4] + (is_lease(hold[1]) and lasts(limit) or 0))
      end
    end
  end)
  return last
end

-- Takes out the expired. Returns whether anything is changed, which has to be kept, so that a clock
-- that jumps back revives none.
local function take_expired(holds, now)
  if holds.latest > now then return bring_holds_to_present(holds, now) end
  if holds.first > now then return false end
  if holds.leases == 0 and holds.last <= now then
    holds.held, holds.count, holds.expired_by = 0, 0, now
    holds.pages = holds.pages_stored and {}
    return true
  end
  local gone, held, leases = 0, holds.held, holds.leases
  holds.first = walk_holds(holds, function(part)
    for _, hold in ipairs(part) do
      if hold[4] > now then return hold[4] end
      gone, held = gone + 1, held - hold[2]
      if is_lease(hold[1]) then
        leases = leases - 1
        holds.due[#holds.due + 1] = hold
      end
    end
  end)
  if gone == 0 then return false end
  holds.held, holds.count, holds.expired_by = held, holds.count - gone, now
  holds.leases = leases
  if load_pages(holds) then holds.pages = modules.hold_pages.after(holds.pages, gone) end
  return true
end

-- Takes out the expired, and charges expired leases to the state.
local function open_holds(holds, state, now, limit)
  holds.due = {}
  local had_leases = holds.leases > 0
  local is_changed = take_expired(holds, now)
  if had_leases and holds.count > 0 then holds.last = last_without(holds, '', now, limit) end
  for _, hold in ipairs(holds.due) do
    state = limit.algorithm.adjust(state, hold[2], hold[4], limit)
  end
  return state, is_changed
end

local function copy_of(holds)
  local copy = {}
  for name, value in pairs(holds) do copy[name] = value end
  return copy
end

-- Counts a hold that was put into a copy.
local function count_in(more, hold, now, limit)
  local id, units, ttl, expiry = unpack(hold)
  if more.count == 0 then more.ttl, more.first, more.last = ttl, expiry, expiry end
  more.first, more.last = math.min(more.first, expiry), math.max(more.last, expiry)
  if is_lease(id) then
    more.leases = more.leases + 1
    more.last = math.max(more.last, expiry + lasts(limit))
  end
  more.held, more.count, more.latest = more.held + units, more.count + 1, now
end

-- Adds a hold to the open ones. In a set, an id that exists already is the same hold.
local function with_hold(counter, units, now)
  local id, ttl, holds = counter.id, counter.ttl, counter.holds
  if #id > ID_BYTES then error('TIDEGATE-ID ' .. #id) end
  local hold = { id, units, ttl, now + ttl }
  local more = copy_of(holds or counter.limit.algorithm.no_holds or no_holds)
  if load_pages(more) then
    more.pages = modules.hold_pages.with(more.pages, hold)
  elseif holds and find_members(holds, id, now) then
    return holds
  else
    more.added, more.is_over_state = hold, not holds and counter.state ~= nil
  end
  count_in(more, hold, now, counter.limit)
  return more
end

local function without_hold(holds, id, now, limit)
  local less = copy_of(holds)
  if load_pages(less) then
    local units, count
    less.pages, units, count = modules.hold_pages.without(less.pages, id)
    less.held, less.count = less.held - units, less.count - count
    if count > 0 and is_lease(id) then less.leases = less.leases - count end
    less.last = modules.hold_pages.last_expiry(less.pages)
    if less.leases > 0 then less.last = last_without(less, id, now, limit) end
    return less
  end
  local members, units, expiry = find_members(holds, id, now)
  if not members then return holds end
  less.held, less.count, less.dropped = less.held - units, less.count - 1, members
  if is_lease(id) then less.leases = less.leases - 1 end
  if holds.leases > 0 or holds.all then
    less.last = last_without(holds, id, now, limit)
  elseif expiry == less.last and less.count > 0 then
    less.last = last_expiry_without(holds, members)
  end
  return less
end

-- The holds with one prolonged from now on, or nil if that is not open. A member of a set that
-- stays is written with its new score, and not dropped.
local function renewed_hold(holds, id, ttl, now, limit)
  local more = without_hold(holds, id, now, limit)
  if more.count == holds.count then return nil end
  local hold = { id, holds.held - more.held, ttl, now + ttl }
  local members = more.dropped
  count_in(more, hold, now, limit)
  if load_pages(more) then
    more.pages = modules.hold_pages.with(more.pages, hold)
    return more
  end
  local _, _, _, second = members_of(hold, more.ttl)
  more.added = hold
  more.dropped = members[2] and members[2] ~= second and { members[2] } or nil
  local moved = {}
  for _, other in ipairs(holds.moved or {}) do
    if other[1] ~= id then moved[#moved + 1] = other end
  end
  more.moved = moved
  return more
end

-- One that is to be dropped is still in its set.
local function is_open(holds, hold, now)
  return hold[4] > now and not (holds.dropped and holds.dropped[1] == hold[1])
end

-- When the first open hold expires.
local function first_expiry(holds, now)
  return walk_holds(holds, function(part)
    for _, hold in ipairs(part) do
      if is_open(holds, hold, now) then return hold[4] end
    end
  end)
end

-- The wait until the algorithm admits. It checks each interval between two expiries. With each
-- expiry less is held and the wait is shorter, so if it is too long after the last of a part, it is
-- too long after the others.
local function retry_beside(algorithm, state, holds, wait, cost, now, p)
  local held = holds.held
  local function wait_beside(units)
    local _, _, _, retry = algorithm.charge(state, cost, now, p, units)
    return retry < 0 and math.huge or retry
  end
  local function is_too_early(part)
    local left, expires_in = held, 0
    for _, hold in ipairs(part) do
      if is_open(holds, hold, now) then left, expires_in = left - hold[2], hold[4] - now end
    end
    local wait_left = wait_beside(left)
    if wait_left <= expires_in then return false end
    held, wait = left, wait_left
    return true
  end
  if wait < 0 then wait = math.huge end
  if wait_beside(0) == math.huge then return -1 end
  return walk_holds(holds, function(part)
    if #part > 1 and is_too_early(part) then return nil end
    for _, hold in ipairs(part) do
      if is_open(holds, hold, now) then
        local expires_in = hold[4] - now
        if wait < expires_in then return wait end
        held = held - hold[2]
        wait = wait_beside(held)
        if wait <= expires_in then return expires_in end
      end
    end
  end) or wait
end

local function charge_beside(algorithm, state, holds, cost, now, p)
  local after, allowed, remaining, retry, reset =
    algorithm.charge(state, cost, now, p, holds.held)
  if not allowed then retry = retry_beside(algorithm, state, holds, retry, cost, now, p) end
  if reset >= 0 then reset = math.max(reset, holds.last - now) end
  return after, allowed, remaining, retry, reset
end

return {
  max = 10000,
  load_set = load_set,
  store_set = store_set,
  read_head = read_head,
  write_head = write_head,
  load_pages = load_pages,
  open = open_holds,
  with = with_hold,
  without = without_hold,
  renewed = renewed_hold,
  first_expiry = first_expiry,
  charge_beside = charge_beside,
}
