//! The engine: open → load → attach → session.

use std::os::fd::{AsFd, OwnedFd};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use libbpf_rs::OpenObject;

use crate::claim::Claim;
use crate::clock::Clock;
use crate::cold::ColdValues;
use crate::driver::{Driver, leave_out_later, share_buffers};
use crate::error::{Error, Result, system};
use crate::holders::Holders;
use crate::mapped::Mapped;
use crate::maps::{self, Maps};
use crate::memory::Memory;
use crate::memory::grace::Grace;
use crate::memory::idle::IdleMemory;
use crate::memory::shrink::Shrinker;
use crate::memory::thread::MemoryThread;
use crate::options::{Options, SEGMENT_SIZE, segments_of};
use crate::program;
use crate::random::random;
use crate::stats::Stats;
use crate::time;
use crate::{Status, abi, architecture, objects};

/// A running engine. Cheap to clone; when the last clone and the last session
/// are gone, an engine that is not pinned vanishes with its data.
///
/// One process owns an engine: it adds memory and takes it back, and ends the sessions of
/// programs that are gone. Others attach to it.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) maps: Arc<Maps>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) sessions: Arc<Mapped<abi::bpfdb_session>>,
    pub(crate) slabs: Arc<Mapped<abi::bpfdb_slab>>,
    pub(crate) io: Mapped<[u8; IO_STRIDE]>,
    io_map: OwnedFd,
    pub(crate) free_io: Mutex<Vec<u32>>,
    pub(crate) driver: Arc<Driver>,
    /// The most GETs that found a value, and that did not, that anybody was told of.
    told: [AtomicU64; 2],
    /// Holder of this process's sessions.
    holder: u32,
    owned: Option<Owned>,
    /// What reads cold values.
    pub(crate) cold: OnceLock<Arc<dyn ColdValues>>,
}

/// What only the owner of an engine has.
#[derive(Debug)]
pub(crate) struct Owned {
    // First, so that its thread has ended when the claim does.
    _memory_thread: MemoryThread,
    pub(crate) shrinker: Arc<Shrinker>,
    /// To the folder, once the engine is pinned.
    claim: Mutex<Option<Claim>>,
}

/// What the writer of the log needs to make room: a flush, about.
pub(crate) const LOG_PAUSE: Duration = Duration::from_millis(1);
/// What it takes to give some values to files: a flush, a grace period.
const DEMOTION_PAUSE: Duration = Duration::from_millis(4);
/// What a page needs to be split or merged, about.
const CHANGE_PAUSE: Duration = Duration::from_micros(100);
/// How often an attached process looks whether the owner has added memory.
const ASK_PERIOD: Duration = Duration::from_millis(2);

/// Bytes of one io buffer, with the room behind it.
pub(crate) const IO_STRIDE: usize = (abi::BPFDB_IO_SIZE + abi::BPFDB_IO_PAD) as usize;

impl Engine {
    /// Creates an engine with memory of its own, not pinned.
    pub fn create(options: &Options) -> Result<Self> {
        architecture::check_own()?;
        let maps = Arc::new(Maps::create(options)?);
        Self::start(&load_sharing(&maps)?, maps, options)
    }

