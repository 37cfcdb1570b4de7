-- TATP: examples/procedures/tatp.lua for Tarantool. Rows are tuples with the columns as published;
-- sub_nbr and numberx are numbers.

-- Columns of a subscriber.
local SUB_NBR, BIT_1, HEX_1, BYTE2_1, MSC_LOCATION, VLR_LOCATION = 2, 3, 13, 23, 33, 34
local COLUMNS = VLR_LOCATION
-- Of a facility.
local IS_ACTIVE, DATA_A = 3, 5

local subscribers, access, facilities, forwardings

local function unsigned(count)
  local fields = {}
  for column = 1, count do
    fields[column] = {'column_' .. column, 'unsigned'}
  end
  return fields
end

-- At least `least` of these, each number of them equally often.
local function some(all, least)
  local rest = {unpack(all)}
  for _ = 1, #all - math.random(least, #all) do
    table.remove(rest, math.random(#rest))
  end
  return rest
end

local function text(length)
  local letters = {}
  for place = 1, length do
    letters[place] = math.random(65, 90)
  end
  return string.char(unpack(letters))
end

local function fill_subscriber(id)
  local row = {id, id}
  for column = BIT_1, COLUMNS do
    local bound = column < HEX_1 and 2 or column < BYTE2_1 and 16 or
      column < MSC_LOCATION and 256 or 2 ^ 31
    row[column] = math.random(0, bound - 1)
  end
  subscribers:insert(row)
  for _, kind in ipairs(some({1, 2, 3, 4}, 1)) do
    access:insert{id, kind, math.random(0, 255), math.random(0, 255), text(3), text(5)}
  end
  for _, kind in ipairs(some({1, 2, 3, 4}, 1)) do
    local is_active = math.random(100) <= 85 and 1 or 0
    facilities:insert{id, kind, is_active, math.random(0, 255), math.random(0, 255), text(5)}
    for _, start in ipairs(some({0, 8, 16}, 0)) do
      forwardings:insert{id, kind, start, start + math.random(8), math.random(0, 999999999)}
    end
  end
end

function tatp_fill(count)
  local of_type = {1, 'unsigned', 2, 'unsigned'}
  subscribers = fresh('subscribers', unsigned(COLUMNS), {1, 'unsigned'})
  subscribers:create_index('number', {type = 'HASH', parts = {SUB_NBR, 'unsigned'}})
  access = fresh('access', unsigned(4), of_type)
  facilities = fresh('facilities', unsigned(5), of_type)
  -- A tree: those of a facility are read together.
  forwardings = fresh('forwardings', unsigned(5),
    {1, 'unsigned', 2, 'unsigned', 3, 'unsigned'}, 'TREE')
  for id = 1, count do
    fill_subscriber(id)
  end
end

function tatp_get_subscriber_data(id)
  return subscribers:get(id)
end

function tatp_get_new_destination(id, kind, start, ends)
  local facility = facilities:get{id, kind}
  if facility == nil or facility[IS_ACTIVE] ~= 1 then
    return nil
  end
  local numbers = {}
  for _, row in ipairs(forwardings:select{id, kind}) do
    if row[3] <= start and ends < row[4] then
      table.insert(numbers, row[5])
    end
  end
  if #numbers == 0 then
    return nil
  end
  return numbers
end

function tatp_get_access_data(id, kind)
  return access:get{id, kind}
end

function tatp_update_subscriber_data(id, kind, bit, data)
  if subscribers:get(id) == nil or facilities:get{id, kind} == nil then
    return nil
  end
  box.begin()
  subscribers:update(id, {{'=', BIT_1, bit}})
  facilities:update({id, kind}, {{'=', DATA_A, data}})
  box.commit()
  return 1
end

function tatp_update_location(number, location)
  if subscribers.index.number:update(number, {{'=', VLR_LOCATION, location}}) == nil then
    return nil
  end
  return 1
end

local function id_of(number)
  local subscriber = subscribers.index.number:get(number)
  return subscriber and subscriber[1]
end

function tatp_insert_call_forwarding(number, kind, start, ends, numberx)
  local id = id_of(number)
  if not id or facilities:get{id, kind} == nil or forwardings:get{id, kind, start} ~= nil then
    return nil
  end
  forwardings:insert{id, kind, start, ends, numberx}
  return 1
end

function tatp_delete_call_forwarding(number, kind, start)
  local id = id_of(number)
  if not id or forwardings:delete{id, kind, start} == nil then
    return nil
  end
  return 1
end

-- Call forwardings.
function tatp_sums()
  return forwardings:len()
end
