-- SmallBank: examples/procedures/smallbank.lua for Tarantool. No procedure yields, so none is
-- executed beside another one.

-- Cents.
local PENALTY = 100

local accounts, savings, checking

function smallbank_fill(customers, balance)
  local balances = {{'customer', 'unsigned'}, {'balance', 'integer'}}
  accounts = fresh('accounts', {{'name', 'unsigned'}, {'customer', 'unsigned'}}, {1, 'unsigned'})
  savings = fresh('savings', balances, {1, 'unsigned'})
  checking = fresh('checking', balances, {1, 'unsigned'})
  for customer = 0, customers - 1 do
    accounts:insert{customer, customer}
    savings:insert{customer, balance}
    checking:insert{customer, balance}
  end
end

local function customer_of(name)
  local account = accounts:get(name)
  return account and account[2]
end

function bank_balance(name)
  local customer = customer_of(name)
  if not customer then
    return nil
  end
  return savings:get(customer)[2] + checking:get(customer)[2]
end

function bank_deposit_checking(name, amount)
  local customer = customer_of(name)
  if not customer or amount < 0 then
    return nil
  end
  return checking:update(customer, {{'+', 2, amount}})[2]
end

function bank_transact_savings(name, amount)
  local customer = customer_of(name)
  if not customer then
    return nil
  end
  local balance = savings:get(customer)[2] + amount
  if balance < 0 then
    return nil
  end
  savings:replace{customer, balance}
  return balance
end

function bank_amalgamate(from_name, to_name)
  local from, to = customer_of(from_name), customer_of(to_name)
  if not from or not to or from == to then
    return nil
  end
  local moved = savings:get(from)[2] + checking:get(from)[2]
  box.begin()
  savings:replace{from, 0}
  checking:replace{from, 0}
  checking:update(to, {{'+', 2, moved}})
  box.commit()
  return moved
end

function bank_write_check(name, amount)
  local customer = customer_of(name)
  if not customer then
    return nil
  end
  local balance = checking:get(customer)[2]
  if savings:get(customer)[2] + balance < amount then
    amount = amount + PENALTY
  end
  checking:replace{customer, balance - amount}
  return amount
end

function bank_send_payment(from_name, to_name, amount)
  local from, to = customer_of(from_name), customer_of(to_name)
  if not from or not to or from == to then
    return nil
  end
  local left = checking:get(from)[2] - amount
  if left < 0 then
    return nil
  end
  box.begin()
  checking:replace{from, left}
  checking:update(to, {{'+', 2, amount}})
  box.commit()
  return left
end

-- All money.
function smallbank_sums()
  local sum = 0
  for _, space in ipairs{savings, checking} do
    for _, row in space:pairs() do
      sum = sum + row[2]
    end
  end
  return sum
end
