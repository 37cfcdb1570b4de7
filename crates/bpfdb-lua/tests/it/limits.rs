//! Calls that run for long, for ever, or take all memory.

use crate::it::common;

use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bpfdb_lua::{Answer, Call, Failure, Limits, Random, Reply, Sha1, Source, Step, Vm};
use common::{Machine, bulk};

/// Longer than a slice. Of several slices one at least takes less, also on a machine that others
/// use.
const PATIENCE: Duration = Duration::from_millis(50);

const ENDLESS: [&str; 24] = [
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "local function f() return pcall(f) end while true do f() end",
    "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "table.sort({3, 2, 1}, function() while true do end end)",
    "local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
    "xpcall(function() while true do end end, function() while true do end end)",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "xpcall(error, function() while true do end end)",
    "xpcall(function() while true do end end, function() xpcall(error, function() while true do end end) end)",
    // Each of these coroutines is over before the hook of its own looks at the clock.
    "local function f(d) if d > 0 then for i = 1, 10 do coroutine.wrap(f)(d - 1) end end end f(12)",
    "local function f(d) if d > 0 then for i = 1, 10 do coroutine.resume(coroutine.create(f), d - 1) end end end f(12)",
    // Matches that take minutes, or years.
    "return string.find(string.rep('a', 3000), '.-.-.-.-b')",
    "return string.match(string.rep('a', 3000), '.*%w*[a]*a?.+b')",
    "return string.gsub(string.rep('a', 3000), '.-.-.-.-b', '')",
    "for word in string.gmatch(string.rep('a', 3000), '.-.-.-.-b') do end",
    "while true do pcall(string.find, string.rep('a', 3000), '.-.-.-.-b') end",
    "return string.find(string.rep('a', 1e6), string.rep('[^' .. string.rep('b', 2000) .. ']-', 4) .. 'b')",
    "return string.find(string.rep('a', 1e6), '^(.-)(.-)%1%2b')",
    "return string.find(string.rep('(', 1e7), '%b()')",
    "return string.find(string.rep('a', 2e6), string.rep('a', 1e6) .. 'b', 1, true)",
    "return string.gsub('a', 'a', function() return string.find(string.rep('a', 3000), '.-.-.-.-b') end)",
    // Texts that are compiled for minutes.
    "return loadstring('local x return ' .. string.rep('x and ', 170000) .. 'x')",
    "return loadstring('local x return ' .. string.rep('x or ', 200000) .. 'x')",
];

/// The first step that is not the end of a slice. A slice is a time: a call of microseconds has
/// several if another process takes the processor.
fn after_slices(call: &mut Call) -> Step {
    loop {
        match call.resume(Answer::GoOn) {
            Step::SliceOver => {}
            step => return step,
        }
    }
}

#[test]
fn an_endless_call_is_left_and_stopped() {
    let mut machine = Machine::new();
    for code in ENDLESS {
        let mut call = machine.begin(code, &[], &[]);
        let slices = (0..5).map(|_| {
            let begun = Instant::now();
            let step = call.resume(Answer::GoOn);
            assert!(matches!(step, Step::SliceOver), "{code}: {step:?}");
            begun.elapsed()
        });
        let shortest = slices.min().expect("some slices");
        assert!(shortest < PATIENCE, "{code}: {shortest:?}");
        call.stop();
        let step = call.resume(Answer::GoOn);
        assert!(
            matches!(step, Step::Failed(Failure::Stopped)),
            "{code}: {step:?}"
        );
        // The state is as good as new.
        assert_eq!(machine.eval("return 1", &[], &[]), Ok(Reply::Integer(1)));
    }
}

/// When it is stopped, the call is within a coroutine. From then on it is within a function that is
/// called again and again whatever it raises, nearly always, wherever its instructions are counted
/// from.
#[test]
fn a_call_that_is_stopped_within_a_coroutine_ends() {
    let mut machine = Machine::new();
    for instructions in (0..100).step_by(9) {
        let code = format!(
            "local c, x = coroutine.wrap(function() while true do end end)
             local function f()
                 if c then local once = c c = nil once() end
                 while true do end
             end
             {} while true do pcall(f) end",
            "x = 1 ".repeat(instructions)
        );
        let mut call = machine.begin(&code, &[], &[]);
        assert!(matches!(call.resume(Answer::GoOn), Step::SliceOver));
        call.stop();
        let step = call.resume(Answer::GoOn);
        assert!(matches!(step, Step::Failed(Failure::Stopped)), "{step:?}");
    }
}

