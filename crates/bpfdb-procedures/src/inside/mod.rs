//! Compiled procedures, called by this process: without a server, without a connection.
//!
//! ```no_run
//! use bpfdb_procedures::inside::{Compiler, Reply};
//!
//! let engine = bpfdb::Engine::create(&bpfdb::Options::default())?;
//! let library = Compiler::new(&engine)?.library(
//!     b"#!lua name=stock
//!       redis.register_function('sell', function(keys, args)
//!         local left = tonumber(redis.call('GET', keys[1]) or '0')
//!         if left < tonumber(args[1]) then return redis.error_reply('SOLD OUT') end
//!         return redis.call('DECRBY', keys[1], args[1])
//!       end)",
//! )?;
//! let mut session = engine.session()?;
//! session.set(b"apples", b"7")?;
//!
//! // One by one.
//! let left = library.call(&mut session, "sell", &[b"apples"], &[b"3"])?;
//! assert_eq!(left, Reply::Integer(4));
//!
//! // Many in a system call.
//! let mut calls = library.calls();
//! for _ in 0..1000 {
//!     calls.add("sell", &[b"apples"], &[b"3"])?;
//! }
//! for reply in calls.run(&mut session)? {
//!     let reply = reply?; // or why this call has left nothing
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A call
//! Each call, of a batch too, is a serializable transaction of its own, and has a result of its
//! own: a reply, and all that it did is committed; or a [`Failure`], and it has left nothing.
//! A batch is no transaction: what others commit may lie between two of its calls.
//!
//! There is no interpreter here. A function that is not compiled cannot be called
//! ([`CallError::NotReady`]), and a call that the kernel gives up ends with
//! [`Failure::GivenUp`]. docs/procedures.md lists what compiles, and what is given up.
//!
//! # Sessions and threads
//! * A call within an open transaction of its session is refused
//!   ([`CallError::InTransaction`]); the transaction stays as it is.
//! * Threads call at the same time, each with a session of its own. A [`Library`] may be used
//!   by all of them.
//! * If the reaper of the engine is in the session for a moment, the call waits for it; likewise
//!   for memory that is being added and for room in the log, unless the session
//!   [never waits](bpfdb::Session::never_wait).
//! * The engine may be [attached](bpfdb::Engine::attach): its data is shared with its owner and
//!   with the clients of a server. Libraries are not: this process compiles them for itself, and
//!   FUNCTION LOAD of the server does not change them.
//! * A reply is there before the log is on the disk, as with all operations of a session. Who
//!   must not tell of what is not durable has the session
//!   [keep what it depends on](bpfdb::Session::keep_depends), and waits for that.
//!
//! # Replacing and dropping a library
//! The program lives as long as a [`Library`], a clone of it or a [`Calls`] does. To replace
//! one, compile the new text and give the new handle to those who call: calls that have begun
//! end in the old program.

mod calls;
mod error;
mod reply;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use bpfdb::{Engine, Program, Session, abi};

use crate::error::{Error, Result};
use crate::load::Template;
use crate::unit::Unit;

pub use calls::Calls;
pub use error::{CallError, Failure};
pub use reply::{Elements, Replies, Reply, ReplyRef};

/// The program in the template whose calls these are, and the map of their frames.
const PROGRAM: &str = "bpfdb_run_calls";
const FRAMES: &str = "frames";
/// The map of clients that wait for keys.
const WAITING: &str = ".data.waiting";

/// Makes programs of Lua for one engine.
#[derive(Debug)]
pub struct Compiler {
    engine: Engine,
    template: Template,
}

impl Compiler {
    /// Has the kernel verify the template, which takes a tenth of a second of processor time.
    /// Its maps take 100 KiB of kernel memory for each processor, at least 1.6 MB.
    ///
    /// # Errors
    /// [`Error::Bpf`] or [`Error::Engine`] if this process may not load programs.
    pub fn new(engine: &Engine) -> Result<Self> {
        Self::with_waiting(engine, None)
    }

