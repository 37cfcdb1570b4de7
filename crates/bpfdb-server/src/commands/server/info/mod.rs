//! INFO: sections of lines `field:value`, with Redis's names where the meaning
//! is Redis's, so that exporters and clients can read them.

mod memory;
mod persistence;
mod tier;

use std::cell::OnceCell;
use std::fmt::{Display, Write as _};

use bpfdb::{ConflictCause, Stats};
use nix::sys::resource::{UsageWho, getrusage};

use super::super::arguments::is;
use super::super::prelude::*;
use crate::commands::time_slice::TimeSlice;
use crate::instance::Instance;
use crate::protocol::REDIS_VERSION;
use crate::scripting::procedures::Totals;
use crate::stats::front_end;
use crate::stats::kernel_counters::KernelCounters;
use crate::stats::metric::fields;
use crate::stats::numbers::NUMBERS;
use crate::stats::rate::Rate;
use crate::stats::rows::{daemon, log, procedures as compiled, tier as cold};

pub(crate) static COMMAND: Command = Command {
    name: "info",
    summary: "Facts and figures about the server",
    since: "1.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: -1,
    arguments: "[section]...",
    flags: &[Flag::Loading, Flag::Stale],
    categories: &[Category::Dangerous],
    tips: &[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ],
    differences: "The kernel measures no times: usec and latencystats cover what the daemon executed. The section kernelstats has the calls that the kernel answered, the section bpfdb those of the engine; the log is in persistence.",
    run,
    ..Command::BASE
};

struct Section {
    name: &'static str,
    title: &'static str,
    /// Shown when no section is named.
    default: bool,
    write: fn(&mut Page, &Source<'_>),
}

/// What sections are written from.
struct Source<'a> {
    instance: &'a Instance,
    stats: &'a Stats,
    /// By the kernel, since counting began.
    counted: KernelCounters,
    clients: Clients,
    log: Option<log::Readings>,
    tier: Option<bpfdb_tier::Figures>,
    procedures: OnceCell<Totals>,
}

impl Source<'_> {
    fn procedures(&self) -> &Totals {
        let read = || self.instance.procedures.totals();
        self.procedures.get_or_init(read)
    }

    /// The metrics that the section shows, with their values.
    fn metrics(&self, section: &str) -> Vec<(&'static str, u64)> {
        let (statistics, kernel) = (&*self.instance.statistics, &self.counted);
        let server = fields(daemon::SERVER, section, || statistics, kernel);
        let numbers = fields(NUMBERS, section, || &statistics.numbers, kernel);
        let programs = || &self.procedures().programs;
        let programs = fields(compiled::PROGRAMS, section, programs, kernel);
        let log = self.log.iter();
        let log = log.flat_map(|log| fields(log::LOG, section, move || log, kernel));
        let tier = self.tier.iter();
        let tier = tier.flat_map(|figures| fields(cold::TIER, section, move || figures, kernel));
        let daemon = server.chain(numbers).chain(programs);
        daemon.chain(log).chain(tier).collect()
    }
}

/// What all connections have begun.
#[derive(Default)]
struct Clients {
    paused: usize,
    /// They wait for keys, or for tables.
    blocked: usize,
    watching: usize,
    watched_keys: usize,
    longest_input: usize,
    longest_output: usize,
}

impl Clients {
    fn of(context: &Context<'_>) -> Self {
        let others = || context.others.iter();
        let mut all = Self {
            paused: others().filter(|other| other.info.begun.paused).count(),
            blocked: others().filter(|other| other.info.begun.blocked).count(),
            ..Self::default()
        };
        let own = context.multi.watched.len();
        let watched = others().map(|other| other.info.begun.watched).chain([own]);
        for keys in watched {
            all.watching += usize::from(keys > 0);
            all.watched_keys += keys;
        }
        let connections = others().map(|other| &other.info);
        for connection in connections.chain([&*context.connection]) {
            all.longest_input = all.longest_input.max(connection.input);
            all.longest_output = all.longest_output.max(connection.output);
        }
        all
    }
}

