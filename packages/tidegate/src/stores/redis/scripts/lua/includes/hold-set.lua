--[[
  Holds in a sorted set, so that a call reads only the holds that it needs. An id is a UUID, or
  another text of at most 36 bytes without a zero byte.

  Hold     a member that is the id, scored with the stamp of its expiry and units (stamp.lua). With
           4095 units or more, or another ttl than the usual one, it is scored as of 4095 units, and
           a second member of the same score comes right behind it: id, zero byte, and units and
           ttl in ms as doubles
  Last     a member scored infinite: the head, then the state as it is stored without holds
  Head     35 bytes: units held, number of holds, when the latest was made, the usual ttl, a time
           before which none expires, when the last one stops to matter, number of leases
]]
local HOLD_MANY = STAMP_UNITS - 1
local HEAD = '<dI2I6I5I6I6I2'

local function write_head(holds)
  local held, count, latest, ttl = holds.held, holds.count, holds.latest, holds.ttl
  return struct.pack(HEAD, held, count, latest, ttl, holds.first, holds.last, holds.leases)
end

-- The values of the head, and its end.
local function read_head(key, text, at)
  local held, count, latest, ttl, first, last, leases, stop = struct.unpack(HEAD, text, at)
  local holds = { key = key, held = held, count = count, latest = latest, ttl = ttl }
  holds.first, holds.last, holds.leases = first, last, leases
  return holds, stop
end

-- The holds of a set with this last member, and the stored state.
local function load_set(key, member)
  local holds, stop = read_head(key, member, 1)
  holds.member = member
  return holds, string.sub(member, stop)
end

-- The holds of some members in the order of their expiry, and whether there are no more.
local function read_members(holds, from, size)
  local part = {}
  local found = redis.call('ZRANGE', holds.key, from, from + size - 1, 'WITHSCORES')
  for at = 1, #found, 2 do
    local member, score = found[at], found[at + 1]
    if score == 'inf' then return part, true end
    local expiry, units = read_stamp(score)
    if units < HOLD_MANY then
      part[#part + 1] = { member, units, holds.ttl, expiry }
    elseif string.byte(member, -17) == 0 then
      local many, ttl = struct.unpack('<dd', member, #member - 15)
      part[#part + 1] = { string.sub(member, 1, -18), many, ttl, expiry }
    end
  end
  return part, false
end

-- The members of an open hold, its units and its expiry.
local function find_members(holds, id, now)
  local score = redis.call('ZSCORE', holds.key, id)
  if not score then return nil end
  local expiry, units = read_stamp(score)
  if expiry <= now then return nil end
  if units < HOLD_MANY then return { id }, units, expiry end
  local behind = redis.call('ZRANK', holds.key, id) + 1
  local second = redis.call('ZRANGE', holds.key, behind, behind)[1]
  return { id, second }, struct.unpack('<d', second, #id + 2), expiry
end

-- When the last hold expires, without the hold of these members.
local function last_expiry_without(holds, members)
  local found = redis.call('ZRANGE', holds.key, -4, -2, 'WITHSCORES')
  for at = #found - 1, 1, -2 do
    if found[at] ~= members[1] and found[at] ~= members[2] then
      return (read_stamp(found[at + 1]))
    end
  end
end

-- Scores and members of a hold.
local function members_of(hold, usual_ttl)
  local id, units, ttl, expiry = unpack(hold)
  if units < HOLD_MANY and ttl == usual_ttl then return write_stamp(expiry, units), id end
  local score = write_stamp(expiry, HOLD_MANY)
  return score, id, score, id .. '\0' .. struct.pack('<dd', units, ttl)
end

-- Stores holds and the state. A hold that is added is written first, so that a server without
-- memory refuses it before anything has changed. All other changes begin with a removal, which is
-- not refused.
local function store_set(key, holds, state, reset)
  local old, new = holds.member, write_head(holds) .. state
  if holds.added then
    if holds.is_over_state then redis.call('DEL', key) end
    redis.call('ZADD', key, 'inf', new, members_of(holds.added, holds.ttl))
    if old and old ~= new then redis.call('ZREM', key, old) end
    if holds.dropped then redis.call('ZREM', key, unpack(holds.dropped)) end
  else
    redis.call('ZREM', key, old, unpack(holds.dropped or {}))
    redis.call('ZADD', key, 'inf', new)
  end
  for _, hold in ipairs(holds.moved or {}) do
    if not (holds.dropped and holds.dropped[1] == hold[1]) then
      redis.call('ZADD', key, members_of(hold, holds.ttl))
    end
  end
  if holds.expired_by then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', write_stamp(holds.expired_by, HOLD_MANY))
  end
  redis.call('PEXPIRE', key, reset)
end