    /// The same for a process whose clients wait for keys: `waiting` is the map `.data.waiting` of its
    /// programs (`bpf/values/waiting.bpf.h`), by which a call that would fill such a key is given up.
    ///
    /// # Errors
    /// As above.
    pub fn with_waiting(engine: &Engine, waiting: Option<BorrowedFd<'_>>) -> Result<Self> {
        let mut object = bpfdb::open_object(bpfdb::objects::PROCEDURE_RUN, "procedure_run")?;
        engine.adopt_with_buffers(&mut object)?;
        for mut map in object.maps_mut() {
            if map.name() == FRAMES {
                map.set_max_entries(frames()?).map_err(|error| Error::Bpf {
                    what: "size the frames of calls",
                    error,
                })?;
            }
            if let Some(waiting) = waiting
                && map.name() == WAITING
            {
                map.reuse_fd(waiting).map_err(|error| Error::Bpf {
                    what: "share the table of clients that wait",
                    error,
                })?;
            }
        }
        let object = object.load().map_err(|error| Error::Bpf {
            what: "load the template of procedures",
            error,
        })?;
        Ok(Self {
            engine: engine.clone(),
            template: Template::new(object, PROGRAM)?,
        })
    }

    /// Compiles the functions that a library registers, `#!lua name=…` and what follows: what
    /// FUNCTION LOAD takes. All of them are one program. That takes 0.12 to 0.3 s of processor time,
    /// most of it for the verification, which grows with the functions. What cannot be compiled is
    /// no error: [`Library::unit`] has the reasons.
    ///
    /// The text has to be one that Lua loads. Whether it is, is not looked at here.
    ///
    /// # Errors
    /// If the kernel does not take the program, which it should.
    pub fn library(&self, text: &[u8]) -> Result<Library> {
        Library::new(&self.engine, Unit::library(&self.template, text)?)
    }

    /// Compiles a script, whose whole text is one function: what EVAL takes. It is called by
    /// the empty name.
    ///
    /// # Errors
    /// As above.
    pub fn script(&self, text: &[u8]) -> Result<Library> {
        Library::new(&self.engine, Unit::script(&self.template, text)?)
    }
}

/// One for each processor: programs that BPF_PROG_RUN runs are not preempted.
fn frames() -> Result<u32> {
    let processors = libbpf_rs::num_possible_cpus().map_err(|error| Error::Bpf {
        what: "count the processors",
        error,
    })?;
    let processors = u32::try_from(processors).unwrap_or(u32::MAX);
    Ok(processors.max(abi::BPFDB_FRAMES))
}

/// Functions in the kernel, which this process can call. Cheap to clone; for all threads.
#[derive(Clone, Debug)]
pub struct Library {
    engine: Engine,
    unit: Arc<Unit>,
    /// None if no function is compiled.
    program: Option<Arc<Program>>,
}

impl Library {
    fn new(engine: &Engine, unit: Unit) -> Result<Self> {
        let program = unit.program.as_ref().map(|program| {
            let fd = program.as_fd().try_clone_to_owned();
            fd.map(|fd| Arc::new(Program::of_descriptor(fd, PROGRAM)))
        });
        let program = program.transpose().map_err(|error| Error::System {
            what: "keep the program",
            error,
        })?;
        Ok(Self {
            engine: engine.clone(),
            unit: Arc::new(unit),
            program,
        })
    }

    /// What has become of the text: the functions that can be called, and why others cannot.
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// Calls one function, and waits for its end. Keys and arguments are those of FCALL: 64 and
    /// 64 at most, and 28 KiB together, each rounded up to 8 bytes.
    ///
    /// # Errors
    /// [`CallError::Failed`]: the call was given up, or met an Error of the engine, and has left
    /// nothing. Of the others each says that nothing was executed.
    pub fn call(
        &self,
        session: &mut Session,
        function: &str,
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> Result<Reply, CallError> {
        let mut calls = self.calls();
        calls.add(function, keys, arguments)?;
        let mut replies = calls.run(session)?;
        let reply = replies.next().unwrap_or(Err(Failure::CORRUPT));
        Ok(reply?.to_owned())
    }

    /// An empty list of calls, which can be used again and again.
    pub fn calls(&self) -> Calls {
        Calls::new(self)
    }

    /// For benchmarks: the same functions, executed by another program that takes the same
    /// calls.
    #[doc(hidden)]
    pub fn executed_by(&self, program: Program) -> Self {
        Self {
            program: Some(Arc::new(program)),
            ..self.clone()
        }
    }
}
