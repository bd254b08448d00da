--[[
  Concurrency: the port of algorithms/concurrency.ts. Everything in flight is a hold.

  Params   p[1] limit
  State    none
  Value    none but the holds
  Expiry   that of the last hold
]]
local concurrency = {}

function concurrency.charge(_, cost, _, p, held)
  local left = p[1] - held
  local allowed = cost <= left or cost == 0
  local remaining = math.max(0, allowed and left - cost or left)
  return nil, allowed, remaining, allowed and 0 or -1, 0
end

function concurrency.adjust()
  return nil
end

return concurrency
