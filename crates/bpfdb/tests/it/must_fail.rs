//! Programs that the verifier must refuse, and why: `bpf/tests/must_fail`. The
//! second line of each source says what the verifier is to complain about.

use crate::common;

use std::ffi::c_char;
use std::fs;
use std::path::Path;

use bpfdb::Engine;
use bpfdb::objects::{MUST_FAIL, TestObject};
use libbpf_rs::AsRawLibbpf;

const LOG: usize = 1 << 20;
const MARK: &str = "// refused: ";

/// The verifier's last words, or `None` if it accepted the program.
fn refusal(engine: &Engine, object: &TestObject) -> Option<String> {
    let mut open = common::open(engine, object.bytes, object.name);
    let mut log = vec![0u8; LOG];
    for program in open.progs_mut() {
        // SAFETY: the log lives until the object is loaded, or refused, below.
        let result = unsafe {
            libbpf_sys::bpf_program__set_log_buf(
                program.as_libbpf_object().as_ptr(),
                log.as_mut_ptr().cast::<c_char>(),
                log.len() as libbpf_sys::size_t,
            )
        };
        assert_eq!(result, 0, "{}: log buffer", object.name);
    }
    open.load().err().map(|_| {
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(LOG);
        String::from_utf8_lossy(&log[..end]).into_owned()
    })
}

fn expected(object: &TestObject) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf/tests/must_fail");
    let path = folder.join(format!("{}.bpf.c", object.name));
    let source = fs::read_to_string(&path).expect("the source is there");
    let message = source.lines().nth(1).and_then(|l| l.strip_prefix(MARK));
    message
        .unwrap_or_else(|| panic!("{}: no line {MARK:?}", path.display()))
        .to_owned()
}

/// The lines of a log that say something: no states, no instructions.
fn complaints(log: &str) -> String {
    log.lines().rev().take(6).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_verifier_refuses_what_it_must() {
    let engine = common::engine();
    let mut wrong = Vec::new();

    assert!(MUST_FAIL.len() >= 8, "{} programs", MUST_FAIL.len());
    for object in MUST_FAIL {
        let message = expected(object);
        match refusal(&engine, object) {
            None => wrong.push(format!("{}: accepted", object.name)),
            Some(log) if message.is_empty() || !log.contains(&message) => wrong.push(format!(
                "{}: not for {message:?}, but:\n{}",
                object.name,
                complaints(&log)
            )),
            Some(_) => println!("{}: {message}", object.name),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
