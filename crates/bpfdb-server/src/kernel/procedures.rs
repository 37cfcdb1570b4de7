//! Compiled procedures in the kernel: their programs, the names by which requests find them,
//! what is counted of each. `bpf/redis/commands/call.bpf.h` is the other side.

use std::os::fd::{AsFd, AsRawFd};

use bpfdb::{Engine, abi};
use bpfdb_procedures::load::Program;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::programs::Programs;
use crate::error::{Result, bpf};

/// The name of a procedure, as requests have it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    Function(Vec<u8>),
    /// SHA-1, in small hexadecimal digits.
    Script(String),
}

impl Name {
    /// `None`: it is longer than names that the kernel knows.
    fn encode(&self) -> Option<abi::bpfdb_procedure_name> {
        let (kind, bytes) = match self {
            Self::Function(name) => (abi::BPFDB_PROCEDURE_FUNCTION, &name[..]),
            Self::Script(name) => (abi::BPFDB_PROCEDURE_SCRIPT, name.as_bytes()),
        };
        let mut name = abi::bpfdb_procedure_name {
            kind,
            len: bytes.len() as u32,
            ..Default::default()
        };
        if bytes.is_empty() || bytes.len() > abi::BPFDB_CALL_NAME_MAX as usize {
            return None;
        }
        for (word, part) in name.words.iter_mut().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..part.len()].copy_from_slice(part);
            *word = u64::from_le_bytes(padded);
        }
        Some(name)
    }
}

/// How a procedure is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Of its program.
    pub(crate) slot: u32,
    /// Which of the program's bodies.
    pub(crate) function: u32,
    /// A snapshot is enough for it.
    pub(crate) reads: bool,
    /// The forms of the commands that may not write call it.
    pub(crate) read_only_forms: bool,
    /// Of its counters.
    pub(crate) number: u32,
}

/// What was counted of a procedure, on all processors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    /// Answered in the kernel.
    pub(crate) calls: u64,
    /// Attempts that were repeated.
    pub(crate) conflicts: u64,
    /// Errors of the engine, after which the daemon ran the call.
    pub(crate) errors: u64,
    /// Calls that were timed, nanoseconds of all of them and of the longest.
    pub(crate) measured: u64,
    pub(crate) time: u64,
    pub(crate) longest: u64,
    /// By their reason: see `bpfdb::DEOPTIMISATIONS`.
    pub(crate) deoptimisations: Vec<u64>,
}

#[derive(Debug)]
pub(crate) struct KernelProcedures {
    programs: MapHandle,
    names: MapHandle,
    counters: MapHandle,
    free_slots: Vec<u32>,
    free_numbers: Vec<u32>,
    /// Of what was removed: a call that has found it may still come to it.
    retired_slots: Vec<u32>,
    retired_numbers: Vec<u32>,
    /// Of procedures that are gone.
    gone: Counters,
}

