#!lua name=voter
local LIMIT = 10
local function votes_of(key)
  return tonumber(redis.call('GET', key) or '0')
end
redis.register_function('vote', function(keys, args)
  if not redis.call('GET', keys[1]) then
    return 1 -- invalid contestant
  end
  local count = votes_of(keys[2])
  for i = 1, #args do
    if count >= args[i] * LIMIT then
      return {2, 'over the limit'}
    end
  end
  redis.call('SET', keys[2], count + 1)
  redis.call('INCR', keys[3])
  return 0
end)
