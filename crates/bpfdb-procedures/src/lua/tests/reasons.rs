//! What is left to the interpreter, and why.

use super::script;

/// The reasons for which a script of one line is unsupported.
fn reasons(text: &str) -> Vec<String> {
    let problems = super::super::script(text.as_bytes()).expect_err(text);
    assert!(problems.iter().all(|problem| problem.line == 1), "{text}");
    problems.into_iter().map(|problem| problem.reason).collect()
}

#[test]
fn every_line_has_its_reason() {
    script(
        r#"
local t = {a = 1}
x = 5
local y = cjson.decode(ARGV[1])
while foo do
  KEYS[1] = 'a'
  for k, v in pairs(KEYS) do
    local n = 1.5
  end
end
local f = function() return g end
f = nil
goodbye(f())
return 2 ^ y
"#,
        r#"
line 1: tables are the interpreter's
line 2: x is a global variable
line 3: cjson.decode is the interpreter's
line 4: foo is a global variable
line 5: a table is changed
line 6: a loop over anything but ipairs of keys or arguments is the interpreter's
line 7: 1.5 is no whole number within ±2^53
line 10: f is assigned to elsewhere
line 12: goodbye is a global variable
line 13: ^ is the interpreter's
"#,
    );
}

#[test]
fn a_reason_for_each() {
    for (text, reason) in [
        ("return KEYS", ""),
        ("return redis", "redis as a value is the interpreter's"),
        (
            "return redis.call",
            "redis.call as a value is the interpreter's",
        ),
        (
            "return string.format('%d', 1)",
            "string.format is the interpreter's",
        ),
        ("return type(1)", "type is the interpreter's"),
        (
            "return ('a'):upper()",
            "the method upper is the interpreter's",
        ),
        ("return {{1}}", "tables are the interpreter's"),
        ("return {a = 1}", "tables are the interpreter's"),
        (
            "return {ok = 1}",
            "a reply with anything but a string is the interpreter's",
        ),
        (
            "return redis.error_reply('-' .. ARGV[1])",
            "an error of which the code is not known is the interpreter's",
        ),
        (
            "return redis.error_reply(ARGV[1])",
            "an error of which the code is not known is the interpreter's",
        ),
        (
            "return redis.error_reply(5)",
            "an error of which the code is not known is the interpreter's",
        ),
        (
            "return redis.status_reply(nil)",
            "a reply with anything but a string is the interpreter's",
        ),
        ("return unpack(KEYS)", "unpack is the interpreter's"),
        ("return ...", "... is the interpreter's"),
        ("return -0", "-0 is no integer"),
        // Lua takes every 0 of these for the first.
        ("local z = 0 / -1 return 0", "-0 is no integer"),
        (
            "if KEYS[1] then return 0 * (1 - 2) end return 0",
            "-0 is no integer",
        ),
        (
            "if false then return - -(2 - 2) end return 0",
            "-0 is no integer",
        ),
        (
            "if KEYS[2] then return -(1 and 0) end return 0",
            "-0 is no integer",
        ),
        // `not` of what is known is known.
        (
            "if ARGV[1] then return -((not nil) and 0) end return 0",
            "-0 is no integer",
        ),
        (
            "if ARGV[1] then return 0 * (not 'a' or -1) end return 0",
            "-0 is no integer",
        ),
        (
            "for i = -2, 5, 9007199254740991 do return i end",
            "a loop begins at a number that is too large",
        ),
        // What raises an error is not left out.
        (
            "local x = redis.config.mode return 1",
            "tables are the interpreter's",
        ),
        (
            "local x = _G.debug_mode return 1",
            "_G is a global variable",
        ),
        (
            "local x = tonumber.y return 1",
            "tonumber is a global variable",
        ),
        (
            "local function f(p) return 1 end return f(math.a.b)",
            "tables are the interpreter's",
        ),
        (
            "return 9007199254740994",
            "9007199254740994 is no whole number within ±2^53",
        ),
        ("return '\\300'", "a string has an unknown escape"),
        ("return function() end", "closures are the interpreter's"),
        (
            "return (function() return 1 end)()",
            "closures are the interpreter's",
        ),
        ("break", "no loop is around break"),
        (
            "for i = 1, 2, ARGV[1] do end",
            "the step of a loop is no literal",
        ),
        ("for i = 1, 2, 0 do end", "the step of a loop is no literal"),
        ("function f() end", "f is a global variable"),
        ("local t = {1, 2} t[1] = 3", "a table is changed"),
        (
            "local t = {1} return t[ARGV[1]]",
            "a table that is read by an index that is no literal is the interpreter's",
        ),
        (
            "local t = {KEYS[1]} return #t",
            "the length of a table with elements that may be nil is the interpreter's",
        ),
        (
            "local a = 1 local function f() a = 2 end f()",
            "a of an outer function is assigned to",
        ),
        (
            "local function f() return 1, 2 end local a, b = f()",
            "a function returns several values",
        ),
        (
            "local f = ARGV[1] f()",
            "a call of the variable f is the interpreter's",
        ),
        (
            "return tonumber('10', 16)",
            "tonumber with a base is the interpreter's",
        ),
        (
            "return tostring()",
            "tostring with so many arguments is the interpreter's",
        ),
    ] {
        let all = reasons(text);
        assert_eq!(all.len(), 1, "{text}: {all:?}");
        assert!(all[0].ends_with(reason), "{text}: {all:?}");
    }
}

