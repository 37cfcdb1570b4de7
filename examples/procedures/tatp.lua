#!lua name=tatp
-- TATP: the seven transactions of a home location register (Telecom Application Transaction
-- Processing Benchmark, version 1.0, IBM 2009). Each row is a record of its own, and its columns
-- have fixed places in the value.
--
--   FCALL tatp_get_subscriber_data    1 subscriber
--   FCALL tatp_get_new_destination    1 facility           start end
--   FCALL tatp_get_access_data        1 access
--   FCALL tatp_update_subscriber_data 2 subscriber facility bit_1 data_a
--   FCALL tatp_update_location        1 number             vlr_location
--   FCALL tatp_insert_call_forwarding 1 number             type start end numberx
--   FCALL tatp_delete_call_forwarding 1 number             type start
--
-- Keys       tatp:subscriber:<s>                 sub_nbr (15), bit_1 … bit_10 (10), hex_1 … (10),
--                                                byte2_1 … (30), msc_location (10), vlr_location (10)
--            tatp:number:<sub_nbr>               s
--            tatp:access:<s>:<type>              data1 (3), data2 (3), data3 (3), data4 (5)
--            tatp:facility:<s>:<type>            is_active (1), error_cntrl (3), data_a (3), data_b (5)
--            tatp:forwarding:<s>:<type>:<start>  end_time (2), numberx (15)     (derived)
-- Arguments  of the width of their column; start is 0, 8 or 16
-- Results    nil: no such row, or, when inserting, there is one, or no such facility. Otherwise
--              tatp_get_subscriber_data   the row
--              tatp_get_new_destination   the numbers, one behind the other
--              tatp_get_access_data       the row
--              all others                 1

-- Where columns of a subscriber begin.
local BIT_1, VLR_LOCATION = 16, 76
-- Of those of a facility.
local DATA_A, DATA_B = 5, 8

local function forwarding(subscriber, type, start)
  return 'tatp:forwarding:' .. subscriber .. ':' .. type .. ':' .. start
end

local function row(keys)
  return redis.call('GET', keys[1])
end

-- The forwardings of a facility have its key, with another word in front.
local function get_new_destination(keys, args)
  local facility = redis.call('GET', keys[1])
  if not facility or facility:sub(1, 1) ~= '1' then
    return nil
  end
  local of_facility = 'tatp:forwarding:' .. keys[1]:sub(#'tatp:facility:' + 1) .. ':'
  local numbers = ''
  for start = 0, tonumber(args[1]), 8 do
    local found = redis.call('GET', of_facility .. start)
    if found and tonumber(args[2]) < tonumber(found:sub(1, 2)) then
      numbers = numbers .. found:sub(3)
    end
  end
  if numbers == '' then
    return nil
  end
  return numbers
end

local function update_subscriber_data(keys, args)
  local subscriber = redis.call('GET', keys[1])
  local facility = redis.call('GET', keys[2])
  if not subscriber or not facility then
    return nil
  end
  redis.call('SET', keys[1], subscriber:sub(1, BIT_1 - 1) .. args[1] .. subscriber:sub(BIT_1 + 1))
  redis.call('SET', keys[2], facility:sub(1, DATA_A - 1) .. args[2] .. facility:sub(DATA_B))
  return 1
end

local function update_location(keys, args)
  local id = redis.call('GET', keys[1])
  if not id then
    return nil
  end
  local key = 'tatp:subscriber:' .. id
  local subscriber = redis.call('GET', key)
  if not subscriber then
    return nil
  end
  redis.call('SET', key, subscriber:sub(1, VLR_LOCATION - 1) .. args[1])
  return 1
end

local function insert_call_forwarding(keys, args)
  local id = redis.call('GET', keys[1])
  if not id or not redis.call('GET', 'tatp:facility:' .. id .. ':' .. args[1]) then
    return nil
  end
  local key = forwarding(id, args[1], args[2])
  if redis.call('SETNX', key, args[3] .. args[4]) == 0 then
    return nil
  end
  return 1
end

local function delete_call_forwarding(keys, args)
  local id = redis.call('GET', keys[1])
  if not id or redis.call('DEL', forwarding(id, args[1], args[2])) == 0 then
    return nil
  end
  return 1
end

redis.register_function{function_name = 'tatp_get_subscriber_data', callback = row, flags = {'no-writes'}}
redis.register_function{function_name = 'tatp_get_new_destination', callback = get_new_destination, flags = {'no-writes'}}
redis.register_function{function_name = 'tatp_get_access_data', callback = row, flags = {'no-writes'}}
redis.register_function('tatp_update_subscriber_data', update_subscriber_data)
redis.register_function('tatp_update_location', update_location)
redis.register_function('tatp_insert_call_forwarding', insert_call_forwarding)
redis.register_function('tatp_delete_call_forwarding', delete_call_forwarding)
