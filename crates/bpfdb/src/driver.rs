//! The engine's programs for user space: the calls of `include/bpfdb/driver.h`.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::abi;
use crate::error::{Result, bpf, system};
use crate::later::LaterProgram;
use crate::maps::{self, Maps};
use crate::objects;
use crate::program::{self, Program};

const WORDS: usize = abi::BPFDB_DRIVER_WORDS as usize;

/// Programs that are loaded when the first of their calls is made, and the number before those of their
/// calls.
pub(crate) const LATER: [(&str, u32); 3] = [
    ("bpfdb_run_reaper", abi::BPFDB_DRIVER_REAPER),
    ("bpfdb_run_eviction", abi::BPFDB_DRIVER_EVICTION),
    ("bpfdb_run_walks", abi::BPFDB_DRIVER_WALKS),
];

/// The programs of this process. Several threads may call them at the same time.
#[derive(Debug)]
pub(crate) struct Driver {
    program: Program,
    /// In the order of [`LATER`].
    later: [LaterProgram; LATER.len()],
}

impl Driver {
    /// Of the engine's object, which was loaded with these maps.
    pub(crate) fn of(object: &libbpf_rs::Object, maps: &Arc<Maps>) -> Result<Self> {
        let io = Arc::new(
            maps::find(object, maps::IO)?
                .as_fd()
                .try_clone_to_owned()
                .map_err(system("keep the io buffers"))?,
        );
        let later = |(name, _)| {
            let (maps, io) = (Arc::clone(maps), Arc::clone(&io));
            LaterProgram::new(name, move || {
                let mut object = program::open_object(objects::ENGINE, "engine")?;
                maps.share_with(&mut object)?;
                share_buffers(&mut object, io.as_fd())?;
                Ok(object)
            })
        };
        Ok(Self {
            program: program::find(object, "bpfdb_run")?,
            later: LATER.map(later),
        })
    }

    /// `call`: a `BPFDB_DRIVER_` number; `arguments`: five at most, the others are 0. What the
    /// call returns.
    ///
    /// # Errors
    /// Also if the program of the call cannot be loaded, if it is not there yet.
    pub(crate) fn run(&self, call: u32, arguments: &[u64]) -> Result<u32> {
        let mut context = [0; WORDS];
        context[0] = call.into();
        context[1..=arguments.len()].copy_from_slice(arguments);
        self.program_of(call)?.run(&context)
    }

    /// Loads the programs that are not loaded yet.
    pub(crate) fn load_all(&self) -> Result<()> {
        self.later.iter().try_for_each(|one| one.get().map(drop))
    }

    /// Those of [`LATER`] that are loaded.
    #[cfg(test)]
    pub(crate) fn loaded_later(&self) -> Vec<&'static str> {
        let all = LATER.iter().zip(&self.later);
        let loaded = all.filter(|(_, program)| program.is_loaded());
        loaded.map(|((name, _), _)| *name).collect()
    }

    /// Loads the program of this call, if it is not loaded yet.
    pub(crate) fn prepare(&self, call: u32) -> Result<()> {
        self.program_of(call).map(drop)
    }

    fn program_of(&self, call: u32) -> Result<&Program> {
        let found = LATER.iter().position(|(_, before)| call > *before);
        found.map_or(Ok(&self.program), |place| self.later[place].get())
    }
}

/// Those programs are not loaded with the object.
pub(crate) fn leave_out_later(object: &mut libbpf_rs::OpenObject) {
    let is_later = |name: &std::ffi::OsStr| LATER.iter().any(|(later, _)| name == *later);
    for mut program in object
        .progs_mut()
        .filter(|program| is_later(program.name()))
    {
        program.set_autoload(false);
    }
}

/// Lets programs of this process use its io buffers.
pub(crate) fn share_buffers(object: &mut libbpf_rs::OpenObject, io: BorrowedFd<'_>) -> Result<()> {
    for mut map in object.maps_mut().filter(|map| map.name() == maps::IO) {
        map.reuse_fd(io).map_err(bpf("share the io buffers"))?;
    }
    Ok(())
}
