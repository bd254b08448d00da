--[[
  The record of an idempotency key, as one text: its kind, the token of its owner (36 characters),
  the fingerprint of the request (43 characters), and the rest. Kinds are R, running, with the end
  of the lease in ms; D, done, with the result; F, free for the same request.
]]
local function read_record(text)
  return string.sub(text, 1, 1), string.sub(text, 2, 37), string.sub(text, 38, 80),
    string.sub(text, 81)
end

local function write_record(kind, token, print, rest)
  if type(rest) == 'number' then rest = string.format('%d', rest) end
  return kind .. token .. print .. rest
end
