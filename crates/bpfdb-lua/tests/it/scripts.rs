//! What scripts see and say, as Redis 7.0 has it. The expected texts were taken from its replies.

use crate::it::common;

use bpfdb_lua::{Failure, Reply};
use common::{Machine, bulk};

fn error(code: &str) -> String {
    match Machine::new().eval(code, &[], &[]) {
        Err(Failure::Raised(text)) => {
            let text = String::from_utf8(text).expect("text");
            let (what, place) = text
                .rsplit_once(" script: ")
                .unwrap_or_else(|| panic!("{code}: {text}"));
            let (_, place) = place.split_once(", ").expect("its name");
            assert_eq!(place, "on @user_script:1.", "{code}");
            what.to_owned()
        }
        other => panic!("{code}: {other:?}"),
    }
}

fn value(code: &str) -> Reply {
    Machine::new().eval(code, &[], &[]).expect(code)
}

#[test]
fn errors_are_worded_as_redis_does() {
    for (code, text) in [
        ("error('x')", "ERR user_script:1: x"),
        ("error({err='MY err'})", "MY err"),
        ("error('a', 0)", "ERR a"),
        ("error(1)", "ERR user_script:1: 1"),
        ("error()", "ERR nil"),
        ("error(true)", "ERR true"),
        (
            "return foo",
            "ERR user_script:1: Script attempted to access nonexistent global variable 'foo'",
        ),
        (
            "foo = 1",
            "ERR user_script:1: Attempt to modify a readonly table",
        ),
        (
            "string.x = 1",
            "ERR user_script:1: Attempt to modify a readonly table",
        ),
        (
            "rawset(_G, 'a', 1)",
            "ERR Attempt to modify a readonly table",
        ),
        (
            "redis = 1",
            "ERR user_script:1: Attempt to modify a readonly table",
        ),
        (
            "KEYS = {}",
            "ERR user_script:1: Attempt to modify a readonly table",
        ),
        (
            "_G = nil",
            "ERR user_script:1: Attempt to modify a readonly table",
        ),
        (
            "_G.string = nil",
            "ERR user_script:1: Attempt to modify a readonly table",
        ),
        (
            "table.insert(_G, 1)",
            "ERR Attempt to modify a readonly table",
        ),
        (
            "table.insert(redis, 1)",
            "ERR Attempt to modify a readonly table",
        ),
        (
            "setmetatable(_G, {})",
            "ERR Attempt to modify a readonly table",
        ),
        (
            "getmetatable('').__index = 1",
            "ERR user_script:1: Attempt to modify a readonly table",
        ),
        (
            "local t = nil; return t.x",
            "ERR user_script:1: attempt to index local 't' (a nil value)",
        ),
        (
            "return redis.call()",
            "ERR Please specify at least one argument for this redis lib call",
        ),
        (
            "return redis.call({})",
            "ERR Lua redis lib command arguments must be strings or integers",
        ),
        ("return redis.sha1hex()", "ERR wrong number of arguments"),
        ("redis.setresp(4)", "ERR RESP version must be 2 or 3."),
        (
            "redis.log(1)",
            "ERR redis.log() requires two arguments or more.",
        ),
        (
            "redis.log('a', 'b')",
            "ERR First argument must be a number (log level).",
        ),
        ("return redis.call('fail', 'x')", "ERR x"),
        (
            "return string.find(nil, 'a')",
            "ERR user_script:1: bad argument #1 to 'find' (string expected, got nil)",
        ),
        (
            "return ('x'):match({})",
            "ERR user_script:1: bad argument #1 to 'match' (string expected, got table)",
        ),
        (
            "return string.gsub('a', 'a')",
            "ERR user_script:1: bad argument #3 to 'gsub' (string/function/table expected)",
        ),
        (
            "return string.gsub('a', 'a', 'b', {})",
            "ERR user_script:1: bad argument #4 to 'gsub' (number expected, got table)",
        ),
        (
            "return string.find('a', '%')",
            "ERR user_script:1: malformed pattern (ends with '%')",
        ),
        (
            "for w in string.gmatch('a', '[a') do end",
            "ERR user_script:1: malformed pattern (missing ']')",
        ),
        (
            "local x = string.gsub('a', 'a', '%2')",
            "ERR user_script:1: invalid capture index",
        ),
        (
            "local x = string.gsub('a', 'a', function() return {} end)",
            "ERR user_script:1: invalid replacement value (a table)",
        ),
        (
            "local x = string.gsub('a', 'a', function() error('b') end)",
            "ERR user_script:1: b",
        ),
        (
            "local x = string.gsub('a', 'a', function(w) return redis.call('fail', w) end)",
            "ERR a",
        ),
        (
            "return string.find('a', string.rep('a?', 5000))",
            "ERR user_script:1: pattern too complex",
        ),
    ] {
        assert_eq!(error(code), text, "{code}");
    }
}

