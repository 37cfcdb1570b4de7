//! Compiled procedures, called by programs that embed the engine: XDP, tc, sk_msg, sk_skb, kprobes,
//! tracepoints, perf events.
//!
//! The program includes `bpfdb/procedure.bpf.h`, which shows how it calls, and names functions
//! by numbers of its own. User space publishes under these numbers what it has compiled, and may
//! do so again while the program calls:
//!
//! ```no_run
//! use bpfdb_procedures::embedded::Published;
//!
//! # fn object() -> libbpf_rs::OpenObject { unimplemented!() }
//! # let text = b"";
//! let engine = bpfdb::Engine::create(&bpfdb::Options::default())?;
//! let mut object = object(); // of examples/limit_packets.bpf.c
//! engine.adopt(&mut object)?;
//! let object = object.load()?;
//! let mut published = Published::new(&engine, &object, "limit_packets")?;
//! published.publish(text, &[(0, "limit_bucket")])?; // then attach the program
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants
//!  1. What a number stands for is one word, which is replaced at once: a call runs the function
//!     of before or the new one.
//!  2. A slot that no number names any more is emptied, and used again, only after a grace
//!     period: a program that has read the word before may still enter by it.
//!  3. Procedures have the type of the program that calls them, so all programs of an object
//!     that call some are of one type. The kernel sees to that.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd};

use bpfdb::{Engine, abi};
use libbpf_rs::{Map, MapCore, MapFlags, MapHandle, Object, Program};

use crate::error::{Error, Result};
use crate::load::{self, Template};
use crate::unit::{NotReady, Unit};

/// The program in the template, and the maps that it shares with the object.
const PROGRAM: &str = "bpfdb_procedure";
const SHARED: [&str; 2] = ["frames", "call_place"];
/// Maps of the object: programs by slot, words by number.
const PROGRAMS: &str = "bpfdb_procedures";
const FUNCTIONS: &str = "bpfdb_functions";
/// The slot in a word.
const SLOT_MASK: u32 = (1 << abi::BPFDB_FUNCTION_BODY_SHIFT) - 1;

/// Why nothing was published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// Numbers of functions are below 64.
    #[error("{0} is no number of a function")]
    Number(u32),
    /// There are 255 programs already.
    #[error("there is no room for another program")]
    NoRoom,
    #[error(transparent)]
    Other(#[from] Error),
}

/// The procedures of one object, by number. Dropped, it leaves them where they are: the object
/// holds them, and the next one of the same object goes on with them. There is one of them at a
/// time: two would give a slot to two programs.
#[derive(Debug)]
pub struct Published {
    engine: Engine,
    template: Template,
    programs: MapHandle,
    functions: MapHandle,
    /// The slot that a number names.
    slots: BTreeMap<u32, u32>,
    /// Slots that have a program.
    taken: BTreeSet<u32>,
}

impl Published {
    /// For an object that was adopted by this engine and loaded, and its program of this name,
    /// whose type is that of all of its programs that call procedures. Loads the template, which
    /// takes a tenth of a second of processor time.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no such program, or the object does not include
    /// `bpfdb/procedure.bpf.h`; [`Error::Sleeps`] if the program may sleep;
    /// [`Error::Caller`] if it belongs to one function of the kernel, as fentry and LSM do.
    pub fn new(engine: &Engine, object: &Object, program: &str) -> Result<Self> {
        let caller = object.progs().find(|other| other.name() == program);
        let caller = caller.ok_or_else(|| missing("program", program))?;
        let functions = handle(object, FUNCTIONS)?;
        let slots = named_slots(&functions)?;
        Ok(Self {
            engine: engine.clone(),
            template: template(engine, object, &caller)?,
            programs: handle(object, PROGRAMS)?,
            functions,
            taken: slots.values().copied().collect(),
            slots,
        })
    }