/// What Lua evaluates and does not use is evaluated too, or the function is left.
#[test]
fn arguments_that_nobody_uses() {
    let more = "redis.call('INCR', 'a')";
    for call in [
        "tonumber(1, 10, M)",
        "tostring(1, M)",
        "math.floor(1, M)",
        "math.floor(ARGV[1] / 2, M)",
        "math.ceil(1, M)",
        "math.abs(1, M)",
        "string.len('a', M)",
        "string.sub('a', 1, 2, M)",
        "('a'):len(M)",
        "('a'):sub(1, 2, M)",
        "redis.status_reply('a', M)",
        "redis.error_reply('a', M)",
        "redis.call('GET', 'a', M)",
        "redis.call('TTL', 'a', M)",
    ] {
        let text = format!("return {}", call.replace('M', more));
        assert_eq!(reasons(&text).len(), 1, "{text}");
    }
    assert_eq!(
        reasons(&format!("for i, key in ipairs(KEYS, {more}) do end")),
        ["a loop over anything but ipairs of keys or arguments is the interpreter's"]
    );
    for text in [
        "local function f() end f(M)",
        "local a = 1, M",
        "local a = 1 a = 2, M",
        "return 1, M",
        "return math.max(1, M)",
        "return tonumber(M, 10)",
    ] {
        let function = super::super::script(text.replace('M', more).as_bytes()).expect(text);
        assert_eq!(function.commands().count(), 1, "{text}: {function}");
    }
}

#[test]
fn a_reason_for_each_command() {
    for (arguments, reason) in [
        ("", "a call without a command"),
        ("ARGV[1]", "the name of a command is no literal"),
        (
            "'lrem', 'a', 1, 'b'",
            "LREM with 3 arguments is the interpreter's",
        ),
        ("'GET'", "GET with 0 arguments is the interpreter's"),
        ("'TIME'", "TIME with 0 arguments is the interpreter's"),
        ("'GET', nil", "an argument of a command is nil or a boolean"),
        (
            "'GET', KEYS[0]",
            "an argument of a command is nil or a boolean",
        ),
        ("'DEL', unpack(KEYS)", "unpack is the interpreter's"),
        (
            "'MSET', 'a', 1, 'b'",
            "MSET with 3 arguments is the interpreter's",
        ),
        ("'SET', 'a', 1, ARGV[1]", "an option of SET is no literal"),
        (
            "'SET', 'a', 1, 'NX', 'XX'",
            "XX does not fit the other options of SET",
        ),
        (
            "'SET', 'a', 1, 'EX', 1, 'PX', 1",
            "PX does not fit the other options of SET",
        ),
        (
            "'SET', 'a', 1, 'EX', 1, 'KEEPTTL'",
            "KEEPTTL does not fit the other options of SET",
        ),
        (
            "'SET', 'a', 1, 'KEEPTTL', 'EX', 1",
            "EX does not fit the other options of SET",
        ),
        (
            "'SET', 'a', 1, 'EX'",
            "EX does not fit the other options of SET",
        ),
        (
            "'EXPIRE', 'a', 1, 'NX'",
            "EXPIRE with 3 arguments is the interpreter's",
        ),
        (
            "'MGET', 'a'",
            "this use of the reply of MGET is the interpreter's",
        ),
        (
            "'hmget', 'a', 'f'",
            "this use of the reply of HMGET is the interpreter's",
        ),
        (
            "'HSET', 'a', 'f'",
            "HSET with 2 arguments is the interpreter's",
        ),
        (
            "'HGET', 'a', nil",
            "an argument of a command is nil or a boolean",
        ),
        (
            "'LPOP', 'a', 2",
            "LPOP with 2 arguments is the interpreter's",
        ),
        (
            "'ZADD', 'a', 'NX', 1, 'm'",
            "ZADD with 4 arguments is the interpreter's",
        ),
        (
            "'ZADD', 'a', 'inf', 'm'",
            "ZADD with 3 arguments is the interpreter's",
        ),
        (
            "'ZINCRBY', 'a', '1.5', 'm'",
            "ZINCRBY with 3 arguments is the interpreter's",
        ),
    ] {
        let text = format!("local a = 1 a = redis.call({arguments})");
        assert_eq!(reasons(&text), [reason], "{text}");
    }
}