#[rustfmt::skip]
static SECTIONS: &[Section] = &[
    Section { name: "server", title: "Server", default: true, write: server },
    Section { name: "clients", title: "Clients", default: true, write: clients },
    Section { name: "memory", title: "Memory", default: true, write: memory::memory },
    Section { name: "persistence", title: "Persistence", default: true, write: persistence::persistence },
    Section { name: "tier", title: "Tier", default: true, write: tier::tier },
    Section { name: "stats", title: "Stats", default: true, write: stats },
    Section { name: "replication", title: "Replication", default: true, write: replication },
    Section { name: "cpu", title: "CPU", default: true, write: cpu },
    Section { name: "modules", title: "Modules", default: true, write: |_, _| {} },
    Section { name: "commandstats", title: "Commandstats", default: false, write: commandstats },
    Section { name: "errorstats", title: "Errorstats", default: true, write: errorstats },
    Section { name: "kernelstats", title: "Kernelstats", default: false, write: kernelstats },
    Section { name: "latencystats", title: "Latencystats", default: false, write: latencystats },
    Section { name: "cluster", title: "Cluster", default: true, write: cluster },
    Section { name: "keyspace", title: "Keyspace", default: true, write: keyspace },
    Section { name: "bpfdb", title: "Bpfdb", default: true, write: own },
];

/// What is expired counts when its record is removed, each once. The engine does that in
/// the course of seconds. A few data are looked through at once, many not: all clients
/// of the daemon wait meanwhile.
///
/// Redis counts a key when a command finds it expired, and shows that at once.
fn clear_away(context: &Context<'_>) -> Result<Stats, Failure> {
    let stats = context.engine.stats()?;
    if stats.expiring == 0 {
        return Ok(stats);
    }
    let slice = TimeSlice::begin();
    let mut page = 0;
    loop {
        page = context.engine.clear_away(page)?;
        if page == 0 || slice.is_over() {
            return Ok(context.engine.stats()?);
        }
    }
}

/// Sections that tell how many keys, or functions, there are.
const OF_DATA: [&str; 3] = ["keyspace", "memory", "bpfdb"];

fn hold_back(context: &mut Context<'_>, names: &[Vec<u8>]) {
    let mut sections = SECTIONS.iter().filter(|section| is_asked(section, names));
    if sections.any(|section| OF_DATA.contains(&section.name)) {
        context.tells_of_all();
    }
}

fn run(context: &mut Context<'_>, names: &[Vec<u8>]) -> Outcome {
    hold_back(context, names);
    let stats = clear_away(context)?;
    let source = Source {
        instance: context.instance,
        stats: &stats,
        counted: context.instance.kernel_counters(&stats),
        clients: Clients::of(context),
        log: context.instance.log.durability().map(log::Readings::of),
        tier: context.instance.tier.as_ref().map(|tier| tier.figures()),
        procedures: OnceCell::new(),
    };
    let mut page = Page::default();
    for section in SECTIONS.iter().filter(|section| is_asked(section, names)) {
        page.title(section.title);
        page.metrics = source.metrics(section.name);
        (section.write)(&mut page, &source);
        page.rest();
    }
    context.replies.verbatim("txt", &page.text);
    Ok(())
}

fn is_asked(section: &Section, names: &[Vec<u8>]) -> bool {
    let all = |name: &Vec<u8>| is(name, "all") || is(name, "everything");
    let default = names.is_empty() || names.iter().any(|name| is(name, "default"));
    names.iter().any(|name| all(name) || is(name, section.name)) || (default && section.default)
}

#[derive(Default)]
struct Page {
    text: String,
    /// Those of the section that are not written yet.
    metrics: Vec<(&'static str, u64)>,
}

impl Page {
    fn title(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.text += "\r\n";
        }
        // Writing to a String cannot fail.
        let _ = write!(self.text, "# {title}\r\n");
    }

