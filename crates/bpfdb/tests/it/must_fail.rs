//! Programs that the verifier must refuse, and why: `bpf/tests/must_fail`. A line of the source says
//! what the verifier is to complain about: `// PROGRAM is refused: MESSAGE`.

use crate::common;

use std::ffi::c_char;
use std::fs;
use std::path::Path;

use bpfdb::Engine;
use bpfdb::objects::{MUST_FAIL, TestObject};
use libbpf_rs::{AsRawLibbpf, OpenProgramMut};

const LOG: usize = 1 << 20;
const MARK: &str = " is refused: ";

/// The verifier's last words, or `None` if it accepted the program. The object's other programs are
/// not loaded.
fn refusal(engine: &Engine, object: &TestObject, name: &str) -> Option<String> {
    let mut open = common::open(engine, object.bytes, object.name);
    let mut log = vec![0u8; LOG];
    let mut found = false;
    for mut program in open.progs_mut() {
        let is_it = program.name() == name;
        program.set_autoload(is_it);
        if is_it {
            tell(&program, &mut log);
            found = true;
        }
    }
    assert!(found, "{} has no program {name}", object.name);
    open.load().err().map(|_| {
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(LOG);
        String::from_utf8_lossy(&log[..end]).into_owned()
    })
}

/// The verifier writes into `log`, which must live until the object is loaded, or refused.
fn tell(program: &OpenProgramMut<'_>, log: &mut [u8]) {
    // SAFETY: see above.
    let result = unsafe {
        libbpf_sys::bpf_program__set_log_buf(
            program.as_libbpf_object().as_ptr(),
            log.as_mut_ptr().cast::<c_char>(),
            log.len() as libbpf_sys::size_t,
        )
    };
    assert_eq!(result, 0, "log buffer");
}

/// Names of programs, and what is to be said of each.
fn expected(object: &TestObject) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf/tests/must_fail");
    let path = folder.join(format!("{}.bpf.c", object.name));
    let source = fs::read_to_string(&path).expect("the source is there");
    source
        .lines()
        .filter_map(|line| line.strip_prefix("// ")?.split_once(MARK))
        .map(|(name, message)| (name.to_owned(), message.to_owned()))
        .collect()
}

/// The lines of a log that say something: no states, no instructions.
fn complaints(log: &str) -> String {
    log.lines().rev().take(6).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_verifier_refuses_what_it_must() {
    let engine = common::engine();
    let mut wrong = Vec::new();
    let mut count = 0;

    for object in MUST_FAIL {
        let expected = expected(object);
        assert!(!expected.is_empty(), "{}: no {MARK:?}", object.name);
        count += expected.len();
        for (name, message) in expected {
            match refusal(&engine, object, &name) {
                None => wrong.push(format!("{name}: accepted")),
                Some(log) if message.is_empty() || !log.contains(&message) => wrong.push(format!(
                    "{name}: not for {message:?}, but:\n{}",
                    complaints(&log)
                )),
                Some(_) => println!("{name}: {message}"),
            }
        }
    }
    assert!(count >= 12, "{count} programs");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// No program is forgotten: each of the large object has its line.
#[test]
fn every_program_is_to_be_refused() {
    let named = |object: &&TestObject| object.name == "programs";
    let object = MUST_FAIL.iter().find(named).expect("the object");
    let expected = expected(object);
    let open = bpfdb::open_object(object.bytes, object.name).expect("the object opens");
    for program in open.progs() {
        let name = program.name().to_string_lossy();
        assert!(
            expected.iter().any(|(other, _)| *other == name),
            "{name} has no line {MARK:?}"
        );
    }
}