#[test]
fn replies_are_those_of_redis() {
    let error = |text: &str| Reply::Error(text.into());
    let status = |text: &str| Reply::Status(text.into());
    for (code, reply) in [
        ("return redis.error_reply('abc')", error("ERR abc")),
        ("return (struct.unpack('i0', ''))", Reply::Integer(0)),
        ("return redis.error_reply('ABC def')", error("ABC def")),
        ("return redis.error_reply('')", error("ERR ")),
        ("return redis.error_reply('-ABC def')", error("ABC def")),
        ("return redis.error_reply('-abc')", error("ERR abc")),
        ("return redis.error_reply('A b\\000c')", error("A b")),
        (
            "return redis.error_reply()",
            error("ERR wrong number or type of arguments"),
        ),
        ("return redis.status_reply('fine')", status("fine")),
        ("return redis.status_reply('fi\\000ne')", status("fi")),
        ("return redis.status_reply('fi\\000ne').ok", bulk("fi\0ne")),
        ("return {err = 'abc'}", error("abc")),
        ("return redis.pcall('fail', 'x')", error("ERR x")),
        ("return", Reply::Nil),
        ("return 1e300", Reply::Integer(i64::MIN)),
        ("return tostring(2^53)", bulk("9.007199254741e+15")),
        (
            "return redis.sha1hex('')",
            bulk("da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ),
        ("return redis.REDIS_VERSION_NUM", Reply::Integer(458_767)),
        (
            "KEYS[1] = 'k' table.insert(ARGV, 'a') return KEYS[1] .. ARGV[1]",
            bulk("ka"),
        ),
        (
            "return rawget(_G, 'redis') == redis and _G._G == _G and 1",
            Reply::Integer(1),
        ),
        (
            "return getmetatable('').__index == string and 1 or 0",
            Reply::Integer(0),
        ),
        ("return ('x'):rep(3)", bulk("xxx")),
        ("return {double = 3.5}", Reply::Double(3.5)),
        ("return tostring(redis.call('nothing'))", bulk("false")),
        (
            "redis.setresp(3) return tostring(redis.call('nothing'))",
            bulk("nil"),
        ),
        (
            "local ok, problem = pcall(redis.call, 'fail', 'x') return {tostring(ok), problem}",
            Reply::Array(vec![bulk("false"), bulk("ERR x")]),
        ),
        (
            "local names = {} for name in pairs(string) do names[#names + 1] = name end return #names",
            Reply::Integer(15),
        ),
    ] {
        assert_eq!(value(code), reply, "{code}");
    }
}

#[test]
fn numbers_become_the_words_that_redis_makes_of_them() {
    for (code, word) in [
        ("1.5", "1.5"),
        ("10/3", "3.3333333333333335"),
        ("2^53", "9007199254740992"),
        ("1e15", "1000000000000000"),
        ("1e20", "1e+20"),
        ("-0", "-0"),
        ("0/0", "-nan"),
        ("1/0", "inf"),
    ] {
        assert_eq!(
            value(&format!("return redis.call('echo', {code})")),
            bulk(word),
            "{code}"
        );
    }
}

#[test]
fn keys_and_arguments_are_there() {
    let mut machine = Machine::new();
    let reply = machine.eval(
        "return {KEYS[1], ARGV[2], #KEYS, #ARGV, KEYS[2]}",
        &["k"],
        &["a", "b"],
    );
    let all = vec![bulk("k"), bulk("b"), Reply::Integer(1), Reply::Integer(2)];
    assert_eq!(reply, Ok(Reply::Array(all)));
}

/// What one call leaves, the next one does not find.
#[test]
fn calls_know_nothing_of_each_other() {
    let mut machine = Machine::new();
    for (code, reply) in [
        (
            "cjson.encode_number_precision(3) return pcall(table.insert, string, 'left') and 0 or 1",
            Reply::Integer(1),
        ),
        ("return #string", Reply::Integer(0)),
        ("return cjson.encode(1/3)", bulk("0.33333333333333")),
    ] {
        assert_eq!(machine.eval(code, &[], &[]), Ok(reply), "{code}");
    }
}

/// The numbers go on from call to call.
#[test]
fn numbers_at_random_are_those_of_redis() {
    let mut machine = Machine::new();
    for (code, number) in [
        ("return tostring(math.random())", "0.17082803611217"),
        (
            "math.randomseed(5) return tostring(math.random())",
            "0.52483957937213",
        ),
        ("return tostring(math.random())", "0.27285430173988"),
    ] {
        assert_eq!(machine.eval(code, &[], &[]), Ok(bulk(number)), "{code}");
    }
    let code = "math.randomseed(5) return {math.random(10), math.random(5, 6)}";
    let numbers = vec![Reply::Integer(6), Reply::Integer(5)];
    assert_eq!(machine.eval(code, &[], &[]), Ok(Reply::Array(numbers)));
}

#[test]
fn the_way_out_is_closed() {
    for code in [
        "return loadstring('return print')()",
        "return loadstring('return print')() == nil",
        "return pcall(function() return debug end)",
        "return io",
        "return load(function() return nil end)() == nil and os",
        "return load(function() return nil end)() or os",
        "return coroutine.wrap(function() return io end)()",
        "return string.gsub('a', 'a', function() return debug end)",
        "return loadstring('\\27Lua')",
        "return getfenv",
        "return setfenv",
        "return newproxy",
        "return require",
        "return package",
        "return module",
        "return dofile",
        "return loadfile",
    ] {
        let outcome = Machine::new().eval(code, &[], &[]);
        let refused = matches!(&outcome, Err(Failure::Raised(text))
            if text.windows(20).any(|part| part == b"nonexistent global v"));
        assert!(
            refused || matches!(outcome, Ok(Reply::Nil)),
            "{code}: {outcome:?}"
        );
    }
}

/// As those of C in Redis: `pcall` gives their text, and it begins with the line.
#[test]
fn errors_of_our_functions_are_texts() {
    assert_eq!(
        error("return cjson.decode('{')"),
        "ERR user_script:1: Expected object key string but found T_END at character 2"
    );
    let caught = "local ok, problem = pcall(cjson.decode, '{') return problem";
    assert_eq!(
        value(caught),
        bulk("Expected object key string but found T_END at character 2")
    );
    for code in [
        "cjson.encode(0/0)",
        "cmsgpack.unpack('\\217')",
        "struct.unpack('i', '')",
        "bit.band()",
        "math.randomseed({})",
    ] {
        let text = error(code);
        assert!(text.starts_with("ERR user_script:1: "), "{text}");
        assert!(!text.contains("traceback"), "{text}");
    }
}

#[test]
fn what_gsub_calls_may_call_commands() {
    for (code, text) in [
        (
            "return (string.gsub('a1 b2', '(%a)(%d)', function(a, b)
                return redis.call('echo', a .. b:rep(3))
            end))",
            "a111 b222",
        ),
        (
            "local t = setmetatable({}, {__index = function(_, key)
                return redis.call('echo', key .. key)
            end})
            return (('ab'):gsub('%w', t))",
            "aabb",
        ),
        // One within the other, and errors in the midst of it.
        (
            "return (('a-b c-d'):gsub('%S+', function(word)
                local ok, problem = pcall(string.gsub, word, '%w', function(w)
                    return redis.call(w == 'd' and 'fail' or 'echo', w .. w)
                end)
                return '<' .. tostring(ok) .. problem .. '>'
            end))",
            "<trueaa-bb> <falseERR dd>",
        ),
        (
            "local words = {}
            for word in ('a b'):gmatch('%a') do
                pcall(string.find, word, '(')
                words[#words + 1] = redis.call('echo', word)
            end
            return table.concat(words)",
            "ab",
        ),
        (
            "local word = coroutine.wrap(function()
                return (('ab'):gsub('.', function(c) return redis.call('echo', c .. '.') end))
            end)
            return word()",
            "a.b.",
        ),
    ] {
        assert_eq!(value(code), bulk(text), "{code}");
    }
}

