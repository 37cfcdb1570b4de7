#!lua name=stress
-- The last argument of what writes is 1 as a rule. Any other number is given up by the kernel, and
-- what is none raises an error.

local function seen(value)
  if value then
    return #value .. ':' .. value
  end
  return '-:'
end

-- Adds 1 to each key. Replies what each had before.
redis.register_function('count', function(keys, args)
  local before = ''
  for i, key in ipairs(keys) do
    local number = 0
    local value = redis.call('GET', key)
    if value then
      number = tonumber(value)
    end
    before = before .. number .. ' '
    redis.call('SET', key, number + 1)
  end
  if args[1] + 0 == 0 then
    return 'never'
  end
  return before
end)

-- Writes the first argument under each key.
redis.register_function('overwrite', function(keys, args)
  for i, key in ipairs(keys) do
    redis.call('SET', key, args[1])
  end
  if args[2] + 0 == 0 then
    return 'never'
  end
  return 'written'
end)

-- Deletes each key. Replies how many were there.
redis.register_function('drop', function(keys, args)
  local gone = 0
  for i, key in ipairs(keys) do
    gone = gone + redis.call('DEL', key)
  end
  if args[1] + 0 == 0 then
    return 'never'
  end
  return tostring(gone)
end)

-- Deletes each key that has the right value, its name and the first argument, and writes it where
-- there is none. Replies what was done, a letter each.
redis.register_function('toggle', function(keys, args)
  local done = ''
  for i, key in ipairs(keys) do
    local right = key .. args[1]
    local value = redis.call('GET', key)
    if not value then
      redis.call('SET', key, right)
      done = done .. 's'
    elseif value == right then
      redis.call('DEL', key)
      done = done .. 'd'
    else
      done = done .. 'x'
    end
  end
  if args[2] + 0 == 0 then
    return 'never'
  end
  return done
end)

-- Replies the value of each key, behind its length; '-:' for nothing.
redis.register_function{function_name = 'values', flags = {'no-writes'}, callback = function(keys)
  local all = ''
  for i, key in ipairs(keys) do
    all = all .. seen(redis.call('GET', key))
  end
  return all
end}

-- Only for the compiler to meet calls.
redis.register_function('warm_stress', function(keys)
  redis.call('SET', keys[1], 'x')
  return redis.call('DEL', keys[1])
end)
