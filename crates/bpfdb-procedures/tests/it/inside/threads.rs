//! Several sessions at a time; libraries that are replaced and dropped.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bpfdb::{Engine, Status};
use bpfdb_procedures::inside::{CallError, Failure, Reply, ReplyRef};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

use super::{compiler, create, engine, library, number, options};

const THREADS: u64 = 2;
const ROUNDS: u64 = 200;
const BATCH: u64 = 100;

/// Every call adds to a key that all have, and to its own; whatever became of it, both agree.
#[test]
fn conflicts_on_a_hot_key_end_exactly() {
    let engine = engine();
    let library = library(
        &compiler(&engine),
        &[(
            "f",
            "local n = tonumber(redis.call('GET', keys[1]) or '0')
             redis.call('SET', keys[1], n + args[1])
             redis.call('INCRBY', keys[2], args[1])
             return n",
        )],
    );
    let sums: Vec<u64> = thread::scope(|scope| {
        let handles: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (engine, library) = (&engine, &library);
                scope.spawn(move || {
                    let mut session = engine.session().expect("a session");
                    let own = format!("own:{thread}");
                    let mut calls = library.calls();
                    let mut sum = 0;
                    for round in 0..ROUNDS {
                        calls.clear();
                        for n in 0..BATCH {
                            let n = (round + n).to_string();
                            calls
                                .add("f", &[b"hot", own.as_bytes()], &[n.as_bytes()])
                                .expect("it is added");
                        }
                        let replies = calls.run(&mut session).expect("they are executed");
                        for (reply, n) in replies.zip(round..) {
                            match reply {
                                Ok(ReplyRef::Integer(_)) => sum += n,
                                Err(Failure::Engine(Status::Conflict)) => {}
                                other => panic!("{other:?}"),
                            }
                        }
                    }
                    sum
                })
            })
            .collect();
        let join = |handle: thread::ScopedJoinHandle<'_, u64>| handle.join().expect("a sum");
        handles.into_iter().map(join).collect()
    });
    let mut session = engine.session().expect("a session");
    for (thread, sum) in sums.iter().enumerate() {
        assert_eq!(
            number(&mut session, format!("own:{thread}").as_bytes()),
            Some(*sum)
        );
    }
    assert_eq!(number(&mut session, b"hot"), Some(sums.iter().sum()));
    assert_eq!(engine.stats().expect("figures").transactions, 0);
}

/// Calls that have begun end in the program in which they began.
#[test]
fn a_library_can_be_replaced_while_it_is_called() {
    let engine = engine();
    let compiler = compiler(&engine);
    let version = |number: u32| {
        let body = format!("redis.call('INCR', keys[1]) return {number}");
        library(&compiler, &[("f", &body)])
    };
    let current = RwLock::new(version(0));
    let stop = AtomicBool::new(false);
    let called = thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let mut session = engine.session().expect("a session");
            let (mut last, mut called) = (0, 0);
            while !stop.load(Ordering::Relaxed) {
                let mut calls = current.read().expect("a library").calls();
                for _ in 0..10 {
                    calls.add("f", &[b"n"], &[]).expect("it is added");
                }
                for reply in calls.run(&mut session).expect("they are executed") {
                    match reply {
                        Ok(ReplyRef::Integer(number)) => {
                            assert!(number >= last, "{number} after {last}");
                            last = number;
                            called += 1;
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            called
        });
        for number in 1..10 {
            // The old one is dropped.
            *current.write().expect("a library") = version(number);
        }
        stop.store(true, Ordering::Relaxed);
        caller.join().expect("calls")
    });
    let mut session = engine.session().expect("a session");
    assert_eq!(number(&mut session, b"n"), Some(called));
}

/// Of what was compiled the handle is enough.
#[test]
fn a_library_outlives_its_compiler_and_other_handles() {
    let engine = create();
    let mut session = engine.session().expect("a session");
    let mut calls = {
        let library = library(
            &compiler(&engine),
            &[("f", "return redis.call('INCR', keys[1])")],
        );
        library.calls()
    };
    drop(engine);
    calls.add("f", &[b"n"], &[]).expect("it is added");
    for expected in 1..100 {
        let mut replies = calls.run(&mut session).expect("it is executed");
        assert_eq!(replies.next(), Some(Ok(ReplyRef::Integer(expected))));
    }
}

/// Calls of one handle, data for all.
#[test]
fn an_attached_handle_calls_beside_the_owner() {
    let place = Place::new();
    let folder = place.0.path().join("engine");
    let owner = Engine::create(&options()).expect("the engine starts");
    owner.pin(&folder).expect("it is pinned");
    let attached = Engine::attach(&folder).expect("it attaches");
    let engines = [&owner, &attached];
    let function = ("f", "return redis.call('INCR', keys[1])");
    let libraries = engines.map(|engine| library(&compiler(engine), &[function]));
    let mut sessions = engines.map(|engine| engine.session().expect("a session"));
    for expected in (1..21).step_by(2) {
        for (library, (session, more)) in libraries.iter().zip(sessions.iter_mut().zip(0..)) {
            let reply = library.call(session, "f", &[b"n"], &[]);
            assert_eq!(reply.expect("a reply"), Reply::Integer(expected + more));
        }
    }
    // The buffers of one handle are not those of the other.
    let crossed = libraries[0].call(&mut sessions[1], "f", &[b"n"], &[]);
    assert!(matches!(crossed, Err(CallError::OtherEngine)));
}

/// A bpf file system that only this thread sees, and that vanishes with it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let none = None::<&str>;
        unshare(CloneFlags::CLONE_NEWNS).expect("mounts of our own");
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private");
        let place = root.path();
        mount(
            Some("bpfdb-test"),
            place,
            Some("bpf"),
            MsFlags::empty(),
            none,
        )
        .expect("a bpf file system");
        Self(root)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = umount2(self.0.path(), MntFlags::MNT_DETACH);
    }
}