#[test]
fn long_literals() {
    let most = "x".repeat(4096);
    let problem = "a literal is longer than 4096 bytes";
    for text in [
        format!("return '{most}'"),
        format!("local a = '{most}' return a"),
        format!("return ARGV[1] .. '{most}'"),
    ] {
        assert!(super::super::script(text.as_bytes()).is_ok());
    }
    for text in [
        format!("return '{most}x'"),
        format!("local a = '{most}x' return a"),
        format!("local a = '{most}' return a .. 'x'"),
        format!("local a = '{most}' return ARGV[1] .. a .. 'x' .. ARGV[1]"),
        format!("local a = '{most}' return redis.error_reply('BAD ' .. ARGV[1] .. a .. a)"),
    ] {
        assert_eq!(reasons(&text), [problem]);
    }
}

/// Few bytes of text may mean many bytes of literals.
#[test]
fn literals_in_functions_that_are_called_often() {
    let long = "x".repeat(50_000);
    let short = "x".repeat(4000);
    let joined = |part: &str| vec![part; 150].join(" .. ");
    let listed = |part: &str| vec![part; 150].join(", ");
    let put = |literal: &str, body: &str| {
        let calls = "f() ".repeat(400);
        format!("local a, n = '{literal}', ARGV[1] local function f() {body} end {calls}")
    };
    let problem = "a literal is longer than 4096 bytes";
    let body = format!("local t = {}", joined("a"));
    assert_eq!(reasons(&put(&long, &body))[0], problem);
    assert_eq!(reasons(&put(&short, &body))[0], problem);
    let problem = "it becomes too long when functions and literals are put in their places";
    for body in [
        format!("local t = n .. {}", joined("(a + n)")),
        format!("redis.call('DEL', {})", listed("a")),
        format!("local t = {{{}}}", listed("a")),
        format!("local function g() end g({})", listed("a")),
        "redis.call('SET', a, 1) ".repeat(150),
    ] {
        assert_eq!(reasons(&put(&short, &body)), [problem], "{body}");
    }
}

/// Each of them is work: few lines may have millions.
#[test]
fn operands_in_functions_that_are_called_often() {
    let many = vec!["k"; 240].join(", ");
    let calls = "f() ".repeat(124);
    let problem = "it becomes too long when functions and literals are put in their places";
    for line in [
        format!("redis.call('DEL', {many}) "),
        format!("redis.call('EXISTS', {many}) "),
        format!("local t = {} ", vec!["k"; 150].join(" .. ")),
    ] {
        let body = line.repeat(45);
        let text = format!("local k, n = KEYS[1], 1 local function f() {body} end {calls}");
        assert_eq!(reasons(&text), [problem], "{line}");
    }
}

/// Labels have numbers of 16 bits: they would be used twice.
#[test]
fn more_labels_than_numbers() {
    // 97 labels, and nothing that jumps to them.
    let branch = format!("if {} then end ", vec!["t and n"; 95].join(" or "));
    let function = format!(
        "local t, n = true, nil local function f() {} end ",
        branch.repeat(46)
    );
    let end = "if ARGV[1] then return 1 end if ARGV[2] then return 2 end return 3";
    let called = |times: usize| function.clone() + &"f() ".repeat(times) + end;
    assert!(super::super::script(called(14).as_bytes()).is_ok());
    let all = reasons(&called(15));
    assert_eq!(
        all,
        ["it becomes too long when functions and literals are put in their places"]
    );
}

/// A table stands for its elements wherever it is used.
#[test]
fn long_tables_that_are_used_often() {
    let table = format!("local t = {{{}}}", "1, ".repeat(15_000));
    let calls = |body: &str| {
        format!("local function f() {body} end ") + &"if ARGV[1] then return f() end ".repeat(150)
    };
    let all = reasons(&format!("{table} {}", calls("return t")));
    assert_eq!(
        all,
        ["a reply of more than 64 elements is the interpreter's"]
    );
    let reads = "local a = t[1] ".repeat(100);
    let text = format!("{table} {}", calls(&reads));
    assert!(super::super::script(text.as_bytes()).is_ok());
}

#[test]
fn functions_that_call_functions() {
    let mut text = String::from("local function f0() return 1 end ");
    for n in 1..=8 {
        text += &format!("local function f{n}() return f{}() + 1 end ", n - 1);
    }
    assert!(super::super::script(format!("{text} return f7()").as_bytes()).is_ok());
    let all = reasons(&format!("{text} return f8()"));
    assert_eq!(all, ["functions call each other more than 8 deep"]);
}

