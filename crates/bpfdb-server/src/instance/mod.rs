//! What the daemon knows about itself: settings, statistics, what was slow, what is
//! paused. There is one for each server; commands find it in their context.

pub(crate) mod databases;
pub(crate) mod expiring;
pub(crate) mod log;
pub(crate) mod page_cache;
pub(crate) mod pause;
pub(crate) mod rate_limiter;
pub(crate) mod subscriptions;
pub(crate) mod users;
pub(crate) mod waiting;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use bpfdb::{ChangeNotes, Engine, Stats, Status};
use bpfdb_tier::Tier;

use self::databases::Databases;
use self::expiring::Expiring;
use self::log::Log;
use self::page_cache::PageCache;
use self::pause::Pause;
use self::rate_limiter::RateLimiter;
use self::subscriptions::Subscriptions;
use self::users::Users;
use self::waiting::Waiting;
use crate::connection::info::ConnectionInfo;
use crate::connection::subscribed::Kind;
use crate::error::Result;
use crate::eviction::{Evictor, Rules};
use crate::io::bell::Bell;
use crate::io::descriptors;
use crate::io::stopper::Stopper;
use crate::kernel::apart::{self, ProgramLoader};
use crate::kernel::connections::KernelConnections;
use crate::kernel::flags::KernelFlags;
use crate::kernel::procedures::KernelProcedures;
use crate::kernel::programs::Programs;
use crate::kernel::waiting::KernelWaiting;
use crate::kernel::{park, prefetch};
use crate::scripting::functions::Functions;
use crate::scripting::procedures::Procedures;
use crate::scripting::scripts::Scripts;
use crate::settings::Options;
use crate::settings::parameters::Parameters;
use crate::settings::{
    Change, ConfigFile, Durability, EventClass, LogLevel, OutputLimit, Settings, memory,
};
use crate::stats::kernel_counters::KernelCounters;
use crate::stats::latency::Latency;
use crate::stats::rate::Rate;
use crate::stats::slowlog::{Slowlog, unix_seconds};
use crate::stats::statistics::Statistics;
use crate::tables::Tables;

/// Kinds of errors that are told apart; Redis too gives up at some number.
const ERROR_KINDS_MAX: usize = 128;

#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) settings: Settings,
    pub(crate) file: Option<ConfigFile>,
    set_log_level: fn(LogLevel),
    pub(crate) users: Users,
    kernel_flags: KernelFlags,
    pub(crate) databases: Databases,
    /// What the kernel does with the connections.
    pub(crate) kernel: Rc<KernelConnections>,
    /// Of the programs that the kernel lacks at first.
    pub(crate) loader: ProgramLoader,
    pub(crate) large_loader: ProgramLoader,
    /// Of the programs that have cold values read; `None`: there is no tier.
    pub(crate) prefetch_loader: Option<ProgramLoader>,
    /// Of those that answer GETs of them.
    pub(crate) park_loader: Option<ProgramLoader>,
    pub(crate) log: Log,
    pub(crate) page_cache: PageCache,
    pub(crate) evictor: Evictor,
    /// Cold values, if there may be any.
    pub(crate) tier: Option<Arc<Tier>>,
    /// Tables that clients ask.
    pub(crate) tables: Tables,
    pub(crate) pause: Pause,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) waiting: Waiting,
    /// For the event `expired`.
    pub(crate) expiring: Expiring,
    /// Those that are shown every request, by the index of their session.
    pub(crate) monitors: BTreeSet<u32>,
    pub(crate) scripts: Scripts,
    pub(crate) functions: Functions,
    pub(crate) procedures: Procedures,
    turn: Rc<()>,
    long_block: Rc<()>,
    /// What was set of Redis's parameters that are no settings.
    pub(crate) parameters: Parameters,
    pub(crate) stopper: Stopper,
    pub(crate) address: SocketAddr,
    pub(crate) metrics_address: Option<SocketAddr>,
    /// Another one at every start, in 40 hexadecimal digits.
    pub(crate) run_id: String,
    /// Seconds since 1970.
    pub(crate) started: u64,
    pub(crate) statistics: Arc<Statistics>,
    /// What the kernel had counted when counting began.
    base: KernelCounters,
    pub(crate) slowlog: Slowlog,
    pub(crate) latency: Latency,
    /// Error replies by their first word.
    pub(crate) errors: BTreeMap<String, u64>,
    /// The next one that is to be counted was: a script passes on what a command said to it.
    pub(crate) error_is_counted: bool,
    pub(crate) rate: Rate,
    /// Bytes that came in, and went out.
    pub(crate) input_rate: Rate,
    pub(crate) output_rate: Rate,
    /// Most memory that was seen in use, and that at the start.
    memory_peak: Cell<u64>,
    pub(crate) memory_at_start: u64,
    /// Most that was kept for connections since free memory was given back.
    pub(crate) client_memory_most: u64,
    pub(crate) refused_limiter: RateLimiter,
    pub(crate) wrong_password_limiter: RateLimiter,
    pub(crate) http_limiter: RateLimiter,
    /// Clients that there are sessions and descriptors for.
    pub(crate) clients_max: u32,
}