    /// The same, while `load` loads objects that join the engine, on another thread; with what
    /// it returns. Most of the time that a start takes is the kernel's verifier, which has one
    /// processor for each thread that loads. No program may be run before the engine is there.
    pub fn create_beside<T: Send>(
        options: &Options,
        load: impl FnOnce(&Joining<'_>) -> T + Send,
    ) -> Result<(Self, T)> {
        architecture::check_own()?;
        let maps = Arc::new(Maps::create(options)?);
        let (object, loaded) = load_beside(&maps, load)?;
        Ok((Self::start(&object, maps, options)?, loaded))
    }

    /// A new engine's memory and first pages.
    fn start(object: &libbpf_rs::Object, maps: Arc<Maps>, options: &Options) -> Result<Self> {
        let clock = Clock::new(Driver::of(object, &maps)?);
        let memory = Memory::new(&maps, options.memory_ahead, clock)?;

        memory.set_limit(segments_of(options.memory_limit));
        memory.set_snapshot_max_age(options.snapshot_max_age);
        seed(&memory)?;
        time::synchronize(&memory)?;
        memory.grow()?;
        check(
            program::find(object, "bpfdb_create")?.run(&[])?,
            "create the engine",
        )?;
        memory.ensure()?;
        start_maintenance(object)?;
        Self::assemble(object, maps, memory)?.own(None)
    }

    /// Opens an engine that was pinned in `folder`, as its owner: claims the folder for
    /// as long as the engine is in use. Sessions of user space and of network connections
    /// that an earlier owner left behind are rolled back, those of other programs that
    /// are gone too; the data is as it was.
    ///
    /// `memory_ahead`: memory to keep ready ahead of need, bytes.
    ///
    /// # Errors
    /// [`Error::Owned`], at once, if the engine has a living owner: [`Engine::attach`].
    /// [`Error::NotPinned`] if there is none.
    pub fn open(folder: &Path, memory_ahead: u64) -> Result<Self> {
        if !Maps::are_pinned(folder) {
            return Err(Error::NotPinned {
                path: folder.to_owned(),
            });
        }
        Self::open_claimed(&Claim::take(folder)?, memory_ahead)
    }

    /// [`Engine::open`] for a caller that has claimed the folder already.
    pub fn open_claimed(claim: &Claim, memory_ahead: u64) -> Result<Self> {
        architecture::check_own()?;
        let maps = Arc::new(Maps::open(claim.folder())?);
        Self::go_on(&load_sharing(&maps)?, maps, claim, memory_ahead)
    }

    /// The same, while `load` loads objects that join the engine, as for
    /// [`Engine::create_beside`].
    pub fn open_claimed_beside<T: Send>(
        claim: &Claim,
        memory_ahead: u64,
        load: impl FnOnce(&Joining<'_>) -> T + Send,
    ) -> Result<(Self, T)> {
        architecture::check_own()?;
        let maps = Arc::new(Maps::open(claim.folder())?);
        let (object, loaded) = load_beside(&maps, load)?;
        Ok((Self::go_on(&object, maps, claim, memory_ahead)?, loaded))
    }

    /// With the data that an earlier owner left.
    fn go_on(
        object: &libbpf_rs::Object,
        maps: Arc<Maps>,
        claim: &Claim,
        memory_ahead: u64,
    ) -> Result<Self> {
        let clock = Clock::new(Driver::of(object, &maps)?);
        let memory = Memory::new(&maps, memory_ahead, clock)?;
        time::synchronize(&memory)?;
        // The timer that runs, if it does, belongs to programs of before.
        start_maintenance(object)?;
        let engine = Self::assemble(object, maps, memory)?.own(Some(claim))?;
        engine.end_eviction()?;
        Ok(engine)
    }

    /// Attaches to an engine that is pinned in `folder` and that another process owns.
    /// Sessions and their buffers are this process's; what it leaves open when it ends is
    /// rolled back by the owner, within a second or two.
    ///
    /// The owner adds memory: an operation that needs some waits for it for a while, then
    /// is [`Status::MemoryPending`]. It waits in vain if there is no owner.
    ///
    /// What is the owner's is [`Error::Attached`] here: changing the memory limit,
    /// pinning, sweeping, reaping. A server runs on its owner's engine only.
    pub fn attach(folder: &Path) -> Result<Self> {
        architecture::check_own()?;
        let maps = Arc::new(Maps::open(folder)?);
        let object = load_sharing(&maps)?;
        let memory = Memory::new(&maps, 0, Clock::new(Driver::of(&object, &maps)?))?;
        let inner = Self::assemble(&object, maps, memory)?;
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    fn assemble(object: &libbpf_rs::Object, maps: Arc<Maps>, memory: Memory) -> Result<Inner> {
        let buffers = maps.config.user_sessions;
        let io = maps::find(object, maps::IO)?;
        Ok(Inner {
            sessions: Arc::new(maps.mapped("sessions", maps.config.sessions)?),
            slabs: Arc::new(maps.mapped("slabs", maps.config.pages_max)?),
            io: Mapped::new(io.as_fd(), buffers as usize, IO_STRIDE)
                .map_err(system("map the io buffers"))?,
            io_map: io
                .as_fd()
                .try_clone_to_owned()
                .map_err(system("keep the io buffers"))?,
            told: Default::default(),
            holder: maps::map_id(io.as_fd())?,
            free_io: Mutex::new((0..buffers).rev().collect()),
            driver: Arc::clone(memory.clock().driver()),
            memory: Arc::new(memory),
            maps,
            cold: OnceLock::new(),
            owned: None,
        })
    }

    /// Is this process the owner of the engine, not merely attached to it?
    pub fn is_owned(&self) -> bool {
        self.inner.owned.is_some()
    }

    /// What its owner may do.
    pub(crate) fn owned(&self, action: &'static str) -> Result<&Owned> {
        let owned = self.inner.owned.as_ref();
        owned.ok_or(Error::Attached { action })
    }

    /// Pins the engine's maps in `folder` of a bpf file system, which is created and
    /// claimed: the data outlives this process until the folder is removed. Once for an
    /// engine: a second folder would be a second owner.
    ///
    /// # Errors
    /// [`Error::Owned`] if another process has the folder; [`Error::Invalid`] if an
    /// engine is pinned there, or this one anywhere.
    pub fn pin(&self, folder: &Path) -> Result<()> {
        self.pin_claimed(&Claim::take(folder)?)
    }

    /// [`Engine::pin`] for a caller that has claimed the folder already.
    pub fn pin_claimed(&self, claim: &Claim) -> Result<()> {
        let owned = self.owned("pin the engine")?;
        let mut held = owned.claim.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = held.as_ref() {
            return Err(Error::Invalid(format!(
                "the engine is pinned already, in {}",
                held.folder().display()
            )));
        }
        self.inner.maps.pin(claim.folder())?;
        *held = Some(claim.clone());
        Ok(())
    }

    /// Is this the engine that is pinned in `folder`? False if none is, or another one, because a
    /// server that was started anew without its data has replaced it. The programs of this process
    /// go on with the old engine, and nothing of that is kept: its log, if it has one, is closed.
    /// To go on with the new one, drop this engine, attach again, and adopt and load the objects
    /// anew. A process that stays attached asks now and then; it takes a few system calls.
    pub fn is_in(&self, folder: &Path) -> Result<bool> {
        self.inner.maps.are_those_of(folder)
    }

    /// Is an engine pinned in `folder`?
    pub fn is_pinned(folder: &Path) -> bool {
        Maps::are_pinned(folder)
    }

    /// Lets an object that includes `bpfdb/bpfdb.bpf.h` join this engine: it gets the engine's
    /// maps and its constants. Call it between open and load.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the object was built with headers of another version, or with
    /// headers that were changed: the first structure and field that differ are named.
    pub fn adopt(&self, object: &mut OpenObject) -> Result<()> {
        self.joining().adopt(object)
    }

    /// The maps of this engine, for objects that join it.
    pub fn joining(&self) -> Joining<'_> {
        Joining {
            maps: &self.inner.maps,
        }
    }

    /// The same for an object whose programs sessions of this process run in their buffers, by
    /// [`Session::run_in_buffer`](crate::Session::run_in_buffer). These programs are the
    /// process's own: what they leave open is rolled back when the process has ended, and no
    /// other process has their program any more.
    pub fn adopt_with_buffers(&self, object: &mut OpenObject) -> Result<()> {
        self.adopt(object)?;
        share_buffers(object, self.inner.io_map.as_fd())
    }

    /// Loads those of the engine's programs that are loaded when they are first needed: for scans and
    /// checkpoints, for eviction and cold values, and for [`Engine::reap`]. For a process that gives up the
    /// right to load programs, or in which no call is to wait for the verifier, for a tenth of a second.
    ///
    /// # Errors
    /// The kernel refuses to load one.
    pub fn load_programs(&self) -> Result<()> {
        self.inner.driver.load_all()
    }

    /// Loads those of them that eviction and cold values need. A caller that evicts does this before memory is
    /// full: it takes a fifth of a second, meanwhile writes take what is left, and while a snapshot runs
    /// what is evicted needs some memory itself. Does nothing the next time.
    ///
    /// # Errors
    /// The kernel refuses to load one.
    pub fn prepare_eviction(&self) -> Result<()> {
        let driver = &self.inner.driver;
        driver.prepare(abi::BPFDB_DRIVER_SAMPLE)?;
        driver.prepare(abi::BPFDB_DRIVER_EVICTION_REQUESTS)
    }

    /// Are both handles clones of each other?
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The configuration that the programs were verified with.
    pub fn config(&self) -> abi::bpfdb_config {
        self.inner.maps.config
    }

    /// Opens a session for [`Engine::borrow_session`]; its index, or `None` if
    /// all are taken. To be closed by [`Engine::close_session`].
    pub fn open_session(&self) -> Result<Option<u32>> {
        let index = self
            .inner
            .driver
            .run(abi::BPFDB_DRIVER_OPEN, &[self.inner.holder.into()])? as i32;
        Ok(u32::try_from(index).ok())
    }

    /// Rolls back what the session has open, and frees it. One that this process did not
    /// open stays as it is.
    pub fn close_session(&self, index: u32) -> Result<()> {
        let holder = self.inner.holder;
        self.inner
            .driver
            .run(abi::BPFDB_DRIVER_CLOSE, &[index.into(), holder.into()])
            .map(drop)
    }

    /// Counters, without those that sessions keep: quick.
    pub fn counters(&self) -> Result<abi::bpfdb_counters> {
        crate::stats::counters(&self.inner.maps)
    }

    /// Bytes that the data takes, as [`Stats::memory_used`] of a second ago at most: quick.
    pub fn memory_used(&self) -> u64 {
        self.inner.memory.used()
    }

    /// Gauges and counters.
    pub fn stats(&self) -> Result<Stats> {
        let inner = &self.inner;
        let mut stats = Stats::take(
            &inner.maps,
            &inner.memory.state(),
            &inner.slabs,
            &inner.sessions,
        )?;
        // What an attempt has read is taken back when it is repeated; a caller that subtracts an earlier figure
        // must not see that.
        for (told, now) in inner
            .told
            .iter()
            .zip([&mut stats.gets_found, &mut stats.gets_missed])
        {
            *now = told.fetch_max(*now, Ordering::Relaxed).max(*now);
        }
        Ok(stats)
    }

    /// Prunes every version and removes every deleted record that no running
    /// snapshot needs, and gives empty slabs and index pages back. The engine does
    /// this by itself, in small steps and when memory is short.
    pub fn sweep(&self) -> Result<()> {
        // Not beside the owner: the process that releases a page must know when it was retired.
        let shrinker = &self.owned("sweep the engine")?.shrinker;
        shrinker.clean(&self.inner.memory)
    }

    /// The same, done by the memory thread in the course of some milliseconds, or of
    /// seconds in a large engine. The number to ask [`Engine::was_swept`] with.
    ///
    /// # Errors
    /// As [`Engine::sweep`], but for those of the work itself: they are logged.
    pub fn sweep_later(&self) -> Result<u64> {
        self.owned("sweep the engine")?;
        Ok(self.inner.memory.ask_to_sweep())
    }

    /// Is the sweep of [`Engine::sweep_later`] over?
    pub fn was_swept(&self, number: u64) -> bool {
        self.inner.memory.was_swept(number)
    }

    /// Removes records that are deleted or expired and that no reader needs any more, step by
    /// step: those in some pages from `first` on, at first 0. The page to go on with; 0 at
    /// the end. The engine does this by itself, in the course of seconds.
    pub fn clear_away(&self, first: u64) -> Result<u64> {
        let shrinker = &self.owned("clear the engine")?.shrinker;
        shrinker.sweep_some(&self.inner.memory, first)
    }

    /// The clock that expiry goes by: UNIX time, milliseconds, as the programs have
    /// it. A step of the system's clock by more than 0.1 s counts from its third second
    /// on; one that is taken back before never does.
    pub fn now_ms(&self) -> u64 {
        time::now(&self.inner.memory)
    }

    /// For tests: stops the clock of expiry at `time`, or lets it go on (0).
    #[doc(hidden)]
    pub fn stop_clock(&self, time: u64) {
        time::stop(&self.inner.memory, time);
    }

    /// For tests: another user is in the session `index`, as the reaper at times, or no more.
    #[doc(hidden)]
    pub fn occupy_session(&self, index: u32, occupied: bool) {
        let session = self.inner.sessions.at(index as usize);
        // SAFETY: points into the mapping of the sessions, which lives as long as self.
        unsafe { (&raw mut (*session).busy).write_volatile(occupied.into()) };
    }

    /// Rolls back idle transactions now; the engine does it by itself.
    pub fn reap(&self) -> Result<()> {
        self.owned("roll back idle transactions")?;
        self.inner.driver.run(abi::BPFDB_DRIVER_REAP, &[]).map(drop)
    }

    /// The engine's number in the kernel, which no other one has until the machine is booted again.
    ///
    /// # Errors
    /// The kernel does not tell it.
    pub fn id(&self) -> Result<u32> {
        maps::map_id(self.inner.maps.fd(maps::STATE))
    }

    /// Most memory for records and index, bytes.
    pub fn memory_limit(&self) -> u64 {
        self.inner.memory.limit() * SEGMENT_SIZE
    }

    /// Most that the limit may be, bytes; fixed when the engine was created.
    pub fn memory_limit_max(&self) -> u64 {
        u64::from(self.inner.maps.config.segments_max) * SEGMENT_SIZE
    }

    /// Changes the limit: `bytes` are rounded up to whole segments, two at least. Memory
    /// that was added stays with the engine. Below what is in use, an operator that needs more gets
    /// `OUT_OF_MEMORY` until enough was deleted.
    pub fn set_memory_limit(&self, bytes: u64) -> Result<()> {
        self.owned("change the memory limit")?;
        let most = self.memory_limit_max();
        if bytes > most {
            return Err(Error::Invalid(format!(
                "the memory limit is {bytes}, may be {most} at most"
            )));
        }
        self.inner.memory.set_limit(segments_of(bytes));
        Ok(())
    }

    /// From what age on a read-only transaction may be ended if it is in the way of a
    /// writer or of memory; see [`Options::snapshot_max_age`].
    pub fn set_snapshot_max_age(&self, age: Duration) {
        self.inner.memory.set_snapshot_max_age(age);
    }

    /// [`Shrinker::make_room_for`], by this thread.
    pub(crate) fn make_room_for(&self, bytes: u64) {
        let memory = &self.inner.memory;
        // The owner does it by itself when memory is short.
        let Some(Owned { shrinker, .. }) = &self.inner.owned else {
            return;
        };
        // Whether there is room now, SET will see.
        if let Err(error) = shrinker.make_room_for(bytes, memory) {
            tracing::warn!(%error, "cannot look for memory");
        }
    }

    /// Asks the owner's memory thread to add memory, after `MEMORY_PENDING`, and does not
    /// wait for it: try again a millisecond later.
    pub fn ask_for_memory(&self) {
        self.inner.memory.ask();
    }

    /// Adds memory now, if the limit allows: after `MEMORY_PENDING`. On an engine that
    /// is attached asks the owner for it, and says false. Takes milliseconds, and waits
    /// for a grace period of RCU; [`Engine::ask_for_memory`] does not.
    pub fn grow(&self) -> Result<bool> {
        if self.is_owned() {
            return self.inner.memory.grow();
        }
        self.inner.memory.ask();
        Ok(false)
    }

    /// After `MEMORY_PENDING`, before the operation is tried again.
    pub(crate) fn await_memory(&self) {
        let added = self.grow().unwrap_or(false);
        if !self.is_owned() {
            thread::sleep(ASK_PERIOD);
        } else if !added && self.is_demoting() {
            thread::sleep(DEMOTION_PAUSE);
        } else if !added && self.log_holds_memory() {
            thread::sleep(LOG_PAUSE);
        } else {
            // Perhaps there was memory all the time, and another program is splitting or merging a
            // page, which may not have a processor.
            thread::sleep(CHANGE_PAUSE);
        }
    }

    /// Values are going to files.
    fn is_demoting(&self) -> bool {
        let state = self.inner.memory.state_pointer();
        // SAFETY: the mapping lives as long as self.
        unsafe { (&raw const (*state).demoting.value).read_volatile() > 0 }
    }

    /// Large values without a holder stay until the log is on the disk.
    fn log_holds_memory(&self) -> bool {
        let state = self.inner.memory.state_pointer();
        // SAFETY: the mapping lives as long as self.
        unsafe { (&raw const (*state).log_holds.value).read_volatile() > 0 }
    }

    /// Waits until every program that runs now has ended: some ten milliseconds, longer on a
    /// busy machine.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn wait_for_readers(&self) -> Result<()> {
        match &self.inner.owned {
            Some(owned) => owned.shrinker.wait_for_readers(),
            None => Grace::new()?.wait(),
        }
    }

    pub(crate) fn take_io(&self) -> Option<u32> {
        self.inner
            .free_io
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
    }

    pub(crate) fn give_io(&self, io: u32) {
        self.inner
            .free_io
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(io);
    }
}

impl Inner {
    /// Makes this process the owner; the caller has seen to it that there is no other.
    fn own(mut self, claim: Option<&Claim>) -> Result<Engine> {
        let holders = Holders::new(&self.sessions, &self.driver, self.holder);
        let shrinker = Arc::new(Shrinker::new(&self.driver, &self.slabs)?);

        let idle = IdleMemory::new(Arc::clone(&self.slabs));

        if claim.is_some() {
            holders.close_orphans(&self.memory, || shrinker.wait_for_readers())?;
            shrinker.take_over(&self.memory)?;
        }
        self.memory.set_owner(self.holder);
        self.owned = Some(Owned {
            _memory_thread: MemoryThread::start(&self.memory, &shrinker, holders, idle)?,
            shrinker,
            claim: Mutex::new(claim.cloned()),
        });
        Ok(Engine {
            inner: Arc::new(self),
        })
    }
}

/// The maps of an engine, whose own programs may not be loaded yet.
#[derive(Clone, Copy, Debug)]
pub struct Joining<'a> {
    maps: &'a Maps,
}

