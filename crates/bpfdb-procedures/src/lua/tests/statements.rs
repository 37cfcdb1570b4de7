//! Statements: what they become.

use super::script;

#[test]
fn locals_and_literals() {
    script(
        r#"
local DAY = 24 * 60 * 60
local key = KEYS[1]
local a, b, c = 'x' .. DAY, key
c = a
return c
"#,
        r#"
script: reads
        r0 is key
        r1 is b
        r2 is c
    2   r0 = KEYS[1]
    3   r1 = r0
    3   r2 = nil
    4   r2 = 'x86400'
    5   return r2
"#,
    );
}

#[test]
fn an_assignment_of_several_evaluates_all_first() {
    script(
        r#"
local a, b = ARGV[1], ARGV[2]
a, b = b, a
a, b = b .. a
"#,
        r#"
script: reads
        r0 is a
        r1 is b
    1   r0 = ARGV[1]
    1   r1 = ARGV[2]
    2   r2 = r1
    2   r3 = r0
    2   r1 = r3
    2   r0 = r2
    3   r4 = r1 .. r0
    3   r1 = nil
    3   r0 = r4
    3   return nil
"#,
    );
}

#[test]
fn branches() {
    script(
        r#"
local n = tonumber(ARGV[1])
if n < 0 then
  return -1
elseif not (n == 0) and n ~= 7 then
  n = n + 1
else
  n = 0
end
return n
"#,
        r#"
script: reads
        r0 is n
    1   r0 = number ARGV[1]
    2   unless r0 < 0: jump L1
    3   return -1
    3 L1:
    4   if r0 == 0: jump L2
    4   unless r0 ~= 7: jump L2
    5   r0 = r0 + 1
    5   jump L3
    5 L2:
    7   r0 = 0
    7 L3:
    9   return r0
"#,
    );
}

#[test]
fn a_loop_counts() {
    script(
        r#"
local sum = 0
for i = 1, #ARGV do
  sum = sum + ARGV[i]
end
for i = ARGV[1], 0, -2 do
  i = i * 2
  sum = sum + i
end
return sum
"#,
        r#"
script: reads
        r0 is sum
        r1 is i
        r5 is i
    1   r0 = 0
    2   r1 = 1
    2   r2 = #ARGV
    2 L1:
    2   unless r1 <= r2: jump L2
    3   r3 = ARGV[r1]
    3   r0 = r0 + r3
    2   r1 = r1 + 1
    2   fuel
    2   jump L1
    2 L2:
    5   r4 = number ARGV[1]
    5   r4 = r4 + 2
    5   r4 = r4 + -2
    5 L3:
    5   unless r4 >= 0: jump L4
    5   r5 = r4
    6   r5 = r5 * 2
    7   r0 = r0 + r5
    5   r4 = r4 + -2
    5   fuel
    5   jump L3
    5 L4:
    9   return r0
"#,
    );
}

#[test]
fn ipairs_of_words() {
    script(
        r#"
local found = 0
for place, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 1 then
    found = place
    break
  end
end
return found
"#,
        r#"
script: reads
        r0 is found
        r1 is place
        r3 is key
    1   r0 = 0
    2   r1 = 1
    2   r2 = #KEYS
    2 L1:
    2   unless r1 <= r2: jump L3
    2   r3 = KEYS[r1]
    3   r4 = call EXISTS r3
    3   unless r4 == 1: jump L2
    4   r0 = r1
    5   jump L3
    5 L2:
    2   r1 = r1 + 1
    2   fuel
    2   jump L1
    2 L3:
    8   return r0
"#,
    );
}

#[test]
fn while_and_repeat() {
    script(
        r#"
local n = 10
while true do
  n = n - 1
  if n < 5 then break end
end
repeat
  local rest = n % 3
  n = n + 1
until rest == 0
return n
"#,
        r#"
script: reads
        r0 is n
        r1 is rest
    1   r0 = 10
    2 L1:
    3   r0 = r0 - 1
    4   unless r0 < 5: jump L2
    4   jump L3
    4 L2:
    2   fuel
    2   jump L1
    2 L3:
    7   r1 = r0 % 3
    8   r0 = r0 + 1
    9   if r1 == 0: jump L4
    6   fuel
    6   jump L3
    6 L4:
   10   return r0
"#,
    );
}

#[test]
fn nothing_is_behind_a_return() {
    script(
        r#"
if ARGV[1] then
  return 1
else
  return 2
end
return 3
"#,
        r#"
script: reads
    1   unless ARGV[1]: jump L1
    2   return 1
    2 L1:
    4   return 2
"#,
    );
}

#[test]
fn a_shadowed_name_is_a_variable() {
    script(
        r#"
local KEYS = 'a'
do
  local KEYS = KEYS .. ARGV[1]
  return KEYS
end
"#,
        r#"
script: reads
        r0 is KEYS
    3   r0 = 'a' .. ARGV[1]
    4   return r0
"#,
    );
}
