#!lua name=collections

-- Points of a game for a player. Keys: the board, a sorted set, and the player, a hash. Arguments: the
-- player's name on the board, the points. Returns the player's sum.
redis.register_function('board_score', function(keys, args)
  redis.call('HINCRBY', keys[2], 'games', 1)
  redis.call('HSET', keys[2], 'last', args[2])
  return redis.call('ZINCRBY', keys[1], args[2], args[1])
end)

-- Puts a job into a queue, a list, and takes the oldest one if the queue is longer than it should be.
-- Keys: the queue, and its counters, a hash. Arguments: the job, the length. Returns the job that was
-- taken, or nothing.
redis.register_function('queue_pass', function(keys, args)
  local length = redis.call('RPUSH', keys[1], args[1])
  redis.call('HINCRBY', keys[2], 'put', 1)
  if length <= tonumber(args[2]) then return false end
  redis.call('HINCRBY', keys[2], 'taken', 1)
  return redis.call('LPOP', keys[1])
end)
