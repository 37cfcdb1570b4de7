//! The engine's program for user space: the calls of `include/bpfdb/driver.h`.

use crate::abi;
use crate::error::Result;
use crate::program::{self, Program};

const WORDS: usize = abi::BPFDB_DRIVER_WORDS as usize;

/// A loaded `bpfdb_run`. Several threads may call it at the same time.
#[derive(Debug)]
pub(crate) struct Driver {
    program: Program,
}

impl Driver {
    pub(crate) fn of(object: &libbpf_rs::Object) -> Result<Self> {
        Ok(Self {
            program: program::find(object, "bpfdb_run")?,
        })
    }

    /// `call`: a `BPFDB_DRIVER_` number; `arguments`: five at most, the others are 0. What the
    /// call returns.
    pub(crate) fn run(&self, call: u32, arguments: &[u64]) -> Result<u32> {
        let mut context = [0; WORDS];
        context[0] = call.into();
        context[1..=arguments.len()].copy_from_slice(arguments);
        self.program.run(&context)
    }
}
