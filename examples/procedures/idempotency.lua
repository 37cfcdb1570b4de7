#!lua name=idempotency
-- A store of idempotency keys: a request that is sent again is executed once, and everybody gets
-- its result.
--
--   FCALL once_begin   1 key  token milliseconds
--   FCALL once_finish  1 key  token result milliseconds
--   FCALL once_give_up 1 key  token
--
-- Keys       key: P<token> while its request is executed, then R<result>, with an expiry
-- Arguments  token: of the caller, that nobody else has; milliseconds: how long others wait for
--            the caller, or how long the result is kept
-- Results    once_begin    {'new'}: execute it, then call once_finish; {'pending'}: somebody is
--                          executing it; {'done', result}
--            once_finish   1 stored, 0 the key is not the caller's (any more): who took too long
--                          must undo what he has done
--            once_give_up  1 others may begin, 0 the key is not the caller's

redis.register_function('once_begin', function(keys, args)
  local state = redis.call('GET', keys[1])
  if not state then
    redis.call('SET', keys[1], 'P' .. args[1], 'PX', args[2])
    return {'new'}
  end
  if state:sub(1, 1) == 'P' then
    return {'pending'}
  end
  return {'done', state:sub(2)}
end)

redis.register_function('once_finish', function(keys, args)
  local state = redis.call('GET', keys[1])
  if not state or state ~= 'P' .. args[1] then
    return 0
  end
  redis.call('SET', keys[1], 'R' .. args[2], 'PX', args[3])
  return 1
end)

redis.register_function('once_give_up', function(keys, args)
  local state = redis.call('GET', keys[1])
  if not state or state ~= 'P' .. args[1] then
    return 0
  end
  redis.call('DEL', keys[1])
  return 1
end)