impl Joining<'_> {
    /// [`Engine::adopt`].
    pub fn adopt(&self, object: &mut OpenObject) -> Result<()> {
        self.maps.share_with(object)
    }

    /// [`Engine::config`].
    pub fn config(&self) -> abi::bpfdb_config {
        self.maps.config
    }
}

/// The engine's programs, and what `load` returns, which runs meanwhile.
fn load_beside<T: Send>(
    maps: &Maps,
    load: impl FnOnce(&Joining<'_>) -> T + Send,
) -> Result<(libbpf_rs::Object, T)> {
    thread::scope(|scope| {
        let other = thread::Builder::new()
            .name("bpfdb-load".into())
            .spawn_scoped(scope, move || load(&Joining { maps }))
            .map_err(system("start a thread that loads programs"))?;
        let object = load_sharing(maps);
        let loaded = other.join().unwrap_or_else(|panic| resume_unwind(panic));
        Ok((object?, loaded))
    })
}

/// The engine's programs on the maps of an engine that exists, without those that are loaded later.
fn load_sharing(maps: &Maps) -> Result<libbpf_rs::Object> {
    let mut object = program::open_object(objects::ENGINE, "engine")?;
    maps.share_with(&mut object)?;
    leave_out_later(&mut object);
    program::load(object, "the engine")
}

/// Draws the secrets of the hash function, so that nobody can aim keys at one place
/// of the index, and of the log, so that nobody can forge a record.
fn seed(memory: &Memory) -> Result<()> {
    // SAFETY: words only, for which every pattern of bits is a value.
    let (mut hash, mut log) = unsafe {
        (
            random::<abi::bpfdb_hash_secrets>()?,
            random::<abi::bpfdb_log_secrets>()?,
        )
    };
    // Odd, so that multiplying by them loses nothing.
    hash.finish.iter_mut().for_each(|word| *word |= 1);
    log.factor |= 1;
    let state = memory.state_pointer();

    // SAFETY: the mapping lives as long as memory; no program runs yet.
    unsafe {
        (&raw mut (*state).hash).write_volatile(hash);
        (&raw mut (*state).log).write_volatile(log);
    }
    Ok(())
}

/// The kernel allocates a timer without waiting for memory, which may fail on a
/// busy machine and succeed a moment later.
fn start_maintenance(object: &libbpf_rs::Object) -> Result<()> {
    const TRIES: u32 = 50;
    let program = program::find(object, "bpfdb_timer_start")?;
    let mut code = program.run(&[])?;
    for _ in 1..TRIES {
        if code != Status::MemoryPending.code() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
        code = program.run(&[])?;
    }
    check(code, "start maintenance")
}

fn check(code: u32, action: &str) -> Result<()> {
    match Status::from_code(code) {
        Some(Status::Ok) => Ok(()),
        Some(status) => Err(Error::Engine(status)),
        None => Err(Error::Invalid(format!(
            "cannot {action}: unknown status {code}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs that most sessions do without are loaded by the first call that needs them.
    #[test]
    fn programs_are_loaded_when_they_are_needed() {
        let engine = Engine::create(&Options::default()).expect("an engine");
        let loaded = || engine.inner.driver.loaded_later();
        let mut session = engine.session().expect("a session");
        for len in [1, 100_000] {
            session.set(b"k", &vec![7; len]).expect("set");
            assert_eq!(session.get(b"k"), Ok(Some(vec![7; len])));
        }
        assert!(session.delete(b"k").expect("deleted"));
        assert_eq!(loaded(), [""; 0]);
        assert_eq!(session.scan(0, 1), Ok((0, Vec::new())));
        assert_eq!(loaded(), ["bpfdb_run_walks"]);
        engine.reap().expect("nothing is idle");
        assert_eq!(loaded(), ["bpfdb_run_reaper", "bpfdb_run_walks"]);
        engine.load_programs().expect("loaded");
        let all: Vec<&str> = crate::driver::LATER.iter().map(|(name, _)| *name).collect();
        assert_eq!(loaded(), *all);
    }
}