impl Instance {
    pub(crate) fn new(
        engine: &Engine,
        options: &Options,
        programs: &Programs,
        address: SocketAddr,
        statistics: Arc<Statistics>,
        base: KernelCounters,
        bell: &Bell,
    ) -> Result<Self> {
        // Their descriptors are not among those that are left for clients.
        let loader = ProgramLoader::new(programs, apart::COMMANDS)?;
        let large_loader = ProgramLoader::new(programs, apart::LARGE)?;
        let tier = options.tier.as_ref().filter(|_| options.settings.tier);
        let prefetch_loader = tier.map(|tier| prefetch::loader(programs, tier));
        let park_loader = tier.map(|tier| park::loader(programs, tier));
        let clients_max = programs
            .connections
            .len()
            .min(descriptors::clients_max())
            .max(1);
        if options.settings.max_clients > clients_max {
            let wanted = options.settings.max_clients;
            tracing::warn!(clients_max, wanted, "fewer clients than maxclients says");
        }
        let mut settings = options.settings.clone();
        settings.max_clients = settings.max_clients.min(clients_max);
        settings.append_only = options.log.is_some();
        let databases = Databases::read(&mut engine.session()?, settings.databases as usize)?;
        let procedures = Procedures::new(
            engine,
            KernelProcedures::of(engine, programs)?,
            programs.shared_maps()?,
            bell,
            settings.compile_procedures,
        )?;
        let mut instance = Self {
            settings,
            file: options.file.clone(),
            set_log_level: options.set_log_level,
            users: Users::new(&options.settings.require_pass.0),
            kernel_flags: programs.flags()?,
            databases,
            kernel: Rc::clone(&programs.connections),
            loader,
            large_loader,
            prefetch_loader: prefetch_loader.transpose()?,
            park_loader: park_loader.transpose()?,
            log: Log::new(options.log.clone(), options.loaded, bell),
            page_cache: PageCache::default(),
            evictor: Evictor::start(engine, Rules::of(&options.settings), bell)?,
            tier: options.tier.clone(),
            tables: Tables::new(tables_folder(&options.settings), bell),
            pause: Pause::default(),
            subscriptions: Subscriptions::default(),
            waiting: Waiting::new(KernelWaiting::map(programs)?),
            expiring: Expiring::default(),
            monitors: BTreeSet::new(),
            scripts: Scripts::default(),
            functions: Functions::new(&statistics),
            procedures,
            turn: Rc::new(()),
            long_block: Rc::new(()),
            parameters: Parameters::default(),
            stopper: Stopper::new()?,
            address,
            metrics_address: None,
            run_id: random_id(),
            started: unix_seconds(),
            statistics,
            base,
            slowlog: Slowlog::default(),
            latency: Latency::default(),
            errors: BTreeMap::new(),
            error_is_counted: false,
            rate: Rate::default(),
            input_rate: Rate::default(),
            output_rate: Rate::default(),
            memory_peak: Cell::new(0),
            memory_at_start: 0,
            client_memory_most: 0,
            refused_limiter: RateLimiter::default(),
            wrong_password_limiter: RateLimiter::default(),
            http_limiter: RateLimiter::default(),
            clients_max,
        };
        instance.tell_kernel_who_is_met_first()?;
        instance.tell_kernel_who_answers()?;
        instance.note_subscriptions();
        instance.look_at_expiring(false);
        Ok(instance)
    }

    /// Has the kernel begin reads of cold values, or leave all of them to the daemon, as the settings say. What it needs for
    /// them is made by a thread of its own, the first time.
    pub(crate) fn tell_who_reads(&self) {
        if let (Some(tier), Some(loader)) = (&self.tier, &self.prefetch_loader) {
            tier.enable_prefetch(self.settings.tier_prefetch);
            if self.settings.tier_prefetch {
                loader.ask();
            }
        }
        if let (Some(tier), Some(loader)) = (&self.tier, &self.park_loader) {
            tier.enable_park(self.settings.tier_kernel_gets);
            if self.settings.tier_kernel_gets {
                loader.ask();
            }
        }
    }

