#!lua name=money
-- A value is an amount in eight digits, and a filling behind it. No money is no account.

local function amount(key)
  local value = redis.call('GET', key)
  if value then
    return tonumber(string.sub(value, 1, 8))
  end
  return 0
end

local function put(key, sum, filling)
  if sum == 0 then
    redis.call('DEL', key)
  else
    redis.call('SET', key, string.sub('0000000' .. sum, -8) .. filling)
  end
end

-- KEYS from, to; ARGV a number that chooses how much, two fillings, and 1: any other number is
-- given up by the kernel, and what is none raises an error.
redis.register_function('pay', function(keys, args)
  local from, to = amount(keys[1]), amount(keys[2])
  local paid = args[1] % (from + 1)
  put(keys[1], from - paid, args[2])
  put(keys[2], to + paid, args[3])
  if args[4] + 0 == 0 then
    return 'never'
  end
  return tostring(paid)
end)

-- A snapshot of the accounts.
redis.register_function{function_name = 'audit', flags = {'no-writes'}, callback = function(keys)
  local sum = 0
  for i, key in ipairs(keys) do
    sum = sum + amount(key)
  end
  return tostring(sum)
end}

-- With locks, because it writes the sum under the first key.
redis.register_function('audit_and_write', function(keys)
  local sum = 0
  for i = 2, #keys do
    sum = sum + amount(keys[i])
  end
  redis.call('SET', keys[1], sum)
  return tostring(sum)
end)

-- Only for the compiler to meet calls.
redis.register_function('warm_money', function(keys)
  redis.call('SET', keys[1], 'x')
  return redis.call('DEL', keys[1])
end)
