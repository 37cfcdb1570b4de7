#!lua name=smallbank
-- SmallBank: six transactions of a bank (Alomari, Cahill, Fekete, Röhm: The Cost of
-- Serializability on Platforms That Use Snapshot Isolation, ICDE 2008; SendPayment from H-Store).
--
--   FCALL bank_balance           1 account
--   FCALL bank_deposit_checking  1 account  amount
--   FCALL bank_transact_savings  1 account  amount
--   FCALL bank_amalgamate        2 from to
--   FCALL bank_write_check       1 account  amount
--   FCALL bank_send_payment      2 from to  amount
--
-- Keys       bank:account:<name>      the number of a customer
--            bank:savings:<number>    savings, in cents      (the number is found in the data)
--            bank:checking:<number>   checking, in cents     (the same)
-- Arguments  whole numbers of cents
-- Results    nil: refused, nothing has changed: no such customer, a deposit below 0, not enough
--            money. Otherwise
--              bank_balance           savings and checking together
--              bank_deposit_checking  the new checking balance
--              bank_transact_savings  the new savings balance
--              bank_amalgamate        what was moved
--              bank_write_check       what was taken: one dollar more if it is an overdraft
--              bank_send_payment      what is left in checking

-- Cents.
local PENALTY = 100

local function savings_of(customer)
  return 'bank:savings:' .. customer
end

local function checking_of(customer)
  return 'bank:checking:' .. customer
end

local function amount_in(key)
  return tonumber(redis.call('GET', key) or '0')
end

local function balance(keys)
  local customer = redis.call('GET', keys[1])
  if not customer then
    return nil
  end
  return amount_in(savings_of(customer)) + amount_in(checking_of(customer))
end

local function deposit_checking(keys, args)
  local customer = redis.call('GET', keys[1])
  local amount = tonumber(args[1])
  if not customer or amount < 0 then
    return nil
  end
  return redis.call('INCRBY', checking_of(customer), amount)
end

local function transact_savings(keys, args)
  local customer = redis.call('GET', keys[1])
  if not customer then
    return nil
  end
  local savings = amount_in(savings_of(customer)) + args[1]
  if savings < 0 then
    return nil
  end
  redis.call('SET', savings_of(customer), savings)
  return savings
end

local function amalgamate(keys)
  local from = redis.call('GET', keys[1])
  local to = redis.call('GET', keys[2])
  if not from or not to or from == to then
    return nil
  end
  local moved = amount_in(savings_of(from)) + amount_in(checking_of(from))
  redis.call('SET', savings_of(from), 0)
  redis.call('SET', checking_of(from), 0)
  redis.call('INCRBY', checking_of(to), moved)
  return moved
end

local function write_check(keys, args)
  local customer = redis.call('GET', keys[1])
  if not customer then
    return nil
  end
  local amount = tonumber(args[1])
  local checking = amount_in(checking_of(customer))
  if amount_in(savings_of(customer)) + checking < amount then
    amount = amount + PENALTY
  end
  redis.call('SET', checking_of(customer), checking - amount)
  return amount
end

local function send_payment(keys, args)
  local from = redis.call('GET', keys[1])
  local to = redis.call('GET', keys[2])
  if not from or not to or from == to then
    return nil
  end
  local amount = tonumber(args[1])
  local left = amount_in(checking_of(from)) - amount
  if left < 0 then
    return nil
  end
  redis.call('SET', checking_of(from), left)
  redis.call('INCRBY', checking_of(to), amount)
  return left
end

redis.register_function{function_name = 'bank_balance', callback = balance, flags = {'no-writes'}}
redis.register_function('bank_deposit_checking', deposit_checking)
redis.register_function('bank_transact_savings', transact_savings)
redis.register_function('bank_amalgamate', amalgamate)
redis.register_function('bank_write_check', write_check)
redis.register_function('bank_send_payment', send_payment)