    fn line(&mut self, field: impl Display, value: impl Display) {
        let _ = write!(self.text, "{field}:{value}\r\n");
    }

    fn lines(&mut self, lines: &[(&str, &dyn Display)]) {
        for (field, value) in lines {
            self.line(field, value);
        }
    }

    /// Fields that have a row in one of the tables of metrics.
    fn metrics(&mut self, fields: &[&str]) {
        for field in fields {
            let place = self.metrics.iter().position(|(name, _)| name == field);
            if let Some(place) = place {
                let (name, value) = self.metrics.remove(place);
                self.line(name, value);
            }
        }
    }

    /// The metrics for which the section has no place.
    fn rest(&mut self) {
        for (name, value) in std::mem::take(&mut self.metrics) {
            self.line(name, value);
        }
    }
}

fn server(page: &mut Page, source: &Source<'_>) {
    let instance = source.instance;
    let uptime = instance.statistics.uptime().as_secs();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let system = nix::sys::utsname::uname().map_or_else(
        |_| "Linux".into(),
        |name| {
            let part = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
            let (system, release) = (part(name.sysname()), part(name.release()));
            format!("{system} {release} {}", part(name.machine()))
        },
    );
    let executable = std::env::current_exe().unwrap_or_default();
    let file = instance.file.as_ref();
    let file = file.map(|file| file.path().display().to_string());
    page.lines(&[
        ("redis_version", &REDIS_VERSION),
        ("redis_git_sha1", &"00000000"),
        ("redis_git_dirty", &0),
        ("redis_mode", &"standalone"),
        ("server_name", &"bpfdb"),
        ("bpfdb_version", &env!("CARGO_PKG_VERSION")),
        ("os", &system),
        ("arch_bits", &usize::BITS),
        ("monotonic_clock", &"POSIX clock_gettime"),
        ("multiplexing_api", &"epoll"),
        ("process_id", &std::process::id()),
        ("process_supervised", &"no"),
        ("run_id", &instance.run_id),
        ("tcp_port", &instance.address.port()),
        ("server_time_usec", &now.as_micros()),
    ]);
    page.metrics(&["uptime_in_seconds"]);
    page.lines(&[
        ("uptime_in_days", &(uptime / 86_400)),
        ("executable", &executable.display()),
        ("config_file", &file.unwrap_or_default()),
        ("io_threads_active", &0),
    ]);
}

fn clients(page: &mut Page, source: &Source<'_>) {
    page.metrics(&["connected_clients"]);
    page.lines(&[
        ("cluster_connections", &0),
        ("maxclients", &source.instance.settings.max_clients),
        (
            "client_recent_max_input_buffer",
            &source.clients.longest_input,
        ),
        (
            "client_recent_max_output_buffer",
            &source.clients.longest_output,
        ),
        (
            "blocked_clients",
            &(source.clients.paused + source.clients.blocked),
        ),
        ("tracking_clients", &0),
    ]);
    page.metrics(&["pubsub_clients"]);
    page.lines(&[
        ("watching_clients", &source.clients.watching),
        ("clients_in_timeout_table", &source.instance.waiting.timed()),
        ("total_watched_keys", &source.clients.watched_keys),
        ("total_blocking_keys", &source.instance.waiting.keys()),
    ]);
    page.metrics(&["unix_clients"]);
    let local = &source.instance.statistics.ways[bpfdb::abi::BPFDB_WAY_LOCAL as usize];
    page.line("local_clients", local.get());
}