/// Hundreds of calls that take milliseconds each are not made between two looks at the clock.
#[test]
fn a_slice_is_as_long_as_one_long_call() {
    let mut machine = Machine::new();
    let table = "local t = {} for i = 1, 5e5 do t[i] = 'x' end ";
    let numbers = "local t = {} for i = 1, 2e5 do t[i] = i end ";
    let names = "local t = {} for i = 1, 1e5 do t['k' .. i] = 10 end ";
    let text = "local s = string.rep('a', 1e7) ";
    let digits = "local s = string.rep('9', 1e6) ";
    let formats = "local s = string.rep('b', 1e6) ";
    let controls = "local s = string.rep('\\1', 3e6) ";
    for (begin, each) in [
        (table, "table.concat(t)"),
        (table, "table.insert(t, 1, 'x') table.remove(t, 1)"),
        (table, "table.maxn(t)"),
        (
            "local t = {} for i = 1, 2e5 do t[i + .5] = 1 end ",
            "table.maxn(t)",
        ),
        (
            "local t = {} for i = 1, 5e5 do t[i] = 'x' end for i = 19, 0, -1 do t[2 ^ i] = nil end ",
            "pcall(table.concat, t, '', 262145, 5e5)",
        ),
        (table, "table.insert(t, -100000, 'x') t = {}"),
        (
            "local z = string.rep('\\0', 1e6) local a, b = z .. 'a', z .. 'b' ",
            "local x = a < b",
        ),
        ("local s = string.rep(' ', 1e7) ", "pcall(cjson.decode, s)"),
        (text, "redis.sha1hex(s)"),
        (text, "string.upper(s)"),
        (text, "string.reverse(s)"),
        (text, "string.sub(s, 2)"),
        (text, "string.format('%s', s)"),
        (text, "string.byte(s, 1, 10)"),
        // Instructions that take milliseconds.
        (text, "local x = s .. 'y'"),
        (text, "local x = s < s .. 'y'"),
        (text, "pcall(cjson.decode, s)"),
        (digits, "tonumber(s)"),
        (formats, "struct.size(s)"),
        (formats, "pcall(struct.unpack, s, s)"),
        (text, "pcall(struct.pack, (' '):rep(1e6))"),
        (controls, "cjson.encode(s)"),
        (controls, "cjson.decode(cjson.encode(s))"),
        (formats, "loadstring('return 1' .. s)"),
        // Functions of C that call one another.
        (numbers, "pcall(table.sort, t, rawequal)"),
        (names, "table.foreach(t, tonumber)"),
    ] {
        let code = format!("{begin} while true do {each} end");
        let mut call = machine.begin(&code, &[], &[]);
        let mut slices: Vec<Duration> = (0..100)
            .map(|_| {
                let begun = Instant::now();
                let step = call.resume(Answer::GoOn);
                assert!(matches!(step, Step::SliceOver), "{code}: {step:?}");
                begun.elapsed()
            })
            .skip(50)
            .collect();
        slices.sort_unstable();
        // One call takes up to 20 ms, of SHA-1 50; without the looks it is a second.
        let most = slices[slices.len() * 9 / 10];
        println!("{code}: {most:?}");
        assert!(most < Duration::from_millis(200), "{code}: {most:?}");
        call.stop();
        let step = call.resume(Answer::GoOn);
        assert!(matches!(step, Step::Failed(Failure::Stopped)), "{step:?}");
    }
}

/// Functions of Lua's libraries that go through a range take no longer for it than for a table, and
/// never write outside of Lua's stack.
#[test]
fn ranges_are_no_longer_than_tables() {
    let mut machine = Machine::new();
    let most = [
        i32::MAX.to_string(),
        "2147483648".into(),
        "1e10".into(),
        "8000".into(),
    ];
    let least = [i32::MIN.to_string(), "-2147483649".into(), "-1e10".into()];
    for last in &most {
        for first in least
            .iter()
            .map(String::as_str)
            .chain(["-2", "-1", "0", "1"])
        {
            for call in [
                format!("unpack({{}}, {first}, {last})"),
                format!("unpack({{1, 2, 3}}, {first}, {last})"),
                format!("table.concat({{'a'}}, '', {first}, {last})"),
                format!("table.insert({{1}}, {first}, 1)"),
                format!("table.insert({{1}}, {last}, 1)"),
                format!("table.remove({{1}}, {first})"),
                format!("string.byte('abc', {first}, {last})"),
                format!("string.sub('abc', {first}, {last})"),
                format!("select({first}, 1, 2)"),
                format!("string.rep('', {last})"),
            ] {
                let begun = Instant::now();
                let code = format!("return select('#', pcall(function() return {call} end))");
                let outcome = machine.eval(&code, &[], &[]);
                let took = begun.elapsed();
                assert!(outcome.is_ok(), "{code}: {outcome:?}");
                assert!(took < Duration::from_millis(500), "{code}: {took:?}");
            }
        }
    }
}

