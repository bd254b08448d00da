--[[
  Works on the records of idempotency keys: claims, results, renewals and releases of many keys in
  one call. Each one reads and writes its record in one step.

  KEYS     the records, one for each call
  ARGV     the time in ms, or -1 for the server's; then calls of one kind, as a run: their kind and
           their number; the lease and the lifetime of the record in ms; an option; and a text for
           each call. Texts begin with the token of the owner (36 characters) and the fingerprint of
           the request (43 characters). Kinds are:
           claim: the option is 1 to take over from an owner whose lease has ended, otherwise 0;
           without a token it only looks.
           complete: the text continues with the result.
           renew: the text is the token.
           release: the text is the token. The option is what remains: `unused` forgets the key,
           `retry` lets the same request use it again, `unknown` marks an owner that has left
           without an outcome.
           look: the text is empty.
           forget: the text is empty.
  Returns  a value for each call. Of a claim: 0 free and not claimed; 1 claimed; 2 claimed again;
           5 another request has the key; 6 the lease has ended without a result; 10 and the ms of
           the lease that are left, if it runs; the result as a text, if it is done. Of a look: the
           kind of the record, the ms of the lease that are left, the ms until it is forgotten, and
           the bytes of its result; 0 without a record. Of all others: 1, or 0 if the key has
           another owner; for renewals and releases also if it has a result or no record.
  Expiry   of a record after its lifetime
]]
-- @include key-record

local now_override = tonumber(ARGV[1]) >= 0 and ARGV[1] or nil
-- @include now

-- Longer than any lease: a clock that was ahead and is right again must not prolong one.
local LEASE_MAX = 300000
local PRINT_LENGTH = 43

-- Names of globals are looked up in two tables at each use.
local call, sub = redis.call, string.sub
local acts = {}

function acts.claim(key, text, lease, lifetime, takes_over, lease_end)
  local is_look = #text == PRINT_LENGTH
  local record, known = 'R' .. text .. lease_end, nil
  if is_look then
    known = call('GET', key)
  else
    known = call('SET', key, record, 'NX', 'GET', 'PX', lifetime)
  end
  if not known then return is_look and 0 or 1 end
  local kind, _, print, rest = read_record(known)
  if print ~= sub(text, -PRINT_LENGTH) then return 5 end
  if kind == 'D' then return rest end
  if kind == 'R' then
    local left = tonumber(rest) - now
    if left > LEASE_MAX then
      left = lease
      local shortened = sub(known, 1, 80) .. lease_end
      call('SET', key, shortened, 'PX', lifetime)
    end
    if left > 0 then return 10 + left end
    if takes_over ~= '1' then return 6 end
  end
  if is_look then return 0 end
  call('SET', key, record, 'PX', lifetime)
  return 2
end

function acts.complete(key, text, _, lifetime)
  local known = call('GET', key)
  if known then
    if sub(known, 2, 37) ~= sub(text, 1, 36) then return 0 end
    if sub(known, 1, 1) == 'D' then return 1 end
  end
  call('SET', key, 'D' .. text, 'PX', lifetime)
  return 1
end

-- The fingerprint of a record that runs and belongs to this owner.
local function print_of_owned(key, owner)
  local known = call('GET', key)
  if not known then return nil end
  local kind, token, print = read_record(known)
  return kind == 'R' and token == owner and print or nil
end

function acts.renew(key, token, lease, lifetime)
  local print = print_of_owned(key, token)
  if not print then return 0 end
  call('SET', key, write_record('R', token, print, now + lease), 'PX', lifetime)
  return 1
end

function acts.release(key, token, _, lifetime, remains)
  local print = print_of_owned(key, token)
  if not print then return 0 end
  if remains == 'unused' then
    call('DEL', key)
  elseif remains == 'retry' then
    call('SET', key, write_record('F', token, print, ''), 'PX', lifetime)
  else
    call('SET', key, write_record('R', token, print, 0), 'PX', lifetime)
  end
  return 1
end

function acts.look(key)
  local known = call('GET', key)
  if not known then return 0 end
  local kind, _, _, rest = read_record(known)
  local left = kind == 'R' and math.max(tonumber(rest) - now, 0) or 0
  return { kind, left, call('PTTL', key), kind == 'D' and #rest or 0 }
end

function acts.forget(key)
  return call('DEL', key)
end

local replies, place, at = {}, 1, 2
while at <= #ARGV do
  local act, last = acts[ARGV[at]], place + tonumber(ARGV[at + 1])
  local lease, lifetime, option = tonumber(ARGV[at + 2]), ARGV[at + 3], ARGV[at + 4]
  local lease_end = string.format('%d', now + lease)
  at = at + 5
  while place < last do
    replies[place] = act(KEYS[place], ARGV[at], lease, lifetime, option, lease_end)
    place, at = place + 1, at + 1
  end
end
return replies
