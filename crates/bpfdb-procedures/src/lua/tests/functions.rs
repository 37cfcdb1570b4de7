//! Local functions, and those that a library registers.

use super::{library, listings, script};

#[test]
fn a_call_is_the_body() {
    script(
        r#"
local function double(n)
  if not n then
    return
  end
  n = n * 2
  return n
end
local a = double(ARGV[1])
a = double(a)
return a
"#,
        r#"
script: reads
        r0 is a
        r1 is n
        r3 is n
    8   r1 = ARGV[1]
    2   if r1: jump L1
    3   r0 = nil
    3   jump L2
    3 L1:
    5   r1 = r1 * 2
    6   r0 = r1
    8 L2:
    9   r3 = r0
    2   if r3: jump L3
    3   r2 = nil
    3   jump L4
    3 L3:
    5   r3 = r3 * 2
    6   r2 = r3
    9 L4:
    9   r0 = r2
   10   return r0
"#,
    );
}

#[test]
fn a_function_that_returns_what_another_returns() {
    script(
        r#"
local function both(a, b)
  if a then
    return {a, b}
  end
end
return both(ARGV[1], ARGV[2])
"#,
        r#"
script: reads
    2   unless ARGV[1]: jump L1
    3   return {ARGV[1], ARGV[2]}
    3 L1:
    6   return nil
"#,
    );
}

#[test]
fn a_function_sees_what_is_around_it() {
    script(
        r#"
local prefix = 'a:'
local n = 0
local key = function(name) return prefix .. name .. n end
n = n + 1
return key(ARGV[1])
"#,
        r#"
script: reads
        r0 is n
    2   r0 = 0
    4   r0 = r0 + 1
    3   r1 = 'a:' .. ARGV[1] .. r0
    3   return r1
"#,
    );
}

#[test]
fn tables_are_passed_on() {
    library(
        r#"
#!lua name=lib
local LIMIT, NAME = 10, 'first'
local function total(keys)
  local call = redis.call
  local sum = 0
  for _, key in ipairs(keys) do
    sum = sum + call('GET', key)
  end
  return sum
end
redis.register_function('total', function(k, a, none)
  return total(k) + LIMIT
end)
redis.register_function{function_name = NAME, callback = function(keys) return keys[1] end,
  flags = {'no-writes'}}
"#,
        r#"
function total: reads
        r0 is none
        r2 is sum
        r3 is _
        r5 is key
   11   r0 = nil
    5   r2 = 0
    6   r3 = 1
    6   r4 = #KEYS
    6 L1:
    6   unless r3 <= r4: jump L2
    6   r5 = KEYS[r3]
    7   r6 = call GET r5
    7   r2 = r2 + r6
    6   r3 = r3 + 1
    6   fuel
    6   jump L1
    6 L2:
    9   r1 = r2
   12   r7 = r1 + 10
   12   return r7
function first: reads
   14   return KEYS[1]
"#,
    );
}

/// The later of two fields counts, and which field one is may be known only when it runs.
#[test]
fn registrations_with_other_fields() {
    let begin = "local function f() return 1 end local function g() return 2 end ";
    let registered = |fields: &str| {
        let text = format!("{begin} redis.register_function{{{fields}}}");
        let all = super::super::library(text.as_bytes()).expect("it can be read");
        all.into_iter().map(|one| one.name).collect::<Vec<_>>()
    };
    for field in [
        "['call' .. 'back'] = g",
        "[ARGV] = g",
        "g",
        "callback = g",
        "['callback'] = g",
        "function_name = 'b'",
        "[1] = 'b'",
    ] {
        let first = registered(&format!("{field}, function_name = 'a', callback = f"));
        let last = registered(&format!("function_name = 'a', callback = f, {field}"));
        assert!(first.is_empty() && last.is_empty(), "{field}");
    }
    for field in ["flags = {'no-writes'}", "['description'] = 'text'"] {
        let last = registered(&format!("function_name = 'a', callback = f, {field}"));
        assert_eq!(last, [b"a"], "{field}");
    }
}

/// How many are compiled, and why the last one is not.
fn compiled(text: &str) -> (usize, String) {
    let all = super::super::library(text.as_bytes()).expect("it can be read");
    let count = all.iter().filter(|one| one.outcome.is_ok()).count();
    let last = all.last().expect("there are functions");
    let problems = last.outcome.as_ref().expect_err("too many");
    (count, problems[0].to_string())
}

#[test]
fn libraries_of_many_functions() {
    let register =
        |n: usize| format!("redis.register_function('f{n}', function() return {n} end)\n");
    let (count, problem) = compiled(&(1..=129).map(register).collect::<String>());
    assert_eq!(count, 128);
    assert_eq!(
        problem,
        "line 129: 128 functions of the library are compiled"
    );
}

