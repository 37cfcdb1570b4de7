//! Expressions: what they become.

use super::script;

#[test]
fn and_and_or_are_values() {
    script(
        r#"
local a = ARGV[1] or 'none'
local b = ARGV[2] and ARGV[3]
local c = a == 'x' and 1 or 0
local d = a < 'x' or b
return not c
"#,
        r#"
script: reads
        r0 is a
        r1 is b
        r2 is c
        r3 is d
    1   r0 = ARGV[1]
    1   if r0: jump L1
    1   r0 = 'none'
    1 L1:
    2   r1 = ARGV[2]
    2   unless r1: jump L2
    2   r1 = ARGV[3]
    2 L2:
    3   unless r0 == 'x': jump L3
    3   r2 = 1
    3   jump L4
    3 L3:
    3   r2 = 0
    3 L4:
    4   r3 = true
    4   if r0 < 'x': jump L5
    4   r3 = r1
    4 L5:
    5   r4 = true
    5   unless r2: jump L6
    5   r4 = false
    5 L6:
    5   return r4
"#,
    );
}

#[test]
fn the_right_side_runs_only_if_needed() {
    script(
        r#"
local old = redis.call('GET', KEYS[1]) or redis.call('GETSET', KEYS[2], 0)
return old
"#,
        r#"
script: writes
        r0 is old
    1   r0 = call GET KEYS[1]
    1   if r0: jump L1
    1   r0 = call SET KEYS[2] 0 GET
    1 L1:
    2   return r0
"#,
    );
}

#[test]
fn a_chain_of_parts() {
    script(
        r#"
return 'a' .. 1 .. ':' .. ARGV[1] .. 2 + ARGV[2] .. '\0\255'
"#,
        r#"
script: reads
    1   r0 = 2 + ARGV[2]
    1   r1 = 'a1:' .. ARGV[1] .. r0 .. '\x00\xff'
    1   return r1
"#,
    );
}

#[test]
fn arithmetic_and_its_order() {
    script(
        r#"
local a = ARGV[1]
return math.floor(a / 10) + a % 10 * -a - (a - 2 * 3)
"#,
        r#"
script: reads
        r0 is a
    1   r0 = ARGV[1]
    2   r1 = r0 // 10
    2   r2 = r0 % 10
    2   r3 = -r0
    2   r4 = r2 * r3
    2   r5 = r1 + r4
    2   r6 = r0 - 6
    2   r7 = r5 - r6
    2   return r7
"#,
    );
}

#[test]
fn quotients_that_are_rounded() {
    script(
        r#"
return math.floor(ARGV[1] / 7) + math.ceil(ARGV[1] / 7) + math.ceil(ARGV[2])
"#,
        r#"
script: reads
    1   r0 = ARGV[1] // 7
    1   r1 = ARGV[1] /^ 7
    1   r2 = r0 + r1
    1   r3 = whole ARGV[2]
    1   r4 = r2 + r3
    1   return r4
"#,
    );
}

#[test]
fn functions_of_numbers() {
    script(
        r#"
local a = tonumber(ARGV[1])
return math.abs(a) + math.min(a, 5, ARGV[2]) + math.max(a, 0) + math.ceil(a)
"#,
        r#"
script: reads
        r0 is a
    1   r0 = number ARGV[1]
    2   r1 = number r0
    2   unless r1 < 0: jump L1
    2   r1 = -r1
    2 L1:
    2   r2 = r0 min 5
    2   r3 = r2 min ARGV[2]
    2   r4 = r1 + r3
    2   r5 = r0 max 0
    2   r6 = r4 + r5
    2   r7 = whole r0
    2   r8 = r6 + r7
    2   return r8
"#,
    );
}

#[test]
fn functions_of_strings() {
    script(
        r#"
local text = tostring(5) .. ARGV[1]
local from = redis.call('GET', KEYS[1])
return text:sub(2) .. string.sub(text, 1, -2) .. from:sub(-3, -1) .. #text .. from:len()
"#,
        r#"
script: reads
        r0 is text
        r2 is from
    1   r1 = text 5
    1   r0 = r1 .. ARGV[1]
    2   r2 = call GET KEYS[1]
    3   r3 = #r0
    3   r4 = part r0 2 -1
    3   r5 = part r0 1 -2
    3   r6 = #r2
    3   r7 = part r2 -3 -1
    3   r8 = #r0
    3   r9 = #r2
    3   r10 = r4 .. r5 .. r7 .. r8 .. r9
    3   return r10
"#,
    );
}

#[test]
fn words() {
    script(
        r#"
local i = tonumber(ARGV[1])
return {KEYS[i], ARGV[i + 1], KEYS[0], KEYS['x'], ARGV[65], #KEYS, ARGV[1.0]}
"#,
        r#"
script: reads
        r0 is i
    1   r0 = number ARGV[1]
    2   r1 = KEYS[r0]
    2   r2 = r0 + 1
    2   r3 = ARGV[r2]
    2   r4 = ARGV[65]
    2   r5 = #KEYS
    2   return {r1, r3, nil, nil, r4, r5, ARGV[1]}
"#,
    );
}

#[test]
fn tables_of_which_all_is_known() {
    script(
        r#"
local n = 1
local pair = {ARGV[1], n}
n = 2
local all = redis.call('MGET', KEYS[1], KEYS[2])
if all[1] and pair[3] == nil then
  return all
end
return {pair[1], pair[2], n, #all}
"#,
        r#"
script: reads
        r0 is n
    1   r0 = 1
    2   r1 = r0
    3   r0 = 2
    4   r2 = call GET KEYS[1]
    4   r3 = call GET KEYS[2]
    5   unless r2: jump L1
    5   unless nil == nil: jump L1
    6   return {r2, r3}
    6 L1:
    8   r4 = r0
    8   return {ARGV[1], r1, r4, 2}
"#,
    );
}

#[test]
fn statuses_and_errors() {
    script(
        r#"
local set = redis.call('SET', KEYS[1], 1)
if set.ok == 'OK' then
  return redis.status_reply('DONE')
elseif set['err'] then
  return {err = 'BAD ' .. ARGV[1]}
elseif ARGV[1] == '1' then
  return redis.error_reply('bad')
elseif ARGV[1] == '2' then
  return redis.error_reply('-BAD ' .. ARGV[2])
end
return {ok = ARGV[1]}
"#,
        r#"
script: writes
        r0 is set
    1   r0 = call SET KEYS[1] 1
    2   r1 = r0.ok
    2   unless r1 == 'OK': jump L1
    3   r2 = status 'DONE'
    3   return r2
    3 L1:
    4   r3 = r0.err
    4   unless r3: jump L2
    5   r4 = 'BAD ' .. ARGV[1]
    5   r5 = error r4
    5   return r5
    5 L2:
    6   unless ARGV[1] == '1': jump L3
    7   r6 = error 'ERR bad'
    7   return r6
    7 L3:
    8   unless ARGV[1] == '2': jump L4
    9   r7 = 'BAD ' .. ARGV[2]
    9   r8 = error r7
    9   return r8
    9 L4:
   11   r9 = status ARGV[1]
   11   return r9
"#,
    );
}

#[test]
fn the_first_of_several_values_is_returned() {
    script(
        r#"
return ARGV[1], redis.call('INCR', KEYS[1])
"#,
        r#"
script: writes
    1   r0 = call INCRBY KEYS[1] 1
    1   return ARGV[1]
"#,
    );
}
