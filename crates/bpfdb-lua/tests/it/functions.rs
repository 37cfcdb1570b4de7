//! Libraries of functions: what they may register, and what their functions see. The expected
//! texts were taken from replies of Redis 7.0.

use crate::it::common;

use std::time::Duration;

use bpfdb_lua::{Call, Failure, Limits, Registered, Reply, Source, Vm};
use common::{Machine, bulk, finish};

fn library(code: &str) -> Source {
    Source::new(format!("#!lua name=lib\n{code}").as_bytes())
}

fn load(code: &str) -> Result<Vec<Registered>, Failure> {
    let mut vm = Vm::new(Limits::default()).expect("memory");
    let source = library(code);
    let call = vm.load_library(source.clone()).expect("memory");
    finish(call)?;
    Ok(vm.functions(source.sha1()).expect("loaded"))
}

fn refused(code: &str) -> String {
    match load(code) {
        Err(Failure::Raised(text)) => String::from_utf8(text).expect("text"),
        other => panic!("{code}: {other:?}"),
    }
}

fn call_of(vm: &mut Vm, code: &str, function: &str) -> Call {
    let (keys, arguments) = (vec![b"k".to_vec()], vec![b"a".to_vec()]);
    vm.call_function(library(code), function.as_bytes(), keys, arguments)
        .expect("memory")
}

fn call(vm: &mut Vm, code: &str, function: &str) -> Result<Reply, Failure> {
    finish(call_of(vm, code, function))
}

#[test]
fn what_is_registered_is_told() {
    let code = "redis.register_function('one', function() end)
        redis.register_function{function_name = 'two', callback = function() end,
            description = 'about', flags = {'allow-oom', 'no-writes'}}";
    let all = load(code).expect("fine");
    assert_eq!(all.len(), 2);
    assert_eq!(
        (&all[0].name[..], &all[0].description),
        (&b"one"[..], &None)
    );
    assert_eq!(all[0].flags.names().count(), 0);
    assert_eq!(all[1].description.as_deref(), Some(&b"about"[..]));
    let names: Vec<&str> = all[1].flags.names().collect();
    assert_eq!(names, ["no-writes", "allow-oom"]);
    assert!(all[1].flags.of_call().no_writes);
    assert_eq!(load("local x = 1").expect("fine"), []);
}

/// One string of Lua may be the description of many: what is copied out of Lua is bounded.
#[test]
fn what_is_told_of_functions_is_bounded() {
    let many = |count: usize, len: usize| {
        format!(
            "local d = ('x'):rep({len}) for i = 1, {count} do redis.register_function{{
                function_name = 'f' .. i, callback = function() end, description = d}} end"
        )
    };
    assert_eq!(load(&many(1000, 1000)).expect("fine").len(), 1000);
    assert_eq!(load(&many(1, 1 << 19)).expect("fine").len(), 1);
    for code in [many(1000, 20_000_000), many(1, 1 << 20), many(1100, 1000)] {
        let text = refused(&code);
        assert!(
            text.ends_with("names and descriptions of functions are too long"),
            "{text}"
        );
    }
    let long = "redis.register_function(('n'):rep(2 ^ 21), function() end)";
    let text = refused(long);
    assert!(
        text.ends_with("names and descriptions of functions are too long"),
        "{text}"
    );
}

#[test]
fn loading_may_do_nothing_else() {
    for (code, text) in [
        (
            "redis.call('get', 'a')",
            "ERR user_function:2: Script attempted to access nonexistent global variable 'call'",
        ),
        (
            "x = 1",
            "ERR user_function:2: Attempt to modify a readonly table",
        ),
        (
            "redis.x = 1",
            "ERR user_function:2: Attempt to modify a readonly table",
        ),
        (
            "local x = math",
            "ERR user_function:2: Script attempted to access nonexistent global variable 'math'",
        ),
        (
            "redis.register_function()",
            "ERR wrong number of arguments to redis.register_function",
        ),
        (
            "redis.register_function('f-g', function() end)",
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
        ),
    ] {
        let expected = format!("ERR Error registering functions: {text}");
        assert_eq!(refused(code), expected, "{code}");
    }
    assert!(refused("return (").starts_with("ERR Error compiling function: user_function:2: "));
}

