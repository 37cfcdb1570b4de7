#!lua name=voter
-- Voter: a telephone vote (H-Store, VoltDB). The procedure VOTE, with a record of each vote.
--
--   FCALL vote 3 area contestant phone  number choice limit
--
-- Keys       voter:area:<three digits>         the state of an area code
--            voter:contestant:<number>         the name of a contestant
--            voter:phone:<ten digits>          how often this number has voted
--            voter:vote:<ten digits>:<n>       its n-th vote: <state> <contestant>   (derived)
--            voter:votes:<number>              votes for a contestant                (derived)
-- Arguments  phone number, number of the contestant, how many votes a phone may cast
-- Result     0 the vote counts, 1 there is no such contestant, 2 the number has cast its votes
--
-- As published: a vote from an unknown area code counts, for the state XX.

local ACCEPTED, NO_CONTESTANT, OVER_LIMIT = 0, 1, 2

redis.register_function('vote', function(keys, args)
  local area, contestant, phone = keys[1], keys[2], keys[3]
  local number, choice, limit = args[1], args[2], tonumber(args[3])

  if not redis.call('GET', contestant) then
    return NO_CONTESTANT
  end
  local votes = tonumber(redis.call('GET', phone) or '0')
  if votes >= limit then
    return OVER_LIMIT
  end
  local state = redis.call('GET', area) or 'XX'
  votes = votes + 1
  redis.call('SET', phone, votes)
  redis.call('SET', 'voter:vote:' .. number .. ':' .. votes, state .. ' ' .. choice)
  redis.call('INCR', 'voter:votes:' .. choice)
  return ACCEPTED
end)
