--[[
  Takes leases of single counters of a token bucket, one after the other, and settles the leases
  before them. It is fast, because hot keys depend on it: if all holds of a counter are open leases,
  the new one is the last to expire, and no other is read. All other cases, and denials, are left to
  charge.lua.

  KEYS     the counters
  ARGV     the time in ms, or -1 for the server's; burst, units per token, units per ms; then for
           each counter: the units wanted, the ttl in ms, the id, the id of the lease before or '',
           and how much was spent of that
  Returns  integers: the time in ms, then for each counter: granted units, or -1 if the counter is
           not for this script and nothing was done; remaining units; reset time in ms
  Expiry   of each counter exactly when nothing is used or held any more
]]
-- @include stamp
-- @include hold-set

local bucket = (function()
-- @include token-bucket
end)()

local call = redis.call
local now = tonumber(ARGV[1])
local limit = { tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) }
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local HOLDS_MAX, ID_BYTES, LIFETIME_MAX = 10000, 36, 34560000000

-- How long the units of a lease can matter after its end.
local LASTS = limit[3] > 0 and math.ceil(limit[1] * limit[2] / limit[3]) or LIFETIME_MAX

-- Returns the leases of a set and its state. The leases are empty if there is no set. Returns
-- nothing if there are other holds, or if one may have expired or expires after the new one.
local function load_leases(key, id, expiry)
  local found = call('ZRANGE', key, -2, -1, 'WITHSCORES')
  if #found == 0 then return { held = 0, count = 0 }, '' end
  if #found ~= 4 then return end
  local leases, text = load_set(key, found[3])
  if leases.count ~= leases.leases or leases.count >= HOLDS_MAX then return end
  if leases.latest > now or leases.first <= now or read_stamp(found[2]) > expiry then return end
  if call('ZSCORE', key, id) then return end
  return leases, text
end

local function lease(key, cost, ttl, id, release, spent)
  local expiry, text, dropped = now + ttl, call('MGET', key)[1], nil
  local leases = { held = 0, count = 0, is_over_state = text }
  if not text then leases, text = load_leases(key, id, expiry) end
  if not leases then return end
  if release ~= '' then
    local units
    if leases.member then dropped, units = find_members(leases, release, now) end
    if not dropped then return end
    leases.held, leases.count = leases.held - units, leases.count - 1
  end
  local state = text ~= '' and bucket.load(text) or nil
  if state and state[2] > now then return end
  if dropped then
    state = bucket.adjust(state, spent, now, limit)
    text = state and bucket.save(state) or ''
  end
  local _, _, remaining, _, reset = bucket.charge(state, 0, now, limit, leases.held)
  if remaining < cost then cost = remaining end
  if cost <= 0 then return end

  if leases.count == 0 then leases.ttl, leases.first = ttl, expiry end
  leases.first, leases.last = math.min(leases.first, expiry), expiry + LASTS
  leases.held, leases.latest = leases.held + cost, now
  leases.count, leases.leases = leases.count + 1, leases.count + 1
  leases.added, leases.dropped = { id, cost, ttl, expiry }, dropped
  reset = math.max(reset, leases.last - now)
  store_set(key, leases, text, math.min(reset, LIFETIME_MAX))
  return cost, remaining - cost, reset
end

local reply = { now }

for at = 1, #KEYS do
  local from = at * 5
  local cost, ttl, spent = tonumber(ARGV[from]), tonumber(ARGV[from + 1]), tonumber(ARGV[from + 4])
  local id, release = ARGV[from + 2], ARGV[from + 3]
  local granted, remaining, reset
  if limit[3] > 0 and #id <= ID_BYTES then
    granted, remaining, reset = lease(KEYS[at], cost, ttl, id, release, spent)
  end
  reply[at * 3 - 1] = granted or -1
  reply[at * 3] = remaining or 0
  reply[at * 3 + 1] = reset or 0
end
return reply