#[test]
fn what_strings_can_do_cannot_be_changed() {
    let readonly = "ERR user_script:1: Attempt to modify a readonly table";
    assert_eq!(
        error("getmetatable('').__index.upper = function() return 'other' end"),
        readonly
    );
    assert_eq!(error("getmetatable('').__index = {}"), readonly);
    let mut machine = Machine::new();
    let refused = error("table.insert(getmetatable('').__index, 'x')");
    assert!(
        refused.contains("Attempt to modify a readonly table"),
        "{refused}"
    );
    let kept = "return getmetatable('').__index.upper('a')";
    assert_eq!(machine.eval(kept, &[], &[]), Ok(bulk("A")));
    let seen = "return #getmetatable('').__index + (string[1] and 1 or 0)";
    assert_eq!(machine.eval(seen, &[], &[]), Ok(Reply::Integer(0)));
}

#[test]
fn what_cjson_new_gives_is_the_scripts_own() {
    let mut machine = Machine::new();
    let changed = "local new = cjson.new() new.decode = 1 return new.encode({1})";
    assert_eq!(machine.eval(changed, &[], &[]), Ok(bulk("[1]")));
    let seen = "return cjson.decode('[\"a\"]')[1]";
    assert_eq!(machine.eval(seen, &[], &[]), Ok(bulk("a")));
}

/// As in Lua; where no `pcall` is around it, Redis makes a table of the text.
#[test]
fn errors_of_a_reader_are_what_load_returns() {
    let mut machine = Machine::new();
    for (reader, told) in [
        ("error('x')", "user_script:1: x"),
        ("return {}", "reader function must return a string"),
        ("return true", "reader function must return a string"),
    ] {
        let script =
            format!("local f, e = load(function() {reader} end) return {{tostring(f), e}}");
        let list = Reply::Array(vec![bulk("nil"), bulk(told)]);
        assert_eq!(machine.eval(&script, &[], &[]), Ok(list), "{reader}");
    }
}

#[test]
fn many_keys_and_arguments() {
    let many = vec!["k"; 20_000];
    let outcome = Machine::new().eval("return #KEYS + #ARGV", &many, &many);
    assert_eq!(outcome, Ok(Reply::Integer(40_000)));
}
