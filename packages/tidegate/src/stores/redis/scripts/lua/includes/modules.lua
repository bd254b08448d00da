--[[
  The algorithms under their numbers, and the holds. A script creates its functions in every
  call, which takes longer than using them; so these are made when they are first needed.
]]
local modules = {}

local makers = {
  function()
-- @include token-bucket
  end,
  function()
-- @include sliding-window
  end,
  function()
-- @include sliding-log
  end,
  function()
-- @include fixed-window
  end,
  function()
-- @include concurrency
  end,
  holds = function()
-- @include holds
  end,
  hold_pages = function()
-- @include hold-pages
  end,
}

setmetatable(modules, {
  __index = function(_, name)
    modules[name] = makers[name]()
    return modules[name]
  end,
})
