//! Somebody is in the session of a call, as the reaper is at times, and stays there until the
//! call has ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bpfdb::{Engine, Program, objects};
use libbpf_rs::Object;

/// Long enough for a visitor to find its transaction open.
pub(crate) const LONG: &str = "local n = 0 for i = 1, 3000 do n = n + i end
    redis.call('INCRBY', keys[1], args[1]) return redis.call('INCRBY', keys[2], args[1])";

/// Programs of bpf/tests/calls.bpf.c that enter a session and leave it.
pub(crate) struct Visitor {
    _object: Object,
    visit: Program,
    leave: Program,
    session: u32,
}

impl Visitor {
    pub(crate) fn new(engine: &Engine, session: u32) -> Self {
        let object = objects::TESTS.iter().find(|object| object.name == "calls");
        let bytes = object.expect("it is embedded").bytes;
        let mut object = bpfdb::open_object(bytes, "calls").expect("the object opens");
        engine.adopt(&mut object).expect("it is adopted");
        let object = object.load().expect("it is loaded");
        Self {
            visit: bpfdb::find_program(&object, "calls_visit").expect("it is there"),
            leave: bpfdb::find_program(&object, "calls_leave").expect("it is there"),
            _object: object,
            session,
        }
    }

    /// Makes calls until one has found the visitor inside. What that one came to.
    pub(crate) fn during<T>(&self, mut call: impl FnMut() -> T) -> T {
        let inside = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                self.enter();
                inside.store(true, Ordering::Release);
            });
            loop {
                let outcome = call();
                if inside.load(Ordering::Acquire) {
                    return outcome;
                }
            }
        })
    }

    /// Waits for a transaction of its user's, and enters.
    pub(crate) fn enter(&self) {
        while self.visit.run(&[self.session.into()]).expect("it runs") == 0 {}
    }

    /// Whether there was a transaction to be rolled back.
    pub(crate) fn leave(&self) -> bool {
        self.leave.run(&[self.session.into()]).expect("it runs") == 1
    }
}
