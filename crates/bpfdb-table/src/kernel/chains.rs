//! Questions to a table that the kernel answers.
//!
//! A chain that does not end well has answered nothing. Then the process reads the table itself: so the answer
//! is the same, or the error names what is wrong with the file.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore, Object, OpenObject};
use std::os::fd::AsFd;

use super::memory::Memory;
use super::objects;
use super::pool::Pool;
use super::ring::{ChainOptions, Ring};
use crate::abi::{self, KEY_MAX, bpfdb_table_chain};
use crate::aggregate::{Aggregate, Aggregation};
use crate::block::Block;
use crate::bounds::Bounds;
use crate::error::{Error, Result};
use crate::field::Field;
use crate::reader::Reader;
use crate::table::Table;
use crate::walk::Walk;

const CHAINS: usize = abi::BPFDB_TABLE_CHAINS as usize;
/// The map by which programs of others ring, and all that they share.
const BELL: &str = "table_bell";
const SHARED: [&str; 5] = [
    ".bss.table",
    BELL,
    "pool_frames",
    "pool_segments",
    "pool_hints",
];
/// A chain that was not heard of for so long is given up.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of leaves that one chain looks at for an aggregate: a slow disk reads them within that time.
const SLICE: usize = 16 << 20;

/// What has become of the questions so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainFigures {
    /// Chains that have answered.
    pub chains: u64,
    /// Reads of these.
    pub reads: u64,
    /// Questions that the pool has answered, without a chain.
    pub from_pool: u64,
    /// Blocks that were in the pool.
    pub pooled: u64,
    /// Questions that the process has answered in their place.
    pub by_process: u64,
}

/// A table that is read in the kernel, by chains of reads with O_DIRECT. One thread asks.
#[derive(Debug)]
pub struct Chains<'a> {
    table: &'a Table,
    reader: Reader<'a>,
    figures: ChainFigures,
    spin: Duration,
    together: usize,
    /// Chains that this process starts: the first ones.
    places: usize,
    /// A chain was given up: the process answers from then on.
    is_stuck: bool,
    pool: Option<Arc<Pool<'a>>>,
    /// Of the question that has the place: what the pool has answered.
    found: [Option<Option<Vec<u8>>>; CHAINS],
    // They end in this order: no function is called for a ring that is gone, and no ring has lost its memory.
    ring: Ring,
    _link: Link,
    object: Object,
    memory: Memory,
}

/// A question.
#[derive(Clone, Copy, Debug)]
struct Question<'q> {
    operation: u32,
    bounds: Bounds<'q>,
    field: Option<Field>,
    /// Leaves that are read at once.
    span: u64,
    /// Leaves that it may look at, and whether the range began before these.
    left: u64,
    is_inside: bool,
    /// Number and level of the block to begin with; `None`: the root.
    at: Option<(u64, u32)>,
}

/// A chain that has ended well.
#[derive(Debug)]
struct Answer {
    place: usize,
    chain: bpfdb_table_chain,
}

impl<'a> Chains<'a> {
    /// Loads the program, and has a chain find the first key: if this returns, chains work here.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: this machine, this user or this file system does not allow it, and why.
    pub fn start(table: &'a Table, options: &ChainOptions) -> Result<Self> {
        let pool = match options.pool {
            0 => None,
            // Without one chains run, too: of a table of very many blocks hints alone may be too much.
            bytes => Pool::new(table, bytes).ok().map(Arc::new),
        };
        Self::start_with(table, pool, options)
    }

    /// The same over a pool that others use, too; `options.pool` does not matter.
    ///
    /// # Errors
    /// As [`Chains::start`].
    pub fn start_over(pool: &Arc<Pool<'a>>, options: &ChainOptions) -> Result<Self> {
        Self::start_with(pool.table(), Some(Arc::clone(pool)), options)
    }