    /// May values be read for this client before it asks for them? Of subscribers and monitors the daemon refuses
    /// most commands on keys.
    pub(crate) fn may_prefetch(&self, connection: &ConnectionInfo) -> bool {
        self.admits(connection) && !connection.subscribed.is_any() && !connection.is_monitor
    }

    /// May this client do more than authenticate?
    pub(crate) fn admits(&self, connection: &ConnectionInfo) -> bool {
        connection.authenticated || !self.users.must_authenticate()
    }

    /// So many bytes are in use. The most that were seen: no client is shown more than that.
    pub(crate) fn see_memory(&self, used: u64) -> u64 {
        self.memory_peak.set(self.memory_peak.get().max(used));
        self.memory_peak.get()
    }

    /// For the metrics, which others scrape.
    pub(crate) fn note_tables(&self) {
        let open = self.tables.len() as u64;
        self.statistics.numbers.tables_open.set(open);
    }

    /// Makes these the settings. What only a start can change stays as it is.
    ///
    /// # Errors
    /// The kernel cannot be told: the settings are the old ones.
    pub(crate) fn change(&mut self, settings: Settings) -> Result<()> {
        let old = std::mem::replace(&mut self.settings, settings);
        if let Err(error) = self.tell_kernel(&old) {
            self.settings = old;
            self.users = Users::new(&self.settings.require_pass.0);
            // It may know a part of them.
            let _ = self.tell_kernel_who_is_met_first();
            let _ = self.tell_kernel_who_answers();
            let _ = self.evictor.set_rules(Rules::of(&self.settings));
            return Err(error);
        }
        self.look_at_expiring(old.keyspace_events.publishes(EventClass::Expired));
        let new = &self.settings;
        self.procedures.enable(new.compile_procedures);
        if new.retention() != old.retention() {
            self.log.set_retention(new.retention());
        }
        if new.log_level != old.log_level {
            (self.set_log_level)(new.log_level);
        }
        for setting in crate::settings::SETTINGS {
            let value = setting.show(new);
            if value == setting.show(&old) {
                continue;
            }
            debug_assert_eq!(setting.change, Change::Now);
            let name = setting.name;
            if name == "requirepass" {
                tracing::info!(name, "a setting was changed");
            } else {
                tracing::info!(name, value, "a setting was changed");
            }
        }
        Ok(())
    }

    /// The daemon is the first to answer a new client if it must authenticate that, or if database 0 is
    /// another one in the engine, of which the kernel does not know yet.
    fn tell_kernel_who_is_met_first(&self) -> Result<()> {
        let is_daemon = self.users.must_authenticate() || self.databases.has_moved_first();
        self.kernel_flags.meet_first(is_daemon)
    }

    /// SWAPDB, once it is committed: every client finds the other keys under the number that it has
    /// chosen.
    pub(crate) fn swap_databases(&mut self, first: usize, second: usize) -> Result<()> {
        self.databases.swap(first, second);
        self.tell_kernel_who_is_met_first()
    }

    /// What concerns the kernel of settings that were others before.
    fn tell_kernel(&mut self, old: &Settings) -> Result<()> {
        let new = &self.settings;
        if new.require_pass != old.require_pass {
            self.users = Users::new(&new.require_pass.0);
            // Before any reply: a client that connects then finds it closed.
            self.tell_kernel_who_is_met_first()?;
        }
        if new.max_memory != old.max_memory
            || new.append_fsync != old.append_fsync
            || new.keyspace_events != old.keyspace_events
        {
            self.tell_kernel_who_answers()?;
        }
        let rules = Rules::of(new);
        if rules != self.evictor.rules() {
            self.evictor.set_rules(rules)?;
        }
        Ok(())
    }

    /// CLIENT PAUSE. The kernel hears of it first: it passes all requests, and the
    /// daemon lets wait what must.
    ///
    /// # Errors
    /// The kernel's flag cannot be set: no client pauses.
    pub(crate) fn pause(&mut self, length: Duration, all: bool) -> Result<()> {
        self.kernel_flags.pass_everything(true)?;
        self.pause.begin(Instant::now(), length, all);
        Ok(())
    }

