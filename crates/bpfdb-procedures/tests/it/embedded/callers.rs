//! The types of programs that may call procedures. (Those that may not are refused by what the kernel
//! says of them: for fentry and LSM that is not tested, because not every kernel loads them.)

use std::path::Path;

use bpfdb::{Engine, objects};
use bpfdb_procedures::Error;
use bpfdb_procedures::embedded::Published;
use libbpf_rs::{MapCore, MapFlags, Object, OpenObject, ProgramInput, ProgramType};

use super::{ADD, engine, library, number};

/// The program of bpf/tests/calls.bpf.c that does not look at its context.
const CALLER: &str = "calls_interrupt";
const FUNCTION: &str = "redis.call('INCRBY', keys[1], args[1]) return args[1]";

/// bpf/tests/calls.bpf.c, of whose programs only [`CALLER`] is loaded.
fn open(engine: &Engine) -> OpenObject {
    let mut objects = objects::TESTS.iter();
    let object = objects.find(|object| object.name == "calls");
    let bytes = object.expect("it is embedded").bytes;
    let mut object = bpfdb::open_object(bytes, "calls").expect("it opens");
    for mut program in object.progs_mut() {
        let is_caller = program.name() == CALLER;
        program.set_autoload(is_caller);
    }
    engine.adopt(&mut object).expect("it is adopted");
    object
}

/// The object, whose program is of this type.
fn of_type(engine: &Engine, program_type: ProgramType) -> Object {
    let mut object = open(engine);
    let mut programs = object.progs_mut();
    let mut caller = programs
        .find(|program| program.name() == CALLER)
        .expect("it is there");
    caller.set_prog_type(program_type);
    drop(programs);
    let object = object.load();
    object.unwrap_or_else(|error| panic!("{program_type:?}: {error}"))
}

/// There if the kernel has kprobes.
#[cfg(target_arch = "x86_64")]
const KPROBES: &str = "/sys/bus/event_source/devices/kprobe";

/// Has the program call its procedure in this thread, if the test knows how.
fn trigger(object: &mut Object, program_type: ProgramType) -> bool {
    let mut programs = object.progs_mut();
    let program = programs
        .find(|program| program.name() == CALLER)
        .expect("it is there");
    match program_type {
        ProgramType::SchedCls | ProgramType::Xdp => {
            let packet = [0; 64];
            let input = ProgramInput {
                data_in: Some(&packet),
                ..ProgramInput::default()
            };
            program.test_run(input).expect("it runs");
        }
        ProgramType::RawTracepoint => {
            program.test_run(ProgramInput::default()).expect("it runs");
        }
        #[cfg(target_arch = "x86_64")]
        ProgramType::Kprobe if Path::new(KPROBES).exists() => {
            let link = program.attach_kprobe(false, "__x64_sys_getpgid");
            let _link = link.expect("it is attached");
            // SAFETY: takes no pointers.
            unsafe { libc::getpgid(0) };
        }
        // Their events cannot be had here without what belongs to the whole machine.
        _ => return false,
    }
    true
}

/// Lets the program call in this thread, with this session.
fn let_it_call(object: &Object, session: u32) {
    // SAFETY: takes no pointers.
    let thread = unsafe { libc::gettid() };
    let words = [thread as u64, session.into(), 0, 0, 0, 0];
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
    let map = object.maps().find(|map| map.name() == "calls_tick");
    let put = map
        .expect("it is there")
        .update(&[0; 4], &bytes, MapFlags::ANY);
    put.expect("it is written");
}

#[test]
fn programs_of_many_types_call_procedures() {
    let engine = engine();
    let session = engine.open_session().expect("it runs").expect("a session");
    let mut reader = engine.session().expect("a session");
    let mut calls = 0;
    for program_type in [
        ProgramType::RawTracepoint,
        ProgramType::Xdp,
        ProgramType::SchedCls,
        ProgramType::SkMsg,
        ProgramType::SkSkb,
        ProgramType::Kprobe,
        ProgramType::Tracepoint,
        ProgramType::PerfEvent,
    ] {
        let mut object = of_type(&engine, program_type);
        let mut published = Published::new(&engine, &object, CALLER)
            .unwrap_or_else(|error| panic!("{program_type:?}: {error}"));
        let text = library(&[("add", FUNCTION)]);
        published
            .publish(&text, &[(ADD, "add")])
            .unwrap_or_else(|error| panic!("{program_type:?}: {error}"));
        let_it_call(&object, session);
        calls += u64::from(trigger(&mut object, program_type));
        assert_eq!(number(&mut reader, b"tick"), calls, "{program_type:?}");
    }
    assert!(calls >= 3, "{calls} calls");
    engine.close_session(session).expect("it is closed");
}

/// The verifier takes no operators in them, so one that may sleep is beside a program that calls.
#[test]
fn programs_that_may_sleep_do_not() {
    let engine = engine();
    let mut object = open(&engine);
    for mut program in object.progs_mut() {
        if program.name() == "calls_visit" {
            program.set_flags(libbpf_sys::BPF_F_SLEEPABLE);
        }
    }
    let object = object
        .load()
        .expect("it is not among those that are loaded");
    let refused = Published::new(&engine, &object, "calls_visit").expect_err("it may sleep");
    assert!(matches!(refused, Error::Sleeps), "{refused}");
}
