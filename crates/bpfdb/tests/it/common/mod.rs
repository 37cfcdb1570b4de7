//! What the tests of BPF objects share.
#![allow(dead_code, unreachable_pub, reason = "no test uses all of it")]

use std::collections::BTreeMap;
use std::env;
use std::mem::zeroed;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use bpfdb::objects::{self, EXAMPLES, FRONT_ENDS};
use bpfdb::{Engine, Options, Tracking};
use libbpf_rs::OpenObject;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// A small engine whose memory is all there from the beginning: programs of
/// tests cannot wait for more.
pub fn options() -> Options {
    Options {
        memory_limit: 64 << 20,
        memory_ahead: 64 << 20,
        max_sessions: 80,
        user_sessions: 4,
        ordered_tables: 1,
        ..Options::default()
    }
}

pub fn engine() -> Engine {
    Engine::create(&options()).expect("the engine starts")
}

/// Engines that one test after the other has: each takes a third of a second of a processor.
static IDLE: Mutex<Vec<Engine>> = Mutex::new(Vec::new());

/// An engine without records and sessions, until the test ends. Its figures count from the beginning of
/// another test, and its index may be larger than a new one.
pub struct Lent {
    /// `None` only within [`Drop::drop`].
    engine: Option<Engine>,
}

/// One whose clock stands still at `time`, UNIX milliseconds, or goes by itself (0). Accesses are not tracked.
pub fn lent(time: u64) -> Lent {
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let engine = idle.unwrap_or_else(|| {
        let options = Options {
            memory_limit: 128 << 20,
            max_sessions: 64,
            ..Options::default()
        };
        Engine::create(&options).expect("the engine starts")
    });
    engine.stop_clock(time);
    engine.set_access_tracking(Tracking::Off).expect("set");
    Lent {
        engine: Some(engine),
    }
}

impl Deref for Lent {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        self.engine.as_ref().expect("it is lent")
    }
}

/// What a failed test had is not lent again, nor what cannot be emptied.
impl Drop for Lent {
    fn drop(&mut self) {
        let engine = self.engine.take();
        if let Some(engine) = engine.filter(|engine| !thread::panicking() && is_emptied(engine)) {
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(engine);
        }
    }
}

/// Deletes all records. False: something is left.
fn is_emptied(engine: &Engine) -> bool {
    let mut session = engine.session().expect("a session");
    let mut cursor = 0;
    loop {
        let (next, keys) = session.scan(cursor, 1000).expect("scanned");
        let is_deleted = |key: &Vec<u8>| session.delete(key).is_ok();
        if !keys.iter().all(is_deleted) {
            return false;
        }
        if next == 0 {
            break;
        }
        cursor = next;
    }
    drop(session);
    engine.sweep().expect("swept");
    let stats = engine.stats().expect("figures");
    let open = stats.sessions + stats.transactions + stats.locks;
    open == 0 && stats.records == 0 && stats.slots_used() == 0
}

/// The constants of an object that joins an engine.
const CONFIG: &str = ".rodata.bpfdb";

/// An object that shares the engine's maps, if it uses any; not loaded yet.
pub fn open(engine: &Engine, bytes: &[u8], name: &str) -> OpenObject {
    let mut object = bpfdb::open_object(bytes, name).expect("the object opens");
    // The proxy has no part in the engine.
    if object.maps().any(|map| map.name() == CONFIG) {
        engine.adopt(&mut object).expect("the object is adopted");
    }
    object
}

pub fn load(engine: &Engine, name: &str) -> libbpf_rs::Object {
    let object = open(engine, bytes_of(name), name);
    object
        .load()
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The test object made of `bpf/tests/NAME.bpf.c`.
pub fn bytes_of(name: &str) -> &'static [u8] {
    let named = |object: &&bpfdb::objects::TestObject| object.name == name;
    let object = bpfdb::objects::TESTS.iter().find(named);
    object
        .unwrap_or_else(|| panic!("no test object {name}"))
        .bytes
}

/// The names of an object's programs, in its order.
pub fn programs(object: &libbpf_rs::Object) -> impl Iterator<Item = String> {
    object
        .progs()
        .map(|program| program.name().to_string_lossy().into_owned())
}

/// How many instructions the verifier processed of each program (`verified_insns`).
pub fn verified(object: &libbpf_rs::Object) -> BTreeMap<String, u64> {
    let instructions = object.progs().map(|program| {
        // SAFETY: plain data, for which zeros are valid; the kernel writes at most `len` bytes.
        let (result, info) = unsafe {
            let mut info: libbpf_sys::bpf_prog_info = zeroed();
            let mut len = size_of_val(&info) as u32;
            let program = program.as_fd().as_raw_fd();
            let result = libbpf_sys::bpf_prog_get_info_by_fd(program, &raw mut info, &raw mut len);
            (result, info)
        };
        assert_eq!(result, 0, "the kernel says what a program is");
        u64::from(info.verified_insns)
    });
    programs(object).zip(instructions).collect()
}

/// Name and bytes of an object.
pub type Object = (&'static str, &'static [u8]);

/// The objects of the product, and of its examples.
pub fn products() -> Vec<Object> {
    let own = [
        ("engine", objects::ENGINE),
        ("procedure", objects::PROCEDURE),
        ("procedure_embedded", objects::PROCEDURE_EMBEDDED),
        ("procedure_run", objects::PROCEDURE_RUN),
    ];
    let others = FRONT_ENDS.iter().chain(EXAMPLES);
    let others = others.map(|object| (object.name, object.bytes));
    own.into_iter().chain(others).collect()
}

/// This thread runs on one processor from now on, and so writes to one ring of the log.
pub fn stay_on_a_processor() {
    let mut processor = CpuSet::new();
    processor.set(0).expect("a processor");
    sched_setaffinity(Pid::from_raw(0), &processor).expect("stay on it");
}

/// This program again, for one of its tests that are marked `ignore`. It is killed when the thread
/// that starts it ends.
pub fn this_program(test: &str) -> Command {
    // Not current_exe(), which names no file in the virtual machine's layered file system.
    let program = env::args_os().next().expect("this program");
    let mut command = Command::new(program);
    command.args(["--ignored", "--exact", test, "--nocapture"]);
    end_with_this_thread(&mut command);
    command
}

/// The process is killed when the thread that starts it ends.
pub fn end_with_this_thread(command: &mut Command) {
    // SAFETY: prctl may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
}

/// Has the others stop, be it because of a failure.
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