fn stats(page: &mut Page, source: &Source<'_>) {
    let s = &source.instance.statistics;
    let kernel = &source.counted;
    page.metrics(&["total_connections_received"]);
    page.lines(&[
        (
            "total_commands_processed",
            &(kernel.requests() + s.commands_executed()),
        ),
        (
            "instantaneous_ops_per_sec",
            &source.instance.rate.per_second(),
        ),
    ]);
    page.metrics(&["total_net_input_bytes", "total_net_output_bytes"]);
    page.lines(&[
        ("total_net_repl_input_bytes", &0),
        ("total_net_repl_output_bytes", &0),
        (
            "instantaneous_input_kbps",
            &kilobytes(&source.instance.input_rate),
        ),
        (
            "instantaneous_output_kbps",
            &kilobytes(&source.instance.output_rate),
        ),
        ("instantaneous_input_repl_kbps", &"0.00"),
        ("instantaneous_output_repl_kbps", &"0.00"),
    ]);
    page.metrics(&["rejected_connections"]);
    page.lines(&[
        ("sync_full", &0),
        ("sync_partial_ok", &0),
        ("sync_partial_err", &0),
        ("expired_keys", &kernel.expired),
        ("evicted_keys", &kernel.evicted),
        ("total_eviction_exceeded_time", &0),
        ("current_eviction_exceeded_time", &0),
    ]);
    page.metrics(&[
        "evicted_clients",
        "client_output_buffer_limit_disconnections",
    ]);
    page.lines(&[
        (
            "keyspace_hits",
            &kernel.found.wrapping_add(s.gets_found.get()),
        ),
        (
            "keyspace_misses",
            &kernel.missed.wrapping_add(s.gets_missed.get()),
        ),
    ]);
    page.metrics(&["pubsub_channels", "pubsub_patterns", "pubsubshard_channels"]);
    page.lines(&[
        ("latest_fork_usec", &0),
        ("total_forks", &0),
        ("migrate_cached_sockets", &0),
        ("slave_expires_tracked_keys", &0),
        ("active_defrag_hits", &0),
        ("active_defrag_misses", &0),
        ("active_defrag_key_hits", &0),
        ("active_defrag_key_misses", &0),
        ("total_active_defrag_time", &0),
        ("current_active_defrag_time", &0),
        ("tracking_total_keys", &0),
        ("tracking_total_items", &0),
        ("tracking_total_prefixes", &0),
        ("unexpected_error_replies", &0),
        ("dump_payload_sanitizations", &0),
        ("io_threaded_reads_processed", &0),
        ("io_threaded_writes_processed", &0),
    ]);
    page.metrics(&["total_error_replies", "acl_access_denied_auth"]);
}

fn kilobytes(rate: &Rate) -> String {
    format!("{:.2}", rate.per_second() as f64 / 1024.0)
}

fn replication(page: &mut Page, source: &Source<'_>) {
    page.lines(&[
        ("role", &"master"),
        ("connected_slaves", &0),
        ("master_failover_state", &"no-failover"),
        ("master_replid", &source.instance.run_id),
        ("master_replid2", &"0".repeat(40)),
        ("master_repl_offset", &0),
        ("second_repl_offset", &-1),
        ("repl_backlog_active", &0),
        ("repl_backlog_size", &0),
        ("repl_backlog_first_byte_offset", &0),
        ("repl_backlog_histlen", &0),
    ]);
}

fn cpu(page: &mut Page, _: &Source<'_>) {
    for (who, sys, user) in [
        (UsageWho::RUSAGE_SELF, "used_cpu_sys", "used_cpu_user"),
        (
            UsageWho::RUSAGE_CHILDREN,
            "used_cpu_sys_children",
            "used_cpu_user_children",
        ),
        (
            UsageWho::RUSAGE_THREAD,
            "used_cpu_sys_main_thread",
            "used_cpu_user_main_thread",
        ),
    ] {
        let Ok(usage) = getrusage(who) else {
            continue;
        };
        let seconds =
            |time: nix::sys::time::TimeVal| format!("{}.{:06}", time.tv_sec(), time.tv_usec());
        page.line(sys, seconds(usage.system_time()));
        page.line(user, seconds(usage.user_time()));
    }
}

