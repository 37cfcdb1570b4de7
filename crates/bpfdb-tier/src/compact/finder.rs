//! Finds live entries of a run, part after part: `bpf/tier/compact.bpf.h` says what is live.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use bpfdb::{Engine, Program};
use bpfdb_log::DiskFile;
use libbpf_rs::MapCore;

use super::memory::{Memory, PART};
use crate::abi;
use crate::format::BLOCK;
use crate::runs::Source;

mod objects {
    include!(concat!(env!("OUT_DIR"), "/objects.rs"));
}

/// A part whose entries were looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Place in the run of the part's first byte.
    pub(crate) start: u64,
    /// And of the first entry that was not looked at.
    pub(crate) next: u64,
    pub(crate) bytes: u64,
}

/// The program, its memory and its session.
#[derive(Debug)]
pub(crate) struct Finder {
    engine: Engine,
    look: Program,
    memory: Memory,
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

impl Finder {
    /// # Errors
    /// The engine has no session left, or the kernel refuses the program.
    pub(crate) fn new(engine: &Engine) -> io::Result<Self> {
        let mut object = bpfdb::open_object(objects::COMPACT, "compact").map_err(other)?;
        engine.adopt(&mut object).map_err(other)?;
        let object = object.load().map_err(other)?;
        let mut memory = {
            let map = object.maps().find(|map| map.name() == ".bss.compact");
            Memory::map(map.ok_or(ErrorKind::NotFound)?.as_fd())?
        };
        let look = bpfdb::find_program(&object, "compact_look").map_err(other)?;
        let session = engine.open_session().map_err(other)?;
        let session = session.ok_or_else(|| io::Error::other("there is no session left"))?;
        let shared = memory.all_mut();
        (shared.engine, shared.session) = (engine.identity(), session);
        Ok(Self {
            engine: engine.clone(),
            look,
            memory,
        })
    }

    /// Reads the part of the run in which there is its byte `at`, with which an entry may begin, by so many bytes at once,
    /// and looks at its entries.
    ///
    /// # Errors
    /// It cannot be read, or is shorter than it was.
    pub(crate) fn look<F: DiskFile>(
        &mut self,
        source: &Source<F>,
        at: u64,
        read: usize,
    ) -> io::Result<Part> {
        let start = at - at % BLOCK as u64;
        let bytes = (source.end - start).min(PART as u64);
        let shared = self.memory.all_mut();
        (shared.run, shared.start) = (source.id.number, start);
        shared.bytes = bytes as u32;
        shared.is_last = (start + bytes == source.end).into();
        (shared.at, shared.live) = ((at - start) as u32, 0);
        let mut offset = start;
        for piece in shared.buffer[..bytes as usize].chunks_mut(read) {
            if source.file.read_whole(offset, piece)? < piece.len() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            offset += piece.len() as u64;
        }
        self.execute()?;
        Ok(Part {
            start,
            next: start + u64::from(self.memory.all().at),
            bytes,
        })
    }

    /// Until all entries were looked at.
    fn execute(&mut self) -> io::Result<()> {
        while self.look.run(&[]).map_err(other)? != 0 {}
        Ok(())
    }

    /// The live entries of the part: the place of each in it, and the id of the value that names it.
    pub(crate) fn live(&self) -> impl Iterator<Item = (usize, u64)> {
        let lives = self.memory.lives().iter();
        lives.map(|live| (live.at as usize, live.id))
    }

    /// What an entry that begins at byte `at` of the part can have.
    pub(crate) fn bytes_from(&self, part: &Part, at: usize) -> &[u8] {
        let bytes = &self.memory.all().buffer[..part.bytes as usize];
        bytes.get(at..).unwrap_or(&[])
    }

    /// Whether an entry may begin at `at`.
    pub(crate) fn has_room<F>(source: &Source<F>, at: u64) -> bool {
        at + u64::from(abi::BPFDB_RUN_ENTRY_HEAD) <= source.end
    }
}

impl Drop for Finder {
    fn drop(&mut self) {
        let session = self.memory.all().session;
        if let Err(error) = self.engine.close_session(session) {
            tracing::warn!(%error, "cannot close a session");
        }
    }
}
