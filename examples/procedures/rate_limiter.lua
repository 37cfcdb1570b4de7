#!lua name=rate_limiter
-- Two rate limiters. All numbers are whole numbers; times are milliseconds, and the caller says
-- what time it is, so that a call depends on nothing but its arguments and the data.
--
--   FCALL limit_window 1 limiter  limit window now
--   FCALL limit_bucket 1 limiter  capacity interval now tokens
--
-- limit_window: a sliding-window counter. Calls are counted in windows of fixed length. Those of
-- the window before count by the part of it that the sliding window still covers.
--   Keys       <limiter>:<n>: calls in window n, kept for two windows and a second (derived). A
--              call may come up to a second later than its time says
--   Arguments  calls that are allowed, length of the window, time
--   Result     1 allowed and counted, 0 not allowed
--
-- limit_bucket: a token bucket. One token comes every interval, up to the capacity.
--   Keys       limiter: when the bucket will be full; not there: it is full. A call may come up to
--              a second later than its time says
--   Arguments  capacity, milliseconds from token to token, time, tokens that are wanted
--   Result     {1, tokens that are left}, or {0, milliseconds until there are enough}; -1 for the
--              time if the bucket never has so many

redis.register_function('limit_window', function(keys, args)
  local limit, window, now = tonumber(args[1]), tonumber(args[2]), tonumber(args[3])
  local number = math.floor(now / window)
  local current = keys[1] .. ':' .. number
  local calls = tonumber(redis.call('GET', current) or '0')
  local before = tonumber(redis.call('GET', keys[1] .. ':' .. (number - 1)) or '0')
  -- before * share of it + calls < limit, times window
  local covered = window - now % window
  if before * covered + calls * window >= limit * window then
    return 0
  end
  redis.call('SET', current, calls + 1, 'PX', 2 * window + 1000)
  return 1
end)

redis.register_function('limit_bucket', function(keys, args)
  local interval, now = tonumber(args[2]), tonumber(args[3])
  local to_fill = args[1] * interval
  local cost = args[4] * interval
  if cost > to_fill then
    return {0, -1}
  end
  local full_at = math.max(tonumber(redis.call('GET', keys[1]) or '0'), now) + cost
  local over = full_at - now - to_fill
  if over > 0 then
    return {0, over}
  end
  -- A second longer than it is needed, for calls that come late: their time has gone by already.
  redis.call('SET', keys[1], full_at, 'PX', full_at - now + 1000)
  return {1, math.floor((0 - over) / interval)}
end)