#[test]
fn a_call_that_is_dropped_ends() {
    let mut machine = Machine::new();
    for code in ENDLESS {
        let mut call = machine.begin(code, &[], &[]);
        assert!(matches!(call.resume(Answer::GoOn), Step::SliceOver));
        drop(call);
        assert!(!machine.vm.is_running());
        drop(machine.begin(code, &[], &[]));
    }
    // In the midst of a command.
    let mut call = machine.begin("while true do redis.pcall('echo', 'x') end", &[], &[]);
    let step = after_slices(&mut call);
    assert!(matches!(step, Step::Command { .. }), "{step:?}");
    drop(call);
    assert_eq!(machine.eval("return 1", &[], &[]), Ok(Reply::Integer(1)));
}

#[test]
fn memory_is_bounded() {
    let limits = Limits {
        memory: 4 << 20,
        ..Limits::default()
    };
    let mut machine = Machine::with(limits);
    for code in [
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
        "return ('x'):rep(1e9)",
        "local t = {} for i = 1, 30 do t = {t, t} end return cjson.encode(t)",
        "local t = {} for i = 1, 30 do t = {t, t} end return cmsgpack.pack({t})",
        "local t = 'x' while true do t = t .. t end",
        "local t = {} for i = 1, 1e7 do t[i] = i end",
        "return string.gsub(('x'):rep(1e5), 'x', ('y'):rep(1e3))",
        "return string.gsub(('x'):rep(1e4), '.*', ('%0'):rep(1e5))",
        "return string.gsub(('x'):rep(1e4), 'x', function(x) return x:rep(1e4) end)",
        // Lua has the string once, and a command or a reply each time that it stands there.
        "local t, s = {}, ('x'):rep(1e6) for i = 1, 100 do t[i] = s end return redis.call('del', unpack(t))",
        "local t, s = {}, ('x'):rep(1e6) for i = 1, 100 do t[i] = s end return t",
        "local t, s = {}, ('x'):rep(1e6) for i = 1, 100 do t[i] = {ok = s} end return t",
        "local t, s = {}, {err = ('x'):rep(1e6)} for i = 1, 100 do t[i] = s end return {map = t}",
    ] {
        let outcome = machine.eval(code, &[], &[]);
        let is_memory = match &outcome {
            Err(Failure::Memory) => true,
            Err(Failure::Raised(text)) => {
                let text = String::from_utf8_lossy(text);
                text.contains("not enough memory") || text.contains("reply is too long")
            }
            _ => false,
        };
        // Deep tables come out as nil in MessagePack.
        let is_short = matches!(&outcome, Ok(Reply::Bulk(bytes)) if bytes.len() < 1 << 20);
        assert!(is_memory || is_short, "{code}: {outcome:?}");
        assert_eq!(
            machine.eval("return 'fine'", &[], &[]),
            Ok(bulk("fine")),
            "{code}"
        );
    }
    assert!(machine.vm.memory() < 4 << 20);
}

/// Lua itself collects too late when a few long strings are made.
#[test]
fn garbage_makes_room() {
    let mut machine = Machine::new();
    for code in [
        "local s = ('a'):rep(1e6) for i = 1, 50 do s:gsub('.*', ('%0'):rep(10)) end return 1",
        "local s = ('a'):rep(1e7) for i = 1, 50 do s:match('.*', i) end return 1",
    ] {
        assert_eq!(
            machine.eval(code, &[], &[]),
            Ok(Reply::Integer(1)),
            "{code}"
        );
    }
}

