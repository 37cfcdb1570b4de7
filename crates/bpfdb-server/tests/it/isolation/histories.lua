#!lua name=histories
-- KEYS   the key of each step
-- ARGV   what each step does: a letter, then the element that it writes; behind them a number:
--        1 commits, 1.5 is given up by the kernel and commits, what is no number raises an error
-- Reply  what each step read, that reads: its length, ':', its bytes; or '-:' for nothing

local function seen(value)
  if value then
    return #value .. ':' .. value
  end
  return '-:'
end

redis.register_function('transaction', function(keys, args)
  local reply = ''
  for i, key in ipairs(keys) do
    local kind, element = string.sub(args[i], 1, 1), string.sub(args[i], 2)
    if kind == 'r' then
      reply = reply .. seen(redis.call('GET', keys[i]))
    elseif kind == 'a' then
      -- Under its exclusive lock from here: the same variable is written.
      local list = redis.call('GET', key)
      reply = reply .. seen(list)
      redis.call('SET', key, (list or '') .. element)
    elseif kind == 'u' then
      local list = redis.call('GET', keys[i])
      reply = reply .. seen(list)
      redis.call('SET', keys[i], (list or '') .. element)
    elseif kind == 'p' then
      redis.call('APPEND', key, element)
    else
      redis.call('SET', key, element)
    end
  end
  if args[#args] + 0 == 0 then
    return 'never'
  end
  return reply
end)

redis.register_function{function_name = 'snapshot', flags = {'no-writes'}, callback = function(keys)
  local reply = ''
  for i, key in ipairs(keys) do
    reply = reply .. seen(redis.call('GET', key))
  end
  return reply
end}

-- Only for the compiler to meet calls.
redis.register_function('warm_histories', function(keys)
  redis.call('SET', keys[1], 'x')
  return redis.call('DEL', keys[1])
end)
