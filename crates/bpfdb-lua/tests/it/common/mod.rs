//! Runs scripts with commands of the tests' own: `echo`, `fail`, `nothing`.
#![allow(dead_code, reason = "each test uses a part")]

use bpfdb_lua::{Answer, Call, Failure, Limits, Reply, Sha1, Step, Vm};

pub(crate) fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.into())
}

pub(crate) struct Machine {
    pub(crate) vm: Vm,
    /// Slices that calls have taken, but for the first ones.
    pub(crate) slices: usize,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Self {
        Self {
            vm: Vm::new(limits).expect("memory"),
            slices: 0,
        }
    }

    pub(crate) fn begin(&mut self, code: &str, keys: &[&str], arguments: &[&str]) -> Call {
        let name = Sha1::of(code.as_bytes());
        self.vm.compile(name, code.as_bytes()).expect("compiles");
        let strings = |all: &[&str]| all.iter().map(|text| text.as_bytes().to_vec()).collect();
        let call = self.vm.call_script(name, strings(keys), strings(arguments));
        call.expect("compiled")
    }

    /// Runs a script to its end.
    pub(crate) fn eval(
        &mut self,
        code: &str,
        keys: &[&str],
        arguments: &[&str],
    ) -> Result<Reply, Failure> {
        let call = self.begin(code, keys, arguments);
        finish_counting(call, &mut self.slices)
    }
}

/// Runs a call to its end.
pub(crate) fn finish(call: Call) -> Result<Reply, Failure> {
    finish_counting(call, &mut 0)
}

fn finish_counting(mut call: Call, slices: &mut usize) -> Result<Reply, Failure> {
    let mut answer = Answer::GoOn;
    loop {
        answer = match call.resume(answer) {
            Step::Command { words, resp3 } => Answer::Reply(execute(&words, resp3)),
            Step::SliceOver => {
                *slices += 1;
                Answer::GoOn
            }
            Step::Done(reply) => return Ok(reply),
            Step::Failed(failure) => return Err(failure),
        };
    }
}

fn execute(words: &[Vec<u8>], resp3: bool) -> Vec<u8> {
    match &words[0][..] {
        b"echo" => {
            let word = &words[1];
            let head = format!("${}\r\n", word.len()).into_bytes();
            [&head, &word[..], b"\r\n"].concat()
        }
        b"fail" => [b"-ERR ", &words[1][..], b"\r\n"].concat(),
        b"nothing" if resp3 => b"_\r\n".to_vec(),
        b"nothing" => b"$-1\r\n".to_vec(),
        other => panic!("{other:?}"),
    }
}