    pub(crate) fn unpause(&mut self) {
        self.pause.end();
        self.let_kernel_answer();
    }

    /// From here on the kernel passes all requests, and no program runs that has begun before:
    /// [`Instance::let_kernel_answer`] ends that. Takes some ten milliseconds.
    pub(crate) fn keep_kernel_from_answering(&self, engine: &Engine) -> Result<()> {
        self.kernel_flags.pass_everything(true)?;
        engine.wait_for_readers()?;
        Ok(())
    }

    /// What kept the kernel from it is over, perhaps.
    pub(crate) fn let_kernel_answer(&self) {
        if let Err(error) = self.tell_kernel_who_answers() {
            // The daemon answers what the kernel passes.
            tracing::error!(%error, "the kernel answers nothing");
        }
    }

    /// May clients be served whose keys were written? Not during CLIENT PAUSE: they would write.
    pub(crate) fn may_serve_waiters(&self) -> bool {
        !self.pause.is_on()
    }

    /// Is a client to be served that waits for a key, before anything else is executed?
    pub(crate) fn has_to_serve_waiters(&self) -> bool {
        self.waiting.has_ready() && self.may_serve_waiters()
    }

    /// Is `maxmemory` less than any data takes? The kernel leaves everything to the daemon
    /// then.
    pub(crate) fn refuses_writes(&self) -> bool {
        memory::is_too_little(self.settings.max_memory)
    }

    /// How much may wait for this client to read it.
    pub(crate) fn output_limit(&self, connection: &ConnectionInfo) -> OutputLimit {
        let limits = self.settings.output_limit;
        // One that has said MONITOR is sent what others do, as those that listen are.
        if connection.subscribed.is_any() || connection.is_monitor {
            limits.pubsub
        } else {
            limits.normal
        }
    }

    /// MONITOR. The kernel hears of it first: it passes all requests.
    ///
    /// # Errors
    /// The kernel does not take the switch: some requests would not be shown.
    pub(crate) fn add_monitor(&mut self, index: u32) -> Result<()> {
        self.kernel_flags.pass_everything(true)?;
        self.monitors.insert(index);
        Ok(())
    }

    /// A connection has ended, or wants to hear nothing any more.
    pub(crate) fn forget(&mut self, index: u32) {
        self.subscriptions.forget(index);
        self.note_subscriptions();
        if self.monitors.remove(&index) {
            self.let_kernel_answer();
        }
    }

    /// A client is about to subscribe to something: the kernel hears of it first, and leaves PUBLISH to the
    /// daemon.
    ///
    /// # Errors
    /// The kernel does not take the switch: messages would be lost.
    pub(crate) fn expect_messages(&self) -> Result<()> {
        self.kernel_flags.has_audience(true)
    }

    /// For the metrics, which others scrape, and for the kernel, which answers PUBLISH while nobody listens.
    pub(crate) fn note_subscriptions(&self) {
        let (statistics, all) = (&self.statistics, &self.subscriptions);
        if all.connections() == 0
            && let Err(error) = self.kernel_flags.has_audience(false)
        {
            // The daemon answers what the kernel passes.
            tracing::error!(%error, "the kernel does not publish");
        }
        for (number, value) in [
            (&statistics.numbers.subscribers, all.connections()),
            (&statistics.numbers.channels, all.len(Kind::Channel)),
            (&statistics.numbers.patterns, all.len(Kind::Pattern)),
            (&statistics.numbers.shard_channels, all.len(Kind::Shard)),
        ] {
            number.set(value as u64);
        }
    }

    /// Does the daemon answer everything?
    pub(crate) fn keeps_connections(&self) -> bool {
        self.pause.is_on()
            || !self.monitors.is_empty()
            || self.refuses_writes()
            || self.is_sync(None)
            || self.settings.keyspace_events.is_any()
    }

    /// What is noted of keys, for their events.
    pub(crate) fn change_notes(&self) -> ChangeNotes {
        let events = self.settings.keyspace_events;
        ChangeNotes {
            writes: events.is_any(),
            new_keys: events.publishes(EventClass::New),
            misses: events.publishes(EventClass::Miss),
        }
    }

    /// Times to expire are known while the event `expired` is published; `were_known` before.
    fn look_at_expiring(&mut self, were_known: bool) {
        let events = self.settings.keyspace_events;
        let are_known = events.publishes(EventClass::Expired);
        self.evictor
            .want_gone(are_known || events.publishes(EventClass::Evicted));
        match (were_known, are_known) {
            (false, true) => self.expiring.begin(),
            (true, false) => self.expiring.clear(),
            _ => {}
        }
    }