    fn start_with(
        table: &'a Table,
        pool: Option<Arc<Pool<'a>>>,
        options: &ChainOptions,
    ) -> Result<Self> {
        let unavailable = |error: String| Error::Unavailable(error);
        let object = bpfdb::open_object(objects::TABLE, "table");
        let mut object = object.map_err(|error| unavailable(error.to_string()))?;
        if let Some(pool) = &pool {
            let shared = pool.share_with(&mut object);
            let has_all =
                shared.map_err(|error| unavailable(format!("cannot share the pool: {error}")))?;
            if !has_all {
                return Err(unavailable("the program has no pool".into()));
            }
        }
        let object = object.load();
        let object =
            object.map_err(|error| unavailable(format!("cannot load the program: {error}")))?;
        let memory = {
            let map = object.maps().find(|map| map.name() == ".bss.table");
            let map = map.ok_or_else(|| unavailable("the program has no memory".into()))?;
            Memory::map(map.as_fd()).map_err(|error| unavailable(error.to_string()))?
        };
        let frames = pool.as_ref().map_or(0, |pool| pool.frames());
        let bell = object.maps().find(|map| map.name() == BELL);
        let bell = bell.ok_or_else(|| unavailable("the program has no bell".into()))?;
        let ring = Ring::create(&memory, table, frames, bell.as_fd(), options)?;
        let link = {
            let program = object
                .progs_mut()
                .find(|program| program.name() == "table_completed");
            let program = program.ok_or_else(|| unavailable("there is no program".into()))?;
            let attached = program.attach_trace();
            attached.map_err(|error| unavailable(format!("cannot attach the program: {error}")))?
        };
        ring.begin()?;
        let places = CHAINS - options.programs_within();
        let mut chains = Self {
            table,
            reader: Reader::new(table),
            figures: ChainFigures::default(),
            spin: options.spin,
            together: options.together.clamp(1, places),
            places,
            is_stuck: false,
            pool,
            found: [const { None }; CHAINS],
            ring,
            _link: link,
            object,
            memory,
        };
        // A chain, not the pool. If others have filled that, no read is tried: one that fails is the process's.
        match chains.one(&get(b"", None)) {
            Some(answer) => chains.leave(answer),
            None => drop(chains.reader.get(b"")?),
        }
        if chains.is_stuck {
            return Err(unavailable("io_uring does not run the program".into()));
        }
        chains.figures = ChainFigures::default();
        Ok(chains)
    }

    /// Gives a program of somebody else what it asks this table by (`bpfdb/table.bpf.h`), before it is loaded. It may ask
    /// for as long as this lives, up to [`ChainOptions::programs`] questions at the same time, and needs nobody here
    /// for that.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: no chains are kept for programs, or the object does not include that header.
    pub fn share_with(&self, object: &mut OpenObject) -> Result<()> {
        let unavailable = |error: String| Error::Unavailable(error);
        if self.places == CHAINS {
            return Err(unavailable("no chains are kept for programs".into()));
        }
        let mut shared = 0;
        for mut map in object.maps_mut() {
            let of_table = |own: &libbpf_rs::Map<'_>| SHARED.iter().any(|name| own.name() == *name);
            let own = self.object.maps().find(|own| own.name() == map.name());
            if let Some(own) = own.filter(of_table) {
                let reused = map.reuse_fd(own.as_fd());
                reused.map_err(|error| unavailable(format!("cannot share a map: {error}")))?;
                shared += 1;
            }
        }
        match shared == SHARED.len() {
            true => Ok(()),
            false => Err(unavailable("the program does not ask tables".into())),
        }
    }

    pub fn figures(&self) -> ChainFigures {
        self.figures
    }

