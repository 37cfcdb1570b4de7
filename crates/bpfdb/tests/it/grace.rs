//! Pages of the index are given back when no program can read them any more, on every kernel.

use crate::common;

use std::thread;
use std::time::Duration;

use bpfdb::{Engine, Options, find_program};
use libbpf_rs::{MapCore, MapFlags, Object};

/// Lets membarrier fail for this thread, as it does with `nohz_full`.
fn refuse_membarrier() {
    let code = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let mut filter = [
        // The number of the system call: the first word.
        code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter {
            jf: 1,
            ..code(
                libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                libc::SYS_membarrier as u32,
            )
        },
        code(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32,
        ),
        code(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the filter outlives the call, which copies it; it concerns this thread only.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        );
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        assert_eq!(libc::syscall(libc::SYS_membarrier, 0, 0, 0), -1);
    }
}

fn index_pages(engine: &Engine) -> u64 {
    engine.stats().expect("figures").index_pages
}

#[test]
fn an_index_shrinks_where_membarrier_is_refused() {
    refuse_membarrier();
    let engine = Engine::create(&Options {
        memory_limit: 64 << 20,
        ..Options::default()
    })
    .expect("the engine starts");
    let mut session = engine.session().expect("a session");
    for key in 0u32..20_000 {
        session.set(&key.to_ne_bytes(), b"1").expect("set");
    }
    let full = index_pages(&engine);
    for key in 0u32..20_000 {
        assert_eq!(session.delete(&key.to_ne_bytes()), Ok(true));
    }
    engine.sweep().expect("pages are given back");
    let empty = index_pages(&engine);
    assert!(full > 16 && empty < full / 4, "{full} pages, then {empty}");
}

fn is_reading(object: &Object) -> bool {
    let map = object
        .maps()
        .find(|map| map.name().to_string_lossy().ends_with(".bss"));
    let value = map
        .expect("the program's variable")
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .expect("read it");
    value.expect("one entry").iter().any(|&byte| byte != 0)
}

#[test]
fn a_grace_period_lasts_as_long_as_a_program() {
    let engine = common::engine();
    let object = common::load(&engine, "reader");
    let program = find_program(&object, "read_for").expect("the program");
    for milliseconds in [1, 20, 100] {
        let nanoseconds = Duration::from_millis(milliseconds).as_nanos() as u64;
        thread::scope(|scope| {
            let run = scope.spawn(|| program.run(&[nanoseconds]).expect("the program runs"));
            while !is_reading(&object) && !run.is_finished() {}
            engine.wait_for_readers().expect("waited");
            assert!(!is_reading(&object), "it still reads");
        });
    }
}
