//! Calls that run for long, for ever, or take all memory.

mod common;

use std::time::{Duration, Instant};

use bpfdb_lua::{Answer, Failure, Limits, Reply, Step};
use common::{Machine, bulk};

/// Longer than a slice, on a machine that others use too.
const PATIENCE: Duration = Duration::from_millis(50);

const ENDLESS: [&str; 6] = [
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "local function f() return pcall(f) end while true do f() end",
    "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "table.sort({3, 2, 1}, function() while true do end end)",
    "local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
];

#[test]
fn an_endless_call_is_left_and_stopped() {
    let mut machine = Machine::new();
    for code in ENDLESS {
        let mut call = machine.begin(code, &[], &[]);
        for _ in 0..5 {
            let begun = Instant::now();
            let step = call.resume(Answer::GoOn);
            assert!(matches!(step, Step::SliceOver), "{code}: {step:?}");
            assert!(begun.elapsed() < PATIENCE, "{code}: {:?}", begun.elapsed());
        }
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
    assert!(matches!(call.resume(Answer::GoOn), Step::Command { .. }));
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
    ] {
        let outcome = machine.eval(code, &[], &[]);
        let is_memory = match &outcome {
            Err(Failure::Memory) => true,
            Err(Failure::Raised(text)) => {
                String::from_utf8_lossy(text).contains("not enough memory")
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

#[test]
fn what_is_left_goes_on_where_it_was() {
    let mut machine = Machine::new();
    let code = "local sum = 0 for i = 1, 3e6 do sum = sum + i end return sum";
    assert_eq!(
        machine.eval(code, &[], &[]),
        Ok(Reply::Integer(4_500_001_500_000))
    );
    assert!(machine.slices > 3, "{}", machine.slices);
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
