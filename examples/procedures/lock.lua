#!lua name=lock
-- A lock with an owner and a time-out: the three scripts of redis-py's Lock. Who wants the lock
-- does SET lock token NX PX milliseconds, with a token that nobody else has.
--
--   FCALL lock_release   1 lock  token
--   FCALL lock_extend    1 lock  token milliseconds replace
--   FCALL lock_reacquire 1 lock  token milliseconds
--
-- Keys       lock: the token of its owner, with an expiry
-- Arguments  token of the caller; milliseconds; replace: 0 adds them to the time that is left,
--            anything else puts them in its place
-- Result     1 done, 0 the caller does not own the lock (any more)

redis.register_function('lock_release', function(keys, args)
  local token = redis.call('GET', keys[1])
  if not token or token ~= args[1] then
    return 0
  end
  redis.call('DEL', keys[1])
  return 1
end)

redis.register_function('lock_extend', function(keys, args)
  local token = redis.call('GET', keys[1])
  if not token or token ~= args[1] then
    return 0
  end
  local expiration = redis.call('PTTL', keys[1])
  if not expiration then
    expiration = 0
  end
  if expiration < 0 then
    return 0
  end
  local newttl = args[2]
  if args[3] == '0' then
    newttl = args[2] + expiration
  end
  redis.call('PEXPIRE', keys[1], newttl)
  return 1
end)

redis.register_function('lock_reacquire', function(keys, args)
  local token = redis.call('GET', keys[1])
  if not token or token ~= args[1] then
    return 0
  end
  redis.call('PEXPIRE', keys[1], args[2])
  return 1
end)