    /// Has a write been refused because memory is full? Also after it has waited in vain for something to
    /// be evicted, or for what is left of large collections to go.
    pub(crate) fn lacks_memory(&self, status: Status) -> bool {
        match status {
            Status::OutOfMemory => true,
            Status::MemoryPending => self.evictor.may_be_full(),
            _ => false,
        }
    }

    fn tell_kernel_who_answers(&self) -> Result<()> {
        self.kernel_flags
            .pass_everything(self.keeps_connections())?;
        // A pause ends, and memory is made room for; this lasts.
        self.kernel_flags.leave_alone(self.is_sync(None))
    }

    /// Does a client that has chosen this wait for what it is told to be durable?
    pub(crate) fn is_sync(&self, chosen: Option<Durability>) -> bool {
        let durability = chosen.unwrap_or(self.settings.append_fsync.durability());
        self.log.is_there() && durability == Durability::Sync
    }

    /// For commands that take so much memory that only one may at a time; no
    /// other one gets it while the result lives.
    pub(crate) fn turn(&self) -> Option<Rc<()>> {
        (Rc::strong_count(&self.turn) == 1).then(|| Rc::clone(&self.turn))
    }

    /// For a MULTI … EXEC that holds locks while others are served: one at a time, while
    /// the result lives.
    pub(crate) fn long_block(&self) -> Option<Rc<()>> {
        (!self.has_long_block()).then(|| Rc::clone(&self.long_block))
    }

    pub(crate) fn has_long_block(&self) -> bool {
        Rc::strong_count(&self.long_block) > 1
    }

    /// When the data was saved last, in seconds of UNIX time.
    pub(crate) fn last_save(&self) -> u64 {
        let last = self.log.checkpoint_status().and_then(|status| status.last);
        let finished = last.and_then(|last| last.finished.duration_since(UNIX_EPOCH).ok());
        finished.map_or(self.started, |since| since.as_secs())
    }

    /// What the kernel has counted since counting began.
    pub(crate) fn kernel_counters(&self, stats: &Stats) -> KernelCounters {
        KernelCounters::of(stats).since(&self.base)
    }

    /// CONFIG RESETSTAT: counting begins.
    pub(crate) fn reset_statistics(&mut self, stats: &Stats) {
        self.base = KernelCounters::of(stats);
        self.statistics.reset();
        self.errors.clear();
    }

    /// Takes note of an error reply: of a command to a script, too. One that the script passes on
    /// is not another one.
    pub(crate) fn count_error(&mut self, reply: &[u8]) {
        if std::mem::take(&mut self.error_is_counted) {
            return;
        }
        self.statistics.numbers.error_replies.increment();
        let word = reply.split(|&byte| byte == b' ').next().unwrap_or_default();
        let kind = String::from_utf8_lossy(&word[..word.len().min(32)]);
        if let Some(count) = self.errors.get_mut(&*kind) {
            *count += 1;
        } else if self.errors.len() < ERROR_KINDS_MAX {
            self.errors.insert(kind.into_owned(), 1);
        }
    }

    /// Takes note of how long a command took.
    pub(crate) fn observe(
        &mut self,
        time: Duration,
        words: &[Vec<u8>],
        peer: impl FnOnce() -> String,
        name: &[u8],
    ) {
        let settings = &self.settings;
        self.latency
            .observe("command", time, settings.latency_threshold);
        let threshold = settings.slowlog_threshold;
        if u64::try_from(threshold).is_ok_and(|least| time.as_micros() >= u128::from(least)) {
            let most = settings.slowlog_len as usize;
            self.slowlog.add(time, words, peer(), name, most);
        }
    }
}

/// The folder with the tables that clients may open.
fn tables_folder(settings: &Settings) -> Option<PathBuf> {
    let in_data = settings.dir.as_ref().map(|dir| dir.join("tables"));
    settings.tables_dir.clone().or(in_data)
}

fn random_id() -> String {
    let mut bytes = [0u8; 20];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
    if let Err(error) = read {
        tracing::warn!(%error, "no random numbers for the run id");
    }
    bytes.iter().fold(String::new(), |mut id, byte| {
        // Writing to a String cannot fail.
        let _ = write!(id, "{byte:02x}");
        id
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ() {
        let id = random_id();
        assert_eq!(id.len(), 40);
        assert_ne!(id, random_id());
    }
}
