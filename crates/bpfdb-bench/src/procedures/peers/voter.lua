-- Voter: examples/procedures/voter.lua for Tarantool. A procedure that does not yield is executed
-- without any other in between; the transaction saves what each statement by itself would cost.

local AREAS, FIRST_AREA = 300, 201
local ACCEPTED, NO_CONTESTANT, OVER_LIMIT = 0, 1, 2

local areas, contestants, phones, votes

function voter_fill(count)
  local function unsigned(name)
    return {name, 'unsigned'}
  end
  areas = fresh('areas', {unsigned('area'), {'state', 'string'}}, {1, 'unsigned'})
  contestants = fresh('contestants',
    {unsigned('contestant'), {'name', 'string'}, unsigned('votes')}, {1, 'unsigned'})
  phones = fresh('phones', {unsigned('phone'), unsigned('votes')}, {1, 'unsigned'})
  votes = fresh('votes',
    {unsigned('phone'), unsigned('number'), {'state', 'string'}, unsigned('contestant')},
    {1, 'unsigned', 2, 'unsigned'})
  for area = FIRST_AREA, FIRST_AREA + AREAS - 1 do
    areas:insert{area, string.char(65 + area % 26, 65 + area % 25)}
  end
  for contestant = 1, count do
    contestants:insert{contestant, 'Contestant ' .. contestant, 0}
  end
end

function vote(area, contestant, phone, limit)
  if contestants:get(contestant) == nil then
    return NO_CONTESTANT
  end
  local row = phones:get(phone)
  local cast = row and row[2] or 0
  if cast >= limit then
    return OVER_LIMIT
  end
  local found = areas:get(area)
  cast = cast + 1
  box.begin()
  phones:replace{phone, cast}
  votes:insert{phone, cast, found and found[2] or 'XX', contestant}
  contestants:update(contestant, {{'+', 3, 1}})
  box.commit()
  return ACCEPTED
end

-- Votes, as three spaces know them.
function voter_sums()
  local of_phones, of_contestants = 0, 0
  for _, row in phones:pairs() do
    of_phones = of_phones + row[2]
  end
  for _, row in contestants:pairs() do
    of_contestants = of_contestants + row[3]
  end
  return of_phones, votes:len(), of_contestants
end
