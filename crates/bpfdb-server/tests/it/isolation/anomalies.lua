#!lua name=anomalies
-- Transactions that an anomaly would break. anomalies.rs has each of them once more, step by step.

local function number(key)
  return tonumber(redis.call('GET', key) or '0')
end

-- A snapshot of all keys: each value, or '-', and '|' behind it.
redis.register_function{function_name = 'look', flags = {'no-writes'}, callback = function(keys)
  local reply = ''
  for i, key in ipairs(keys) do
    reply = reply .. (redis.call('GET', key) or '-') .. '|'
  end
  return reply
end}

redis.register_function('write_both', function(keys, args)
  redis.call('SET', keys[1], args[1])
  redis.call('SET', keys[2], args[1])
  return args[1]
end)

-- If the second argument is no number: an error, which undoes the write.
redis.register_function('write_or_fail', function(keys, args)
  redis.call('SET', keys[1], args[1])
  return tostring(args[2] + 1)
end)

redis.register_function('write_twice', function(keys, args)
  redis.call('SET', keys[1], args[1])
  redis.call('SET', keys[1], args[2])
  return args[2]
end)

-- Reads under a lock, because it writes.
redis.register_function('copy', function(keys)
  local value = redis.call('GET', keys[1]) or '-'
  redis.call('SET', keys[2], value)
  return value
end)

redis.register_function('read_twice', function(keys)
  local first = redis.call('GET', keys[1]) or '-'
  redis.call('SET', keys[2], first)
  local second = redis.call('GET', keys[1]) or '-'
  return first .. ' ' .. second
end)

-- The same in a snapshot.
redis.register_function{function_name = 'see_twice', flags = {'no-writes'}, callback = function(keys)
  local first = redis.call('GET', keys[1]) or '-'
  local rounds = 0
  while rounds < 100 do
    rounds = rounds + 1
  end
  local second = redis.call('GET', keys[1]) or '-'
  return first .. ' ' .. second
end}

-- Counts in the first key, and notes in the third what the other one has counted.
redis.register_function('count_and_see', function(keys)
  redis.call('SET', keys[1], number(keys[1]) + 1)
  local seen = number(keys[2])
  redis.call('SET', keys[3], seen)
  return tostring(seen)
end)

redis.register_function('deposit', function(keys)
  redis.call('SET', keys[1], 'yes')
  return 'done'
end)

-- Once a day; it costs a fee, unless the deposit was there before.
redis.register_function('withdraw', function(keys)
  if redis.call('GET', keys[2]) == 'no' then
    if redis.call('GET', keys[1]) == 'yes' then
      redis.call('SET', keys[2], 'free')
    else
      redis.call('SET', keys[2], 'with a fee')
    end
  end
  return 'done'
end)

-- When both have been there.
redis.register_function('next_day', function(keys)
  if redis.call('GET', keys[1]) == 'yes' and redis.call('GET', keys[2]) ~= 'no' then
    redis.call('SET', keys[1], 'no')
    redis.call('SET', keys[2], 'no')
    redis.call('SET', keys[3], number(keys[3]) + 1)
  end
  return 'done'
end)

redis.register_function('transfer', function(keys, args)
  local from, to = number(keys[1]), number(keys[2])
  redis.call('SET', keys[1], from - args[1])
  redis.call('SET', keys[2], to + args[1])
  return 'done'
end)

redis.register_function('sum', function(keys)
  local sum = number(keys[1]) + number(keys[2])
  redis.call('SET', keys[3], sum)
  return tostring(sum)
end)

redis.register_function('add', function(keys, args)
  local sum = number(keys[1]) + args[1]
  redis.call('SET', keys[1], sum)
  return tostring(sum)
end)

-- Returns, or leaves if the other one stays.
redis.register_function('leave_or_return', function(keys)
  if redis.call('GET', keys[1]) == 'off' then
    redis.call('SET', keys[1], 'on')
    return 'returned'
  end
  if redis.call('GET', keys[2]) == 'on' then
    redis.call('SET', keys[1], 'off')
    return 'left'
  end
  return 'stayed'
end)

-- Deletes the first key, or inserts it if there is no second one.
redis.register_function('insert_or_delete', function(keys)
  if redis.call('GET', keys[1]) then
    redis.call('DEL', keys[1])
    return 'deleted'
  end
  if not redis.call('GET', keys[2]) then
    redis.call('SET', keys[1], 'here')
    return 'inserted'
  end
  return 'neither'
end)

-- Deletes the key if it is there, and counts deletions; or inserts it, and counts insertions.
redis.register_function('claim_or_release', function(keys)
  if redis.call('GET', keys[1]) then
    redis.call('DEL', keys[1])
    redis.call('INCR', keys[3])
    return 'released'
  end
  redis.call('SET', keys[1], 'taken')
  redis.call('INCR', keys[2])
  return 'claimed'
end)

-- Only for the compiler to meet calls.
redis.register_function('warm_anomalies', function(keys)
  redis.call('SET', keys[1], 'x')
  return redis.call('DEL', keys[1])
end)