/// Time is known of what the daemon executed: all calls but those of `kernelstats`.
fn commandstats(page: &mut Page, source: &Source<'_>) {
    for (name, of) in source.instance.statistics.commands() {
        let (kernel_calls, kernel_failed) = source.counted.command(name);
        if kernel_calls == 0 && !of.is_used() {
            continue;
        }
        let timed = of.calls.get();
        let calls = timed + kernel_calls;
        let microseconds = of.nanoseconds.get() / 1000;
        let each = microseconds as f64 / timed.max(1) as f64;
        let (rejected, failed) = (of.rejected.get(), of.failed.get() + kernel_failed);
        page.line(
            format_args!("cmdstat_{name}"),
            format_args!(
                "calls={calls},usec={microseconds},usec_per_call={each:.2},\
                 rejected_calls={rejected},failed_calls={failed}"
            ),
        );
    }
}

/// What of `commandstats` the kernel answered. Not in the same lines: many parsers look
/// for the text `calls=`.
fn kernelstats(page: &mut Page, source: &Source<'_>) {
    for (name, _) in source.instance.statistics.commands() {
        let (calls, failed) = source.counted.command(name);
        if calls > 0 {
            page.line(
                format_args!("kernelstat_{name}"),
                format_args!("calls={calls},failed_calls={failed}"),
            );
        }
    }
}

fn errorstats(page: &mut Page, source: &Source<'_>) {
    let mut errors = source.instance.errors.clone();
    for (word, count) in source.counted.by_word() {
        *errors.entry(word.to_owned()).or_default() += count;
    }
    for (kind, count) in errors {
        page.line(
            format_args!("errorstat_{kind}"),
            format_args!("count={count}"),
        );
    }
}

fn latencystats(page: &mut Page, source: &Source<'_>) {
    let used = source.instance.statistics.used_commands();
    for (name, of) in used.filter(|(_, of)| of.calls.get() > 0) {
        let at = |percent| of.times.percentile(percent).as_nanos() as f64 / 1000.0;
        page.line(
            format_args!("latency_percentiles_usec_{name}"),
            format_args!(
                "p50={:.3},p99={:.3},p99.9={:.3}",
                at(50.0),
                at(99.0),
                at(99.9)
            ),
        );
    }
}

fn cluster(page: &mut Page, _: &Source<'_>) {
    page.line("cluster_enabled", 0);
}

fn keyspace(page: &mut Page, source: &Source<'_>) {
    let databases = &source.instance.databases;
    for number in databases.numbers() {
        let database = databases.get(number).unwrap_or_default();
        let keys = source.stats.records_of(database);
        if keys > 0 {
            // They are counted together.
            let expires = source.stats.expiring.min(keys);
            page.line(
                format_args!("db{number}"),
                format_args!("keys={keys},expires={expires},avg_ttl=0"),
            );
        }
    }
}

/// What `bpfdb stats` shows too.
fn procedures(page: &mut Page, source: &Source<'_>) {
    page.metrics(&["bpfdb_procedure_programs", "bpfdb_procedure_code_bytes"]);
    let totals = source.procedures();
    let counters = &totals.counters;
    page.lines(&[
        ("bpfdb_procedure_calls", &counters.calls),
        ("bpfdb_procedure_calls_interpreted", &totals.interpreted),
        ("bpfdb_procedure_retries", &counters.conflicts),
        ("bpfdb_procedure_calls_given_up", &counters.given_up()),
    ]);
}

fn own(page: &mut Page, source: &Source<'_>) {
    for &cause in ConflictCause::ALL {
        let daemon = source.instance.statistics.conflicts(cause).get();
        page.line(
            format_args!("bpfdb_conflict_replies_{}", cause.name()),
            source.counted.conflicts(cause) + daemon,
        );
    }
    procedures(page, source);
    for figure in front_end::figures(source.stats) {
        if let Some(field) = front_end::info_field(&figure) {
            page.line(field, figure.value);
        }
    }
}