/// It is an error in Lua, where `tonumber` of nil is none.
#[test]
fn the_number_of_nothing() {
    let problem = "tonumber of a function that may return nothing is the interpreter's";
    for body in [
        "",
        "return",
        "if KEYS[1] then return 1 end",
        "if KEYS[1] then return 1 else return end",
        "for i = 1, 2 do if KEYS[i] then return end end return 1",
    ] {
        let text = format!("local function f() {body} end return tonumber(f())");
        assert_eq!(reasons(&text), [problem], "{text}");
        let text = format!(
            "local function f() {body} end local function g() return f() end return tonumber(g())"
        );
        assert_eq!(reasons(&text), [problem], "{text}");
    }
    for body in [
        "return nil",
        "if KEYS[1] then return 1 else return ARGV[1] end",
        "do return redis.call('GET', KEYS[1]) end",
    ] {
        let text = format!("local function f() {body} end return tonumber(f())");
        assert!(super::super::script(text.as_bytes()).is_ok(), "{text}");
    }
}

/// Which function is called may be known only within the call, and another one in the next.
#[test]
fn the_number_of_nothing_of_another_function() {
    let problem = "tonumber of a function that may return nothing is the interpreter's";
    let functions = "local function none() end local function one() return 1 end ";
    for (body, arguments) in [
        ("local function g() end return g()", ""),
        ("local g = none return g()", ""),
        ("return g()", "none"),
        ("local h = g return h()", "none"),
        ("if KEYS[1] then return one() end return g()", "none"),
    ] {
        let text =
            format!("{functions} local function f(g) {body} end return tonumber(f({arguments}))");
        assert_eq!(reasons(&text), [problem], "{text}");
    }
    let text = format!(
        "{functions} local function f(g) return g() end local a = f(one) return tonumber(f(none))"
    );
    assert_eq!(reasons(&text), [problem]);
    let text = format!(
        "{functions} local function f(g) return g() end local a = f(none) return tonumber(f(one))"
    );
    assert!(super::super::script(text.as_bytes()).is_ok());
    for body in [
        "local function g() return 1 end return g()",
        "local call = redis.call return call('GET', KEYS[1])",
        "while true do if KEYS[1] then return 1 end end",
    ] {
        let text = format!("local function f() {body} end return tonumber(f())");
        assert!(super::super::script(text.as_bytes()).is_ok(), "{text}");
    }
}

/// A hundred ways through each of eight functions.
#[test]
fn the_number_of_many_functions() {
    let mut text = String::from("local function f0(c) return c end ");
    for n in 1..=7 {
        let ways = format!("if c then return f{}(c) end ", n - 1).repeat(100);
        text += &format!("local function f{n}(c) {ways} return 1 end ");
    }
    let all = reasons(&format!("{text} return tonumber(f7(KEYS[1]))"));
    assert_eq!(all, ["it is longer than 20000 operations"]);
}

#[test]
fn too_large() {
    let mut doubling = String::from("local function f0() redis.call('INCR', 'a') end ");
    for n in 1..=7 {
        let calls = format!("f{}() ", n - 1).repeat(10);
        doubling += &format!("local function f{n}() {calls} end ");
    }
    assert_eq!(
        reasons(&format!("{doubling} f7()")),
        ["it is longer than 20000 operations"]
    );

    // What asks for no operation is looked at as often.
    let idle = "local a = 1 ".repeat(3000);
    let mut calls = format!("local function f0() {idle} end ");
    for n in 1..=3 {
        let call = format!("f{}() ", n - 1).repeat(50);
        calls += &format!("local function f{n}() {call} end ");
    }
    assert_eq!(
        reasons(&format!("{calls} f3()")),
        ["it becomes too long when functions and literals are put in their places"]
    );

    // All of them are in use until the last line.
    let declared = |count: usize| {
        let all = (0..count).map(|n| format!("local v{n} = ARGV[1] "));
        all.collect::<String>()
    };
    let used = |count: usize| {
        let all = (0..count).map(|n| format!("redis.call('DEL', v{n}) "));
        all.collect::<String>()
    };
    let problem = "it has more than 250 variables and intermediate values at a time";
    assert_eq!(reasons(&(declared(251) + &used(251))), [problem]);

    // Intermediate values have room behind the variables.
    let values = "redis.call('SET', KEYS[1] .. ':a', ARGV[1] + 1) ".repeat(300);
    let text = declared(240) + &values + &used(240);
    let function = super::super::script(text.as_bytes()).expect("small");
    assert!(function.registers.len() < 250, "{function}");

    // So have the variables of a block behind those of another one.
    let block = "do local a = ARGV[1] + 1 local b = KEYS[1] .. a redis.call('DEL', b) end ";
    let function = super::super::script(block.repeat(300).as_bytes()).expect("small");
    assert!(function.registers.len() < 10, "{function}");
    assert!(function.registers.contains(&Some("a".into())), "{function}");
}