#[test]
fn functions_see_what_scripts_see() {
    let mut vm = Vm::new(Limits::default()).expect("memory");
    let code = "local kept = redis
        redis.register_function('f', function(keys, args)
            return {keys[1], args[1], redis.call('echo', 'x'), tostring(math.floor(1.5))}
        end)
        redis.register_function('writes', function() x = 1 end)
        redis.register_function('reads', function() return KEYS end)
        redis.register_function('kept', function() return kept.call('echo', 'x') end)
        redis.register_function('again', function() redis.register_function('g', function() end) end)
        redis.register_function('fails', function() error('so') end)";
    for _ in 0..2 {
        let reply = call(&mut vm, code, "f").expect("fine");
        assert_eq!(
            reply,
            Reply::Array(vec![bulk("k"), bulk("a"), bulk("x"), bulk("1")])
        );
    }
    for (function, text) in [
        (
            "writes",
            "ERR user_function:6: Attempt to modify a readonly table script: writes, on @user_function:6.",
        ),
        (
            "reads",
            "ERR user_function:7: Script attempted to access nonexistent global variable 'KEYS' script: reads, on @user_function:7.",
        ),
        (
            "kept",
            "ERR user_function:8: Script attempted to access nonexistent global variable 'call' script: kept, on @user_function:8.",
        ),
        (
            "fails",
            "ERR user_function:10: so script: fails, on @user_function:10.",
        ),
    ] {
        assert_eq!(
            call(&mut vm, code, function),
            Err(Failure::Raised(text.into())),
            "{function}"
        );
    }
    // The full redis has no such function either.
    assert!(call(&mut vm, code, "again").is_err());
}

#[test]
fn a_library_that_does_not_end_is_stopped() {
    let limits = Limits {
        slice: Duration::from_millis(1),
        ..Limits::default()
    };
    let mut vm = Vm::new(limits).expect("memory");
    let mut call = vm
        .load_library(library("while true do end"))
        .expect("memory");
    let mut steps = 0;
    loop {
        match call.resume(bpfdb_lua::Answer::GoOn) {
            bpfdb_lua::Step::SliceOver => steps += 1,
            bpfdb_lua::Step::Failed(failure) => break assert_eq!(failure, Failure::Stopped),
            other => panic!("{other:?}"),
        }
        if steps == 5 {
            call.stop();
        }
    }
    drop(call);
    // The state is as good as before.
    assert_eq!(
        self::call(
            &mut vm,
            "redis.register_function('f', function() return 1 end)",
            "f"
        ),
        Ok(Reply::Integer(1))
    );
}

#[test]
fn memory_of_a_library_is_limited() {
    let limits = Limits {
        memory: 2 << 20,
        ..Limits::default()
    };
    let mut vm = Vm::new(limits).expect("memory");
    let code = "local t, n = {}, 0 while true do n = n + 1 t[n] = {n} end";
    let failed = finish(vm.load_library(library(code)).expect("memory"));
    assert_eq!(failed, Err(Failure::Memory));
    let long = format!("local x = '{}'", "x".repeat(4 << 20));
    let failed = finish(vm.load_library(library(&long)).expect("memory"));
    assert_eq!(failed, Err(Failure::Memory));
    assert_eq!(
        self::call(
            &mut vm,
            "redis.register_function('f', function() return 1 end)",
            "f"
        ),
        Ok(Reply::Integer(1))
    );
}

#[test]
fn scripts_have_no_register_function() {
    assert_eq!(
        Machine::new().eval("return redis.register_function", &[], &[]),
        Ok(Reply::Nil)
    );
}
