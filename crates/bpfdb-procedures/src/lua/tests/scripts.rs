//! Scripts as they are in use.

use super::{library, script};

#[test]
fn voter() {
    library(
        r#"
#!lua name=voter
redis.register_function('vote', function(keys, args)
  if not redis.call('GET', keys[1]) then
    return 1 -- invalid contestant
  end
  local count = tonumber(redis.call('GET', keys[2]) or '0')
  if count >= tonumber(args[1]) then
    return 2 -- over the limit
  end
  redis.call('SET', keys[2], count + 1)
  redis.call('INCR', keys[3])
  return 0
end)
"#,
        r#"
function vote: writes
        r1 is count
    3   r0 = call GET KEYS[1]
    3   if r0: jump L1
    4   return 1
    4 L1:
    6   r2 = call GET KEYS[2]
    6   if r2: jump L2
    6   r2 = '0'
    6 L2:
    6   r1 = number r2
    7   r3 = number ARGV[1]
    7   unless r1 >= r3: jump L3
    8   return 2
    8 L3:
   10   r4 = r1 + 1
   10   r5 = call SET KEYS[2] r4
   11   r6 = call INCRBY KEYS[3] 1
   12   return 0
"#,
    );
}

#[test]
fn release_of_redis_py() {
    script(
        r#"
local token = redis.call('get', KEYS[1])
if not token or token ~= ARGV[1] then
    return 0
end
redis.call('del', KEYS[1])
return 1
"#,
        r#"
script: writes
        r0 is token
    1   r0 = call GET KEYS[1]
    2   unless r0: jump L1
    2   unless r0 ~= ARGV[1]: jump L2
    2 L1:
    3   return 0
    3 L2:
    5   r1 = call DEL KEYS[1]
    6   return 1
"#,
    );
}

#[test]
fn extend_of_redis_py() {
    script(
        r#"
local token = redis.call('get', KEYS[1])
if not token or token ~= ARGV[1] then
    return 0
end
local expiration = redis.call('pttl', KEYS[1])
if not expiration then
    expiration = 0
end
if expiration < 0 then
    return 0
end

local newttl = ARGV[2]
if ARGV[3] == "0" then
    newttl = ARGV[2] + expiration
end
redis.call('pexpire', KEYS[1], newttl)
return 1
"#,
        r#"
script: writes
        r0 is token
        r1 is expiration
        r2 is newttl
    1   r0 = call GET KEYS[1]
    2   unless r0: jump L1
    2   unless r0 ~= ARGV[1]: jump L2
    2 L1:
    3   return 0
    3 L2:
    5   r1 = call TTL KEYS[1] PX
    6   if r1: jump L3
    7   r1 = 0
    7 L3:
    9   unless r1 < 0: jump L4
   10   return 0
   10 L4:
   13   r2 = ARGV[2]
   14   unless ARGV[3] == '0': jump L5
   15   r2 = ARGV[2] + r1
   15 L5:
   17   r3 = call EXPIRE KEYS[1] r2 PX
   18   return 1
"#,
    );
}

#[test]
fn reacquire_of_redis_py() {
    script(
        r#"
local token = redis.call('get', KEYS[1])
if not token or token ~= ARGV[1] then
    return 0
end
redis.call('pexpire', KEYS[1], ARGV[2])
return 1
"#,
        r#"
script: writes
        r0 is token
    1   r0 = call GET KEYS[1]
    2   unless r0: jump L1
    2   unless r0 ~= ARGV[1]: jump L2
    2 L1:
    3   return 0
    3 L2:
    5   r1 = call EXPIRE KEYS[1] ARGV[2] PX
    6   return 1
"#,
    );
}

#[test]
fn a_limit_per_window() {
    script(
        r#"
local current = redis.call('INCR', KEYS[1])
if current == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
if current > tonumber(ARGV[1]) then
  return redis.error_reply('LIMIT for ' .. KEYS[1])
end
return {current, redis.call('TTL', KEYS[1])}
"#,
        r#"
script: writes
        r0 is current
    1   r0 = call INCRBY KEYS[1] 1
    2   unless r0 == 1: jump L1
    3   r1 = call EXPIRE KEYS[1] ARGV[2] EX
    3 L1:
    5   r2 = number ARGV[1]
    5   unless r0 > r2: jump L2
    6   r3 = 'LIMIT for ' .. KEYS[1]
    6   r4 = error r3
    6   return r4
    6 L2:
    8   r5 = call TTL KEYS[1] EX
    8   return {r0, r5}
"#,
    );
}

#[test]
fn a_limit_of_a_sliding_window() {
    script(
        r#"
#!lua flags=allow-oom
local now, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local limit = tonumber(ARGV[3])
local slot = math.floor(now / window)
local key = KEYS[1] .. ':'
local current = tonumber(redis.call('GET', key .. slot) or 0)
local previous = tonumber(redis.call('GET', key .. slot - 1) or 0)
local rest = window - now % window
if math.floor(previous * rest / window) + current >= limit then
  return 0
end
current = redis.call('INCR', key .. slot)
redis.call('EXPIRE', key .. slot, window * 2)
return current
"#,
        r#"
script: writes
        r0 is now
        r1 is window
        r2 is limit
        r3 is slot
        r4 is key
        r5 is current
        r8 is previous
        r12 is rest
    2   r0 = number ARGV[1]
    2   r1 = number ARGV[2]
    3   r2 = number ARGV[3]
    4   r3 = r0 // r1
    5   r4 = KEYS[1] .. ':'
    6   r7 = r4 .. r3
    6   r6 = call GET r7
    6   if r6: jump L1
    6   r6 = 0
    6 L1:
    6   r5 = number r6
    7   r10 = r3 - 1
    7   r11 = r4 .. r10
    7   r9 = call GET r11
    7   if r9: jump L2
    7   r9 = 0
    7 L2:
    7   r8 = number r9
    8   r13 = r0 % r1
    8   r12 = r1 - r13
    9   r14 = r8 * r12
    9   r15 = r14 // r1
    9   r16 = r15 + r5
    9   unless r16 >= r2: jump L3
   10   return 0
   10 L3:
   12   r17 = r4 .. r3
   12   r5 = call INCRBY r17 1
   13   r18 = r4 .. r3
   13   r19 = r1 * 2
   13   r20 = call EXPIRE r18 r19 EX
   14   return r5
"#,
    );
}
