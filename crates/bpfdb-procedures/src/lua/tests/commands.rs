//! `redis.call`: what it becomes.

use super::script;

#[test]
fn set_and_its_kin() {
    script(
        r#"
local call = redis.call
call('SET', KEYS[1], 1)
call('set', KEYS[1], 'v', 'ex', 10, 'nx')
call('SET', KEYS[1], 2, 'PXAT', ARGV[1], 'XX', 'GET')
call('SET', KEYS[1], 3, 'KEEPTTL')
call('SETEX', KEYS[1], 10, 'v')
call('PSETEX', KEYS[1], 10, 'v')
call('SETNX', KEYS[1], 'v')
call('GETSET', KEYS[1], 'v')
call('MSET', KEYS[1], 1, KEYS[2], ARGV[1])
"#,
        r#"
script: writes
    2   r0 = call SET KEYS[1] 1
    3   r1 = call SET KEYS[1] 'v' NX EX 10
    4   r2 = call SET KEYS[1] 2 XX PXAT ARGV[1] GET
    5   r3 = call SET KEYS[1] 3 KEEPTTL
    6   r4 = call SET KEYS[1] 'v' EX 10
    7   r5 = call SET KEYS[1] 'v' PX 10
    8   r6 = call SET KEYS[1] 'v' NX (as a number)
    9   r7 = call SET KEYS[1] 'v' GET
   10   r8 = call SET KEYS[1] 1
   10   r9 = call SET KEYS[2] ARGV[1]
   10   r10 = status 'OK'
   10   return nil
"#,
    );
}

#[test]
fn commands_of_one_key() {
    script(
        r#"
local pcall = redis.pcall
pcall('INCR', KEYS[1])
pcall('DECR', KEYS[1])
pcall('INCRBY', KEYS[1], ARGV[1])
pcall('DECRBY', KEYS[1], 5)
pcall('GETDEL', KEYS[1])
pcall('APPEND', KEYS[1], 'x')
pcall('STRLEN', KEYS[1])
pcall('TYPE', KEYS[1])
"#,
        r#"
script: writes
    2   r0 = call INCRBY KEYS[1] 1
    3   r1 = call DECRBY KEYS[1] 1
    4   r2 = call INCRBY KEYS[1] ARGV[1]
    5   r3 = call DECRBY KEYS[1] 5
    6   r4 = call GETDEL KEYS[1]
    7   r5 = call APPEND KEYS[1] 'x'
    8   r6 = call STRLEN KEYS[1]
    9   r7 = call TYPE KEYS[1]
    9   return nil
"#,
    );
}

#[test]
fn commands_of_times() {
    script(
        r#"
redis.call('EXPIRE', KEYS[1], 1)
redis.call('PEXPIREAT', KEYS[1], ARGV[1])
redis.call('PERSIST', KEYS[1])
return {redis.call('TTL', KEYS[1]), redis.call('PTTL', KEYS[1]),
  redis.call('EXPIRETIME', KEYS[1]), redis.call('PEXPIRETIME', KEYS[1])}
"#,
        r#"
script: writes
    1   r0 = call EXPIRE KEYS[1] 1 EX
    2   r1 = call EXPIRE KEYS[1] ARGV[1] PXAT
    3   r2 = call PERSIST KEYS[1]
    4   r3 = call TTL KEYS[1] EX
    4   r4 = call TTL KEYS[1] PX
    5   r5 = call TTL KEYS[1] EXAT
    5   r6 = call TTL KEYS[1] PXAT
    4   return {r3, r4, r5, r6}
"#,
    );
}

#[test]
fn commands_of_many_keys() {
    script(
        r#"
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('UNLINK', KEYS[1])
return redis.call('EXISTS', KEYS[1], KEYS[1]) + redis.call('TOUCH', KEYS[2])
"#,
        r#"
script: writes
    1   r0 = call DEL KEYS[1] KEYS[2]
    2   r1 = call DEL KEYS[1]
    3   r2 = call EXISTS KEYS[1] KEYS[1]
    3   r3 = call EXISTS KEYS[2]
    3   r4 = r2 + r3
    3   return r4
"#,
    );
}

#[test]
fn arguments_are_evaluated_in_order() {
    script(
        r#"
redis.call('SET', KEYS[1] .. ':a', redis.call('INCR', KEYS[1]), 'EX', 60 * 60)
return redis.call('MGET', KEYS[1], redis.call('GET', KEYS[2]))
"#,
        r#"
script: writes
    1   r0 = KEYS[1] .. ':a'
    1   r1 = call INCRBY KEYS[1] 1
    1   r2 = call SET r0 r1 EX 3600
    2   r3 = call GET KEYS[2]
    2   r4 = call GET KEYS[1]
    2   r5 = call GET r3
    2   return {r4, r5}
"#,
    );
}

#[test]
fn commands_on_collections() {
    script(
        r#"
local call = redis.call
call('hset', KEYS[1], 'f', 1, 'g', ARGV[1])
call('HINCRBY', KEYS[1], 'f', ARGV[2])
call('RPUSH', KEYS[2], call('HGET', KEYS[1], 'f'), 'b')
call('ZADD', KEYS[3], '7', 'm', ARGV[1], 'n')
local replies = call('HMGET', KEYS[1], 'f', 'g')
return {replies[2], call('LPOP', KEYS[2]), call('ZCARD', KEYS[3]), #replies}
"#,
        r#"
script: writes
    2   r0 = call HSET KEYS[1] 'f' 1 'g' ARGV[1]
    3   r1 = call HINCRBY KEYS[1] 'f' ARGV[2]
    4   r2 = call HGET KEYS[1] 'f'
    4   r3 = call RPUSH KEYS[2] r2 'b'
    5   r4 = call ZADD KEYS[3] '7' 'm' ARGV[1] 'n'
    6   r5 = call HGET KEYS[1] 'f'
    6   r6 = call HGET KEYS[1] 'g'
    7   r7 = call LPOP KEYS[2]
    7   r8 = call ZCARD KEYS[3]
    7   return {r6, r7, r8, 2}
"#,
    );
}

#[test]
fn commands_that_read_collections() {
    script(
        r#"
return {redis.call('HEXISTS', KEYS[1], 'f'), redis.call('LINDEX', KEYS[2], -1),
  redis.call('SISMEMBER', KEYS[3], 'a'), redis.call('ZSCORE', KEYS[4], 'm')}
"#,
        r#"
script: reads
    1   r0 = call HEXISTS KEYS[1] 'f'
    1   r1 = call LINDEX KEYS[2] -1
    2   r2 = call SISMEMBER KEYS[3] 'a'
    2   r3 = call ZSCORE KEYS[4] 'm'
    1   return {r0, r1, r2, r3}
"#,
    );
}