#[test]
fn libraries_of_long_functions() {
    let register = |n: usize| format!("redis.register_function('f{n}', f)\n");
    let registered = (2..=1000).map(register).collect::<String>();
    let problem = "line 1000: the functions before it are too long together";
    let one = |times: usize| {
        let calls = "g() ".repeat(times);
        format!(
            "local function g() {} end ",
            "redis.call('INCR', 'a') ".repeat(300)
        ) + &format!("local function f() {calls} end\n{registered}")
    };
    // Each has 18,000 operations, or too many.
    assert_eq!(compiled(&one(60)), (10, problem.to_owned()));
    assert_eq!(compiled(&one(70)), (0, problem.to_owned()));
    // What asks for no operation is looked at as often.
    let idle = format!(
        "local function f() {} end\n{registered}",
        "local a = 1 ".repeat(1500)
    );
    let (count, _) = compiled(&idle);
    assert_eq!(count, 128);
}

#[test]
fn what_keeps_functions_out() {
    library(
        r#"
local LIMIT = 10
local count = 0
local cache = {}
local function helper(keys) return helper(keys) end
local changed = function() end
redis.register_function('constants', function() return LIMIT end)
redis.register_function('variables', function() count = count + 1; return count end)
redis.register_function('tables', function(keys) return cache[keys[1]] end)
redis.register_function('recursion', helper)
redis.register_function('changed', changed)
redis.register_function('globals', function() return KEYS[1] end)
redis.register_function('more', function(keys, args, ...) return 1 end)
redis.register_function('assigned', function(keys, args) args = nil end)
redis.register_function('unknown', helper or changed)
redis.register_function(helper(), helper)
changed = nil
"#,
        r#"
function constants: reads
    6   return 10
variables:
  line 7: count is a variable of the library
  line 7: count of an outer function is assigned to
tables:
  line 8: tables are the interpreter's
recursion:
  line 4: a function calls itself
changed:
  line 10: changed is assigned to elsewhere
globals:
  line 11: KEYS is a global variable
more:
  line 12: ... is the interpreter's
assigned:
  line 13: args is assigned to elsewhere
unknown:
  line 14: closures are the interpreter's
"#,
    );
}

/// A variable that something else assigns to while the library is loaded is no constant, wherever that
/// stands in the text.
#[test]
fn no_assignment_is_overlooked() {
    for assignment in [
        "local M = {} local function all() function M.set() LIMIT = 20 end M.set() end all()",
        "local M = {} local function all() function M:set() LIMIT = 20 end M:set() end all()",
        "local M = {a = {}} local function all() function M.a.set() LIMIT = 20 end M.a.set() end all()",
        "local t = {} t[(function() LIMIT = 20 return 1 end)()] = true",
        "local function options(change) change() return {} end \
         options(function() LIMIT = 20 end).done = true",
        "local t = {} t[1], t[(function() LIMIT = 20 return 1 end)()] = true, false",
        "local t = {(function() LIMIT = 20 return 1 end)()}",
        "local t = {[(function() LIMIT = 20 return 1 end)()] = 1}",
        "local t = ((function() LIMIT = 20 return 'a' end)()):rep(3)",
        "for i = (function() LIMIT = 20 return 1 end)(), 1 do end",
        "for i in (function() LIMIT = 20 end) do end",
        "repeat local done = true until (function() LIMIT = 20 return true end)()",
        "while (function() LIMIT = 20 end)() do end",
        "if (function() LIMIT = 20 end)() then end",
        "if false then elseif (function() LIMIT = 20 end)() then end",
        "local a = -(function() LIMIT = 20 return 1 end)()",
        "local a = 1 + (function() LIMIT = 20 return 1 end)() ^ 2",
    ] {
        let text = format!(
            "local LIMIT = 10 {assignment} redis.register_function('f', function() return LIMIT end)"
        );
        let compiled = listings(&text);
        assert!(!compiled.contains("return 10"), "{text}: {compiled}");
        assert!(
            compiled.contains("LIMIT is a variable of the library"),
            "{text}: {compiled}"
        );
    }
}

#[test]
fn a_zero_of_a_library_that_is_minus_zero_is_no_constant() {
    let z = "local Z = 0 redis.register_function('f', function() return Z .. '' end)";
    assert!(listings(z).contains("return"), "{}", listings(z));
    for before in [
        "local t = {} t[0 * -1] = 5",
        "local t = {} t[1] = 0 * -1",
        "local a = -(not 1 or 0)",
    ] {
        let compiled = listings(&format!("{before} {z}"));
        assert!(!compiled.contains("return"), "{before}: {compiled}");
    }
}