    /// A chain was not heard of for two seconds: the process answers from then on.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut values = self.get_many(&[key])?;
        Ok(values.pop().flatten())
    }

    /// The values of many keys, whose chains run at the same time.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn get_many(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::with_capacity(keys.len());
        let (mut started, mut failed) = (0, None);
        while values.len() < keys.len() {
            let mut is_new = false;
            while started < keys.len() && started - values.len() < self.together {
                is_new |= self.ask_key(started % self.places, keys[started]);
                started += 1;
            }
            if is_new {
                self.knock();
            }
            // The oldest, and all behind it that have ended. After an error, too: their places become free.
            loop {
                let index = values.len();
                let value = self.take_value(index % self.places, keys[index]);
                values.push(value.unwrap_or_else(|error| {
                    failed.get_or_insert(error);
                    None
                }));
                let next = index + 1;
                if next == started || !self.has_ended(next % self.places) {
                    break;
                }
            }
        }
        failed.map_or(Ok(values), Err)
    }

    fn state(&self, place: usize) -> u32 {
        self.memory.state(place).load(Ordering::Acquire)
    }

    /// Whether nothing is to be waited for.
    fn has_ended(&self, place: usize) -> bool {
        self.found[place].is_some() || self.state(place) == abi::BPFDB_TABLE_DONE
    }

    /// Looks into the pool, and makes a chain READY that goes on from there; false: none is needed, or it cannot be
    /// asked.
    fn ask_key(&mut self, place: usize, key: &[u8]) -> bool {
        let mut walk = Walk::new(self.table, key);
        if let Some(pool) = &self.pool {
            let root = walk.level();
            match pool.follow(&mut walk) {
                Ok(Some(value)) => {
                    self.figures.from_pool += 1;
                    self.figures.pooled += u64::from(root) + 1;
                    self.found[place] = Some(value);
                    return false;
                }
                Ok(None) => self.figures.pooled += u64::from(root - walk.level()),
                // The chain finds that, too, and the process words it.
                Err(_) => {}
            }
        }
        self.ask(place, &get(key, Some((walk.number(), walk.level()))))
    }

    fn take_value(&mut self, place: usize, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(value) = self.found[place].take() {
            return Ok(value);
        }
        let Some(answer) = self.wait(place) else {
            self.figures.by_process += 1;
            return self.reader.get(key);
        };
        let chain = &answer.chain;
        if chain.outcome == abi::BPFDB_TABLE_ABSENT {
            self.leave(answer);
            return Ok(None);
        }
        let (at, len) = (chain.value_at as usize, chain.value_len as usize);
        let value = self
            .memory
            .buffer(place)
            .get(at..)
            .and_then(|rest| rest.get(..len));
        let value = value.map(<[u8]>::to_vec);
        self.leave(answer);
        Ok(value)
    }

    /// What is computed of the entries of a range, and of a field of theirs. The entries stay in the kernel.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn aggregate(&mut self, bounds: &Bounds<'_>, field: Option<Field>) -> Result<Aggregate> {
        let mut aggregation = Aggregation::new(bounds, field);
        loop {
            if let Some(aggregate) = self.advance(&mut aggregation, SLICE)? {
                return Ok(aggregate);
            }
        }
    }

    /// The same in slices, each of about so many bytes of leaves; `None`: there is more to be looked at.
    ///
    /// # Errors
    /// As [`Reader::get`]. The aggregation is where it was.
    pub fn advance(
        &mut self,
        aggregation: &mut Aggregation,
        bytes: usize,
    ) -> Result<Option<Aggregate>> {
        let question = Question {
            operation: match aggregation.field {
                None => abi::BPFDB_TABLE_COUNT,
                Some(_) => abi::BPFDB_TABLE_FIELDS,
            },
            bounds: aggregation.bounds(),
            field: aggregation.field,
            span: self.table.span(),
            left: self.table.leaves_of(bytes),
            is_inside: aggregation.next.is_some(),
            at: aggregation.next.map(|leaf| (leaf, 0)),
        };
        let Some(answer) = self.one(&question) else {
            return self.reader.advance(aggregation, bytes);
        };
        let chain = &answer.chain;
        let found = aggregate_of(chain, aggregation.field);
        let next = chain.block + u64::from(chain.reading);
        let outcome = aggregation.note(&found, next, chain.is_over != 0);
        self.leave(answer);
        Ok(outcome)
    }

    /// Hands the entries of a range to `each`, in the order of their keys, until it says false.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn scan(
        &mut self,
        bounds: &Bounds<'_>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        // Of a short range one leaf is enough.
        let (mut leaf, mut span, mut given) = (None, 1, 0);
        loop {
            let question = Question {
                operation: abi::BPFDB_TABLE_SCAN,
                bounds: *bounds,
                field: None,
                span,
                left: span,
                is_inside: false,
                at: leaf.map(|leaf| (leaf, 0)),
            };
            let Some(answer) = self.one(&question) else {
                return self.scan_by_process(bounds, given, each);
            };
            let goes_on = self.give(&answer, bounds, leaf.is_none(), &mut given, each);
            let next = answer.chain.block + u64::from(answer.chain.reading);
            self.leave(answer);
            if !goes_on || next > self.table.about().leaves {
                return Ok(());
            }
            leaf = Some(next);
            span = self.table.span();
        }
    }

    /// The entries of leaves that were read; false: the range ends, or `each` says so.
    fn give(
        &self,
        answer: &Answer,
        bounds: &Bounds<'_>,
        is_first: bool,
        given: &mut u64,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> bool {
        let size = self.table.block_size();
        let leaves = self.memory.buffer(answer.place).chunks_exact(size);
        for (index, leaf) in leaves.take(answer.chain.reading as usize).enumerate() {
            // The program has found its checksum right.
            let leaf = Block::known(leaf);
            let first = if is_first && index == 0 {
                leaf.before(bounds.from)
            } else {
                0
            };
            for index in first..leaf.len() {
                let (key, value) = leaf.key_value(index);
                if !bounds.is_before_end(key) {
                    return false;
                }
                *given += 1;
                if !each(key, value) {
                    return false;
                }
            }
        }
        true
    }

    fn scan_by_process(
        &mut self,
        bounds: &Bounds<'_>,
        given: u64,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let mut scan = self.reader.scan(bounds)?;
        let mut index = 0;
        while let Some((key, value)) = scan.next_entry()? {
            index += 1;
            if index > given && !each(key, value) {
                break;
            }
        }
        Ok(())
    }

    /// Asks one question, and waits; `None`: the process has to find the answer.
    fn one(&mut self, question: &Question<'_>) -> Option<Answer> {
        if self.ask(0, question) {
            self.knock();
        }
        let answer = self.wait(0);
        self.figures.by_process += u64::from(answer.is_none());
        answer
    }

    /// Has chains that are READY begin. If that fails they are given up when they are waited for, so that no
    /// later question is taken for theirs.
    fn knock(&mut self) {
        self.is_stuck |= self.ring.knock().is_err();
    }

    /// Makes a chain READY; false: it cannot be asked.
    fn ask(&mut self, place: usize, question: &Question<'_>) -> bool {
        let Question { bounds, field, .. } = question;
        let to = bounds.to.unwrap_or_default();
        let is_long = bounds.from.len().max(to.len()) > KEY_MAX;
        if self.is_stuck || is_long || self.state(place) != abi::BPFDB_TABLE_FREE {
            return false;
        }
        let about = self.table.about();
        let (block, level) = question.at.unwrap_or((about.root, about.depth - 1));
        let reading = match level {
            0 => question
                .span
                .min(question.left)
                .min(about.leaves + 1 - block),
            _ => 1,
        };
        let chain = self.memory.chain(place);
        // SAFETY: the program reads nothing of a chain that is FREE but its state and its generation, which it
        // compares with that of a chain before.
        unsafe {
            let generation = (&raw const (*chain).generation)
                .read_volatile()
                .wrapping_add(1);
            (&raw mut (*chain).generation).write_volatile(generation);
            (&raw mut (*chain).is_waited).write_volatile(0);
            (&raw mut (*chain).operation).write_volatile(question.operation);
            (&raw mut (*chain).block).write_volatile(block);
            (&raw mut (*chain).level).write_volatile(level);
            (&raw mut (*chain).reading).write_volatile(reading as u32);
            (&raw mut (*chain).span).write_volatile(question.span as u32);
            (&raw mut (*chain).is_inside).write_volatile(question.is_inside.into());
            (&raw mut (*chain).left).write_volatile(question.left);
            (&raw mut (*chain).is_over).write_volatile(0);
            (&raw mut (*chain).reads).write_volatile(0);
            (&raw mut (*chain).pooled).write_volatile(0);
            (&raw mut (*chain).entries).write_volatile(0);
            (&raw mut (*chain).fields).write_volatile(0);
            (&raw mut (*chain).sum).write_volatile(0);
            (&raw mut (*chain).sum_high).write_volatile(0);
            let field_at = field.map_or(0, |field| field.offset);
            (&raw mut (*chain).field_at).write_volatile(field_at);
            let kind = field.map_or(0, |field| field.kind.number());
            (&raw mut (*chain).field_type).write_volatile(kind);
            (&raw mut (*chain).from_len).write_volatile(bounds.from.len() as u32);
            copy(bounds.from, &raw mut (*chain).from);
            let to_len = bounds
                .to
                .map_or(abi::BPFDB_TABLE_NO_END, |to| to.len() as u32);
            (&raw mut (*chain).to_len).write_volatile(to_len);
            copy(to, &raw mut (*chain).to);
        }
        let state = self.memory.state(place);
        state.store(abi::BPFDB_TABLE_READY, Ordering::Release);
        true
    }

    /// Waits for the end of a chain. `None`: it was not started, or has not ended well; its place is free.
    fn wait(&mut self, place: usize) -> Option<Answer> {
        let begun = Instant::now();
        loop {
            match self.state(place) {
                abi::BPFDB_TABLE_DONE => break,
                abi::BPFDB_TABLE_FREE | abi::BPFDB_TABLE_ABANDONED => return None,
                _ if begun.elapsed() < self.spin => std::hint::spin_loop(),
                // Of the others nothing will be heard, either.
                _ if self.is_stuck || begun.elapsed() > PATIENCE => self.give_up(place),
                state => self.sleep(place, state),
            }
        }
        // SAFETY: within the mapping; the program has left it.
        let chain = unsafe { self.memory.chain(place).read_volatile() };
        let answer = Answer { place, chain };
        let is_well = matches!(
            answer.chain.outcome,
            abi::BPFDB_TABLE_FOUND | abi::BPFDB_TABLE_ABSENT
        );
        if !is_well {
            self.leave(answer);
            return None;
        }
        self.figures.chains += 1;
        self.figures.reads += answer.chain.reads;
        self.figures.pooled += answer.chain.pooled;
        Some(answer)
    }

    /// Until the chain's state changes, or for as long as a chain is waited for.
    fn sleep(&self, place: usize, state: u32) {
        self.memory.is_waited(place).store(1, Ordering::SeqCst);
        if self.memory.state(place).load(Ordering::SeqCst) != state {
            return;
        }
        let timeout = rustix::thread::Timespec {
            tv_sec: PATIENCE.as_secs() as i64,
            tv_nsec: 0,
        };
        // Whatever it says, the state is looked at.
        let flags = rustix::thread::futex::Flags::PRIVATE;
        let _ = rustix::thread::futex::wait(self.memory.state(place), flags, state, Some(&timeout));
    }

    /// A chain that nothing was heard of. A read may still write to its buffer.
    fn give_up(&mut self, place: usize) {
        self.is_stuck = true;
        let state = self.memory.state(place);
        for (old, new) in [
            (abi::BPFDB_TABLE_READY, abi::BPFDB_TABLE_FREE),
            (abi::BPFDB_TABLE_RUNNING, abi::BPFDB_TABLE_ABANDONED),
        ] {
            // If it has ended meanwhile, it is seen.
            let _ = state.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// The answer was taken.
    fn leave(&self, answer: Answer) {
        let state = self.memory.state(answer.place);
        state.store(abi::BPFDB_TABLE_FREE, Ordering::Release);
    }
}

/// The look-up of a key from a block on.
fn get(key: &[u8], at: Option<(u64, u32)>) -> Question<'_> {
    Question {
        operation: abi::BPFDB_TABLE_GET,
        bounds: Bounds {
            from: key,
            to: None,
        },
        field: None,
        span: 1,
        left: 1,
        is_inside: false,
        at,
    }
}

/// # Safety
/// `to` is within the mapping, and has room for a key of up to [`KEY_MAX`] bytes.
unsafe fn copy<T>(key: &[u8], to: *mut T) {
    // SAFETY: as said above; the key is no longer than that.
    unsafe { std::ptr::copy_nonoverlapping(key.as_ptr(), to.cast(), key.len()) }
}

fn aggregate_of(chain: &bpfdb_table_chain, field: Option<Field>) -> Aggregate {
    let sum = u128::from(chain.sum_high) << 64 | u128::from(chain.sum);
    let number = |ordered: u64| match field.is_some_and(|field| field.kind.has_sign()) {
        true => i128::from((ordered ^ 1 << 63) as i64),
        false => i128::from(ordered),
    };
    let has_fields = chain.fields > 0;
    Aggregate {
        entries: chain.entries,
        fields: chain.fields,
        sum: sum as i128,
        least: has_fields.then(|| number(chain.least)),
        greatest: has_fields.then(|| number(chain.greatest)),
    }
}