    /// Compiles a library, what FUNCTION LOAD takes, and has numbers of the object stand for
    /// functions of it. Each number is replaced at once, several of them one after the other.
    /// Returns when no call runs any more what they stood for.
    ///
    /// # Errors
    /// If one of the functions cannot be called, or the kernel does not take the program:
    /// nothing was published. Whatever else the kernel refuses ([`Error::Bpf`]) leaves each number
    /// with the function of before or the new one.
    pub fn publish(
        &mut self,
        text: &[u8],
        functions: &[(u32, &str)],
    ) -> Result<Unit, PublishError> {
        let outside = |&&(number, _): &&(u32, &str)| number >= abi::BPFDB_FUNCTIONS_MAX;
        if let Some(&(number, _)) = functions.iter().find(outside) {
            return Err(PublishError::Number(number));
        }
        let unit = Unit::library(&self.template, text)?;
        let mut words = Vec::new();
        let slot = self.free_slot().ok_or(PublishError::NoRoom)?;
        for &(number, name) in functions {
            let ready = unit.find(name)?;
            let reads = match ready.reads {
                true => abi::BPFDB_FUNCTION_ONLY_READS,
                false => 0,
            };
            let body = ready.number << abi::BPFDB_FUNCTION_BODY_SHIFT;
            words.push((number, reads | u64::from(body | slot)));
        }
        if let Some(program) = &unit.program
            && !words.is_empty()
        {
            let fd = program.as_fd().as_raw_fd();
            self.programs
                .update(&slot.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
                .map_err(bpf("put a program into its slot"))?;
            self.taken.insert(slot);
        }
        let mut replaced = false;
        for (number, word) in words {
            self.name(number, word)?;
            replaced |= self.slots.insert(number, slot).is_some();
        }
        self.clear(replaced)?;
        Ok(unit)
    }

    /// Has these numbers stand for nothing: calls of them are missed. Returns when no call runs
    /// any more what they stood for.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn withdraw(&mut self, numbers: &[u32]) -> Result<()> {
        let mut replaced = false;
        for &number in numbers {
            if self.slots.contains_key(&number) {
                self.name(number, 0)?;
                self.slots.remove(&number);
                replaced = true;
            }
        }
        self.clear(replaced)
    }

    fn name(&self, number: u32, word: u64) -> Result<()> {
        self.functions
            .update(&number.to_ne_bytes(), &word.to_ne_bytes(), MapFlags::ANY)
            .map_err(bpf("name a function"))
    }

    fn free_slot(&self) -> Option<u32> {
        (1..abi::BPFDB_PROCEDURE_SLOTS).find(|slot| !self.taken.contains(slot))
    }

    /// Waits for calls of what a number stood for, if one was `replaced`, and empties the slots
    /// that no number names.
    fn clear(&mut self, replaced: bool) -> Result<()> {
        let named: BTreeSet<u32> = self.slots.values().copied().collect();
        let unnamed: Vec<u32> = self.taken.difference(&named).copied().collect();
        if unnamed.is_empty() && !replaced {
            return Ok(());
        }
        self.engine.wait_for_readers()?;
        for slot in unnamed {
            self.programs
                .delete(&slot.to_ne_bytes())
                .map_err(bpf("empty a slot"))?;
            self.taken.remove(&slot);
        }
        Ok(())
    }
}

/// Slots that numbers name already.
fn named_slots(functions: &MapHandle) -> Result<BTreeMap<u32, u32>> {
    let mut slots = BTreeMap::new();
    for number in 0..abi::BPFDB_FUNCTIONS_MAX {
        let word = functions
            .lookup(&number.to_ne_bytes(), MapFlags::ANY)
            .map_err(bpf("look at a function's number"))?;
        let word: Option<[u8; 8]> = word.and_then(|word| word.try_into().ok());
        let word = u64::from_ne_bytes(word.unwrap_or_default());
        if word != 0 {
            slots.insert(number, word as u32 & SLOT_MASK);
        }
    }
    Ok(slots)
}

/// With the frames of the object.
fn template(engine: &Engine, object: &Object, caller: &Program<'_>) -> Result<Template> {
    let bytes = bpfdb::objects::PROCEDURE_EMBEDDED;
    let mut template = bpfdb::open_object(bytes, "procedure_embedded")?;
    engine.adopt(&mut template)?;
    for mut map in template.maps_mut() {
        if let Some(name) = SHARED.into_iter().find(|name| map.name() == *name) {
            map.reuse_fd(find(object, name)?.as_fd())
                .map_err(bpf("share a map with the template"))?;
        }
    }
    for program in template.progs_mut() {
        load::as_called_from(&program, caller)?;
    }
    let template = template
        .load()
        .map_err(bpf("load the template of procedures"))?;
    Template::new(template, PROGRAM)
}

fn find<'a>(object: &'a Object, name: &str) -> Result<Map<'a>> {
    let map = object.maps().find(|map| map.name() == name);
    map.ok_or_else(|| missing("map", name))
}

fn handle(object: &Object, name: &str) -> Result<MapHandle> {
    MapHandle::try_from(&find(object, name)?).map_err(bpf("keep a map of the object"))
}

fn missing(kind: &'static str, name: &str) -> Error {
    Error::Missing {
        kind,
        name: name.to_owned(),
    }
}

fn bpf(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Error {
    move |error| Error::Bpf { what, error }
}
