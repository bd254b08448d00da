--[[
  Holds in pages: strings of at most 32 rows, the first to expire first. A sliding log keeps them
  so, because it is a list already. A table of pages never changes; a change makes another table.

  Row      61 bytes: a line feed, the id filled up to 36 bytes with spaces, and units, ttl in ms and
           expiry in ms as doubles
]]
local hold_pages = {}

local ROW_BYTES = 61
local PAGE_BYTES = 32 * ROW_BYTES

local function row_head(id)
  return string.format('\n%-36s', id)
end

local function row_of(hold)
  return row_head(hold[1]) .. struct.pack('<ddd', hold[2], hold[3], hold[4])
end

-- The expiry of the row that ends with this byte.
local function expiry_at(page, stop)
  return (struct.unpack('<d', page, stop - 7))
end

function hold_pages.read(page)
  local holds = {}
  for at = 1, #page, ROW_BYTES do
    local id, units, ttl, expiry = struct.unpack('<xc36ddd', page, at)
    holds[#holds + 1] = { id, units, ttl, expiry }
  end
  return holds
end

-- Pages of holds that are in order.
function hold_pages.of(holds)
  local pages, rows = {}, {}
  for at, hold in ipairs(holds) do
    rows[#rows + 1] = row_of(hold)
    if #rows * ROW_BYTES == PAGE_BYTES or at == #holds then
      pages[#pages + 1], rows = table.concat(rows), {}
    end
  end
  return pages
end

-- Adds a hold, behind all that do not expire later.
function hold_pages.with(pages, hold)
  local more, number = { unpack(pages) }, #pages
  while number > 1 and expiry_at(pages[number], ROW_BYTES) > hold[4] do number = number - 1 end
  local page = pages[number] or ''
  local stop = #page
  while stop > 0 and expiry_at(page, stop) > hold[4] do stop = stop - ROW_BYTES end
  local head, rest = string.sub(page, 1, stop) .. row_of(hold), string.sub(page, stop + 1)
  if #page < PAGE_BYTES then
    more[math.max(number, 1)] = head .. rest
  else
    more[number] = string.sub(head, 1, PAGE_BYTES)
    table.insert(more, number + 1, string.sub(head, PAGE_BYTES + 1) .. rest)
  end
  return more
end

-- Removes the holds of an id. Also returns their units and their number.
function hold_pages.without(pages, id)
  local less, units, count, head = {}, 0, 0, row_head(id)
  for _, page in ipairs(pages) do
    local at = string.find(page, head, 1, true)
    while at do
      units, count = units + struct.unpack('<d', page, at + #head), count + 1
      page = string.sub(page, 1, at - 1) .. string.sub(page, at + ROW_BYTES)
      at = string.find(page, head, 1, true)
    end
    local before = less[#less]
    if before and #before + #page <= PAGE_BYTES / 2 then
      less[#less] = before .. page
    elseif page ~= '' then
      less[#less + 1] = page
    end
  end
  return less, units, count
end

-- Removes the first `count` holds.
function hold_pages.after(pages, count)
  local left, bytes = {}, count * ROW_BYTES
  for _, page in ipairs(pages) do
    if bytes < #page then left[#left + 1] = string.sub(page, bytes + 1) end
    bytes = math.max(0, bytes - #page)
  end
  return left
end

function hold_pages.last_expiry(pages)
  local page = pages[#pages]
  return page and expiry_at(page, #page)
end

return hold_pages