/// Functions of C look at no clock: what they do at a time is bounded.
#[test]
fn a_string_is_repeated_in_no_time() {
    let mut machine = Machine::new();
    let begun = Instant::now();
    for (code, reply) in [
        ("return string.rep('', 2^31 - 1)", ""),
        ("return ('ab'):rep(3)", "ababab"),
        ("return string.rep(5, '2')", "55"),
        (
            "return ('ab'):rep(0) .. ('ab'):rep(-1) .. ('ab'):rep(1)",
            "ab",
        ),
        ("return tostring(#('abc'):rep(1e7))", "30000000"),
        // What is garbage by then makes room for the next one.
        (
            "for i = 1, 20 do local x = ('x'):rep(1e7) end return 'fine'",
            "fine",
        ),
    ] {
        assert_eq!(machine.eval(code, &[], &[]), Ok(bulk(reply)), "{code}");
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    for (code, text) in [
        (
            "string.rep()",
            "bad argument #1 to 'rep' (string expected, got no value)",
        ),
        (
            "string.rep('a', {})",
            "bad argument #2 to 'rep' (number expected, got table)",
        ),
    ] {
        match machine.eval(code, &[], &[]) {
            Err(Failure::Raised(raised)) => {
                let raised = String::from_utf8_lossy(&raised);
                assert!(raised.contains(text), "{raised}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn lines_of_the_log_are_short() {
    let mut machine = Machine::new();
    let code = "redis.log('3', ('x'):rep(1e6)) redis.log(redis.LOG_DEBUG, 'short')";
    let mut call = machine.begin(code, &[], &[]);
    let step = after_slices(&mut call);
    assert!(matches!(step, Step::Done(_)), "{step:?}");
    let lines = call.take_log().into_iter();
    let lines: Vec<_> = lines.map(|(level, text)| (level, text.len())).collect();
    assert_eq!(lines, [(3, 1023), (0, 5)]);
}

/// Lines do not gather outside of Lua, where no limit counts them: the call is left for them.
#[test]
fn lines_of_the_log_are_handed_out_meanwhile() {
    const LINES: usize = 1000;
    const AT_ONCE: usize = 32;
    let mut machine = Machine::new();
    let code = format!("for i = 1, {LINES} do redis.log(3, i) end");
    let library = format!("#!lua name=lib\n{code} redis.register_function('f', function() end)");
    let library = Source::new(library.as_bytes());
    let script = machine.begin(&code, &[], &[]);
    let handed_out = |mut call: Call| {
        let mut lines = 0;
        loop {
            let step = call.resume(Answer::GoOn);
            let some = call.take_log().len();
            assert!(some <= AT_ONCE, "{some}");
            lines += some;
            match step {
                Step::SliceOver => {}
                Step::Done(_) => return lines,
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(handed_out(script), LINES);
    assert_eq!(
        handed_out(machine.vm.load_library(library).expect("memory")),
        LINES
    );
    // Nor are those of one call the next one's.
    let mut left = machine.begin("redis.log(3, 'mine')", &[], &[]);
    left.resume(Answer::GoOn);
    drop(left);
    let next = machine.begin("return 1", &[], &[]);
    assert!(next.take_log().is_empty());
}

/// Where others cannot be served meanwhile: a text that means no harm takes less.
#[test]
fn a_text_that_is_compiled_for_minutes_is_refused() {
    let mut machine = Machine::new();
    // In a state that has run a call before, too.
    assert_eq!(machine.eval("return 1", &[], &[]), Ok(Reply::Integer(1)));
    let text = format!("local x return {}x", "x and ".repeat(170_000));
    let begun = Instant::now();
    let refused = machine
        .vm
        .compile(Sha1::of(text.as_bytes()), text.as_bytes());
    assert_eq!(refused, Err("it takes too long to compile".into()));
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    let long = "do local x = {1, 'a', y = 2} end ".repeat(30_000);
    assert_eq!(machine.eval(&long, &[], &[]), Ok(Reply::Nil));
}

/// From a seed on a call draws the numbers of that seed, also beside calls that draw.
#[test]
fn a_seed_is_the_calls_own() {
    const SEEDED: &str =
        "math.randomseed(7) redis.call('echo', 'x') return tostring(math.random())";
    let random = Rc::new(Random::default());
    let machine = || Machine {
        vm: Vm::sharing(Limits::default(), &random).expect("memory"),
        slices: 0,
    };
    let alone = machine().eval(SEEDED, &[], &[]);
    let (mut one, mut other) = (machine(), machine());
    let mut call = one.begin(SEEDED, &[], &[]);
    assert!(matches!(after_slices(&mut call), Step::Command { .. }));
    other
        .eval(
            "math.randomseed(8) return tostring(math.random())",
            &[],
            &[],
        )
        .expect("a number");
    let mut step = call.resume(Answer::Reply(b"$1\r\nx\r\n".to_vec()));
    while matches!(step, Step::SliceOver) {
        step = call.resume(Answer::GoOn);
    }
    match step {
        Step::Done(reply) => assert_eq!(Ok(reply), alone),
        other => panic!("{other:?}"),
    }
}

/// Whichever state runs a script, it draws the next number.
#[test]
fn states_share_their_random_numbers() {
    let random = Rc::new(Random::default());
    let mut drawn = HashSet::new();
    for _ in 0..10 {
        let vm = Vm::sharing(Limits::default(), &random).expect("memory");
        let mut machine = Machine { vm, slices: 0 };
        let number = machine.eval("return tostring(math.random())", &[], &[]);
        assert!(drawn.insert(format!("{number:?}")), "{number:?} again");
    }
}

#[test]
fn what_is_left_goes_on_where_it_was() {
    let mut machine = Machine::new();
    let code = "local sum = 0 for i = 1, 3e6 do sum = sum + i end return sum";
    assert_eq!(
        machine.eval(code, &[], &[]),
        Ok(Reply::Integer(4_500_001_500_000))
    );
    assert!(machine.slices > 3, "{}", machine.slices);
    // In the midst of a match, within another one.
    let before = machine.slices;
    let code = "local long = string.rep('a', 150)
        return (string.gsub('abc', '(%w)', function(c)
            return c .. (string.gsub(long .. c, '(.-).-.-d', '') == long .. c and '!' or '?')
        end))";
    assert_eq!(machine.eval(code, &[], &[]), Ok(bulk("a!b!c!")));
    assert!(machine.slices > before + 3, "{}", machine.slices);
}

#[test]
fn many_calls_leave_nothing() {
    let mut machine = Machine::new();
    for n in 0..3000 {
        let code = format!("return {{{n}, ARGV[1]}}");
        let reply = Reply::Array(vec![Reply::Integer(n), bulk("a")]);
        assert_eq!(machine.eval(&code, &[], &["a"]), Ok(reply));
    }
    assert!(machine.vm.memory() < 8 << 20, "{}", machine.vm.memory());
}

/// What calls itself in C or in Rust ends with an error, or fits onto the call's stack.
#[test]
fn what_is_nested_deeply_fits_onto_the_stack() {
    let deep = "local t = {} for i = 1, 999 do t = {t} end";
    let fine = [
        format!("{deep} cjson.encode(t) return 1"),
        format!("{deep} cmsgpack.pack(t) return 1"),
        "cjson.decode(string.rep('[', 1000) .. string.rep(']', 1000)) return 1".into(),
        // A pattern as long as one may be.
        "string.find(string.rep('a', 9000), string.rep('a?', 4096)) return 1".into(),
        "string.find(string.rep('a', 9000), string.rep('a', 9000), 1, true) return 1".into(),
    ];
    for code in fine {
        let mut machine = Machine::new();
        assert_eq!(
            machine.eval(&code, &[], &[]),
            Ok(Reply::Integer(1)),
            "{code}"
        );
    }
    assert!(
        Machine::new()
            .eval(&format!("{deep} return t"), &[], &[])
            .is_ok()
    );
    let refused = [
        "local t = {} t[1] = t return cjson.encode(t)",
        "local t = {} t[1] = t cjson.encode_max_depth(2^30) return cjson.encode(t)",
        "cjson.decode_max_depth(2^30) return cjson.decode(string.rep('[', 2^20))",
        "local function f() return (string.gsub('a', 'a', f)) end return f()",
        "local function f() cjson.encode_max_depth(2^30) local t = {} t[1] = t
            pcall(cjson.encode, t) return (string.gsub('a', 'a', f)) end return f()",
        "return string.find('a', string.rep('a?', 2^20))",
        "return string.match('a', string.rep('a?', 2^20), 1, true)",
        "return string.gsub('a', string.rep('a?', 2^20), '', 1)",
        "return string.gmatch('a', string.rep('a?', 2^20))",
        "return ('a'):find(string.rep('a?', 2^20))",
        "return string.gfind('a', string.rep('a?', 2^20))",
    ];
    for code in refused {
        let outcome = Machine::new().eval(code, &[], &[]);
        assert!(
            matches!(outcome, Err(Failure::Raised(_))),
            "{code}: {outcome:?}"
        );
    }
}