fn plain_bytes<T>(value: &T) -> &[u8] {
    // SAFETY: the structures of the ABI have no padding (bindgen makes it explicit).
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

impl KernelProcedures {
    /// Those that are compiled out of scripts and functions: none, also if a server that had these
    /// programs before has left some.
    pub(crate) fn of(engine: &Engine, programs: &Programs) -> Result<Self> {
        let (slots, names) = (
            programs.map("procedures")?,
            programs.map("procedure_names")?,
        );
        let left: Vec<Vec<u8>> = names.keys().collect();
        for name in &left {
            let removed = names.delete(name);
            removed.map_err(bpf("withdraw a procedure that was left"))?;
        }
        for slot in 1..abi::BPFDB_PROCEDURE_SLOTS {
            // Most are empty.
            let _ = slots.delete(&slot.to_ne_bytes());
        }
        if !left.is_empty() {
            // A call of one of them may go on: see `reuse`.
            engine.wait_for_readers()?;
        }
        Ok(Self {
            programs: slots,
            names,
            counters: programs.map("procedure_counters")?,
            // Slot 0 stays empty.
            free_slots: (1..abi::BPFDB_PROCEDURE_SLOTS).rev().collect(),
            free_numbers: (0..abi::BPFDB_PROCEDURE_NAMES).rev().collect(),
            retired_slots: Vec::new(),
            retired_numbers: Vec::new(),
            gone: Counters::none(),
        })
    }

    /// Makes a program callable: its slot; `None` if there are as many as there may be.
    pub(crate) fn add_program(&mut self, program: &Program) -> Result<Option<u32>> {
        let Some(slot) = self.free_slots.pop() else {
            return Ok(None);
        };
        let fd = program.as_fd().as_raw_fd();
        self.programs
            .update(&slot.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
            .inspect_err(|_| self.free_slots.push(slot))
            .map_err(bpf("add a program of procedures"))?;
        Ok(Some(slot))
    }

    /// So many programs can be added.
    pub(crate) fn free_programs(&self) -> usize {
        self.free_slots.len()
    }

    /// Some were removed, and will make room when calls have ended.
    pub(crate) fn frees_programs(&self) -> bool {
        !self.retired_slots.is_empty()
    }

    /// All calls have ended that had begun when something was removed last: its places are for
    /// others.
    pub(crate) fn reuse(&mut self) {
        self.free_slots.append(&mut self.retired_slots);
        self.free_numbers.append(&mut self.retired_numbers);
    }

    /// Runs of the program end, and none begins any more. Its slot stays empty until
    /// [`KernelProcedures::reuse`].
    pub(crate) fn remove_program(&mut self, slot: u32) {
        if let Err(error) = self.programs.delete(&slot.to_ne_bytes()) {
            tracing::error!(%error, slot, "cannot remove a program of procedures");
            return;
        }
        self.retired_slots.push(slot);
    }

    /// A number for counters, which are 0.
    pub(crate) fn take_number(&mut self) -> Option<u32> {
        let number = self.free_numbers.pop()?;
        let size = size_of::<abi::bpfdb_procedure_counters>();
        let processors = libbpf_rs::num_possible_cpus().unwrap_or(1);
        let zeros = vec![vec![0; size]; processors];
        let cleared = self
            .counters
            .update_percpu(&number.to_ne_bytes(), &zeros, MapFlags::ANY);
        if let Err(error) = cleared {
            tracing::warn!(%error, "cannot clear the counters of a procedure");
        }
        Some(number)
    }

    pub(crate) fn give_number_back(&mut self, number: u32) {
        let counters = self.counters(number);
        self.gone.add_all(&counters);
        self.retired_numbers.push(number);
    }

    /// Of all procedures since the server began, also those that are gone.
    pub(crate) fn all_counters(&self) -> Counters {
        let mut sum = self.gone.clone();
        let is_used =
            |one: &u32| !self.free_numbers.contains(one) && !self.retired_numbers.contains(one);
        let used = (0..abi::BPFDB_PROCEDURE_NAMES).filter(is_used);
        for number in used {
            sum.add_all(&self.counters(number));
        }
        sum
    }

    /// Requests with this name are answered in the kernel from now on. False: the name is too
    /// long.
    pub(crate) fn publish(&self, name: &Name, entry: Entry) -> Result<bool> {
        let Some(name) = name.encode() else {
            return Ok(false);
        };
        let value = abi::bpfdb_procedure {
            slot: entry.slot,
            function: entry.function,
            reads: entry.reads.into(),
            read_only_forms: entry.read_only_forms.into(),
            number: entry.number,
            reserved: 0,
        };
        self.names
            .update(plain_bytes(&name), plain_bytes(&value), MapFlags::ANY)
            .map_err(bpf("publish a procedure"))?;
        Ok(true)
    }

    /// Requests with this name are the daemon's from now on. Calls that have begun go on. The
    /// kernel may give the place of the name to the next one at once, so nothing is published
    /// before these calls have ended: one that has found the name would read another's entry.
    pub(crate) fn withdraw(&self, name: &Name) {
        let Some(key) = name.encode() else { return };
        if let Err(error) = self.names.delete(plain_bytes(&key)) {
            tracing::error!(%error, ?name, "cannot withdraw a procedure");
        }
    }

    pub(crate) fn counters(&self, number: u32) -> Counters {
        let mut sum = Counters::none();
        let found = self
            .counters
            .lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY);
        for bytes in found.ok().flatten().unwrap_or_default() {
            if bytes.len() >= size_of::<abi::bpfdb_procedure_counters>() {
                // SAFETY: long enough; plain data.
                let one: abi::bpfdb_procedure_counters =
                    unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
                sum.add(&one);
            }
        }
        sum
    }
}

impl Counters {
    pub(crate) fn none() -> Self {
        Self {
            deoptimisations: vec![0; abi::BPFDB_DEOPTIMISATION_COUNT as usize],
            ..Self::default()
        }
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        self.calls += other.calls;
        self.conflicts += other.conflicts;
        self.errors += other.errors;
        self.measured += other.measured;
        self.time += other.time;
        self.longest = self.longest.max(other.longest);
        for (sum, count) in self.deoptimisations.iter_mut().zip(&other.deoptimisations) {
            *sum += count;
        }
    }

    fn add(&mut self, one: &abi::bpfdb_procedure_counters) {
        self.calls += one.calls;
        self.conflicts += one.conflicts;
        self.errors += one.errors;
        self.measured += one.measured;
        self.time += one.time;
        self.longest = self.longest.max(one.longest);
        for (sum, count) in self.deoptimisations.iter_mut().zip(one.deoptimisations) {
            *sum += count;
        }
    }

    /// Calls that were given up, whatever the reason.
    pub(crate) fn given_up(&self) -> u64 {
        self.errors + self.deoptimisations.iter().sum::<u64>()
    }
}
