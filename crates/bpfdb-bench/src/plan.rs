//! The plan of a run: sizes, durations, rounds.

use std::time::Duration;

use clap::ValueEnum;

use crate::tcp::CONNECTIONS_MAX;

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Inside the kernel, against a plain hash map
    Kernel,
    /// Sessions of user space, one by one and in batches
    Run,
    /// One to eight versions per record
    Versions,
    /// A writer beside idle snapshots
    Snapshots,
    /// Bytes per record, and pauses while memory is added
    Memory,
    /// The server against Redis, through TCP on loopback
    Tcp,
    /// The same, clients answered inside their send()
    Local,
    /// The same, from another network namespace
    Remote,
    /// The same, received by a processor of its own
    Steered,
    /// Commands besides those of the others that the kernel answers, against Redis
    Other,
    /// MULTI … EXEC, against Redis
    Transactions,
    /// Commands that the daemon answers, against Redis
    Daemon,
    /// 100, 1,000 and 10,000 connections, against Redis
    Connections,
    /// Stored procedures, against Redis, Tarantool and PostgreSQL
    Procedures,
    /// What others wait for while the server is attacked, against Redis
    Hostile,
    /// Hashes, lists, sets, sorted sets, and messages, against Redis
    Types,
    /// What the log costs; durable replies, checkpoints and recovery, against Redis,
    /// PostgreSQL and SQLite
    Durability,
    /// Chains of reads of a table in the kernel, against reads by a process
    Tables,
    /// The proxy before PostgreSQL, against PgBouncer and clients without a proxy
    Proxy,
    /// More data than memory, against all in memory, and against Redis, which evicts
    Tier,
}

/// A part of the scenarios `durability`, `tables`, `proxy` and `tier`, with tables of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// What the log costs inside the kernel
    Log,
    /// What it costs a server
    Server,
    /// Replies when it is on the disk, against other databases
    Sync,
    /// Replies at once, and how old they become before they are on the disk
    Async,
    /// Checkpoints and recovery
    Files,
    /// Look-ups of keys, one and many at a time
    Lookups,
    /// Sums of ranges
    Ranges,
    /// Look-ups with less memory than the table has bytes, against vmcache
    Pool,
    /// Clients, proxy and database on one machine
    Here,
    /// Clients and database elsewhere than the proxy
    Remote,
    /// The proxy with a mirror and without
    Mirror,
    /// Values in files
    Values,
    /// What a snapshot costs, and writers beside many of them and beside a checkpoint
    Snapshots,
    /// Writers beside reports, each over a snapshot of its own
    Report,
    /// Workloads of YCSB on values in files
    Ycsb,
    /// Commands on types through TCP, what the types take, and messages
    Commands,
    /// Queues of others
    Queues,
    /// Rows of ordered tables
    Ordered,
    /// Commands on types in the client's own send()
    Send,
}

impl Part {
    /// Those of `durability`, in the order of the report.
    pub(crate) const DURABILITY: [Self; 5] = [
        Self::Log,
        Self::Server,
        Self::Sync,
        Self::Async,
        Self::Files,
    ];
    /// Those of `tables`.
    pub(crate) const TABLES: [Self; 3] = [Self::Lookups, Self::Ranges, Self::Pool];
    /// Those of `proxy`.
    pub(crate) const PROXY: [Self; 3] = [Self::Here, Self::Remote, Self::Mirror];
    /// Those of `tier`.
    pub(crate) const TIER: [Self; 4] = [Self::Values, Self::Snapshots, Self::Report, Self::Ycsb];

    /// Those of `types`.
    pub(crate) const TYPES: [Self; 4] = [Self::Commands, Self::Queues, Self::Ordered, Self::Send];

    /// Those of `all` that are asked for; all of them if `only` is empty.
    pub(crate) fn chosen(all: &[Self], only: &[Self]) -> Vec<Self> {
        let asked = |part: &Self| only.is_empty() || only.contains(part);
        all.iter().copied().filter(asked).collect()
    }
}

impl Scenario {
    /// Those asked for, in the order of the report; all if none is named.
    pub(crate) fn chosen(only: &[Self]) -> Vec<Self> {
        Self::value_variants()
            .iter()
            .copied()
            .filter(|scenario| only.is_empty() || only.contains(scenario))
            .collect()
    }
}

/// Rounds and sizes.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
    /// Records inside the kernel, and places in each sequence of draws: powers
    /// of two.
    pub(crate) kernel_records: u32,
    pub(crate) kernel_draws: u32,
    /// Operations of one measurement inside the kernel.
    pub(crate) kernel_operations: u32,
    /// Records for sessions of user space.
    pub(crate) run_records: u32,
    /// How long one mix of operations runs.
    pub(crate) run_time: Duration,
    /// Versions per record to compare, and records of each of these engines.
    pub(crate) versions: Vec<u32>,
    pub(crate) versions_records: u32,
    pub(crate) versions_time: Duration,
    /// Records of which the bytes are counted.
    pub(crate) memory_records: u32,
    /// Records of the load of which the pauses are taken.
    pub(crate) growth_records: u32,
    /// Different keys over TCP, and requests at pipeline 1 and 16.
    pub(crate) tcp_keys: u32,
    pub(crate) tcp_requests: [u32; 2],
    /// How long an attack lasts, and how many connections many are.
    pub(crate) attack_time: Duration,
    pub(crate) attack_connections: u32,
    /// Bytes that clients which do not read ask for, altogether: a Redis that is
    /// started without a limit for replies keeps all of them.
    pub(crate) attack_replies: usize,
    /// Small collections of each type, elements of a large one, and requests at pipeline 1 and 16.
    pub(crate) collections: u32,
    pub(crate) elements: u32,
    pub(crate) types_requests: [u32; 2],
    /// How long others are looked at while a large collection is deleted.
    pub(crate) erase_time: Duration,
    /// Messages that are delivered, and elements handed over to a client that waits.
    pub(crate) deliveries: u32,
    pub(crate) hand_overs: u32,
    /// Rows of an ordered table: one less than a prime number, which is larger than 1,000.
    pub(crate) ordered_rows: u32,
    /// Jobs of a queue of others.
    pub(crate) jobs: u32,
    /// Requests of 64 connections that wait for the disk.
    pub(crate) sync_requests: u32,
    /// How long those databases are asked that are not asked a number of times.
    pub(crate) sync_time: Duration,
    /// Sizes of values in files, with their records.
    pub(crate) files: Vec<(u32, u32)>,
    /// How long writers run before a checkpoint is made beside them.
    pub(crate) writers_time: Duration,
    /// Scale of pgbench, and seconds of each of its runs through a proxy.
    pub(crate) proxy_scale: u32,
    pub(crate) proxy_seconds: u64,
    /// Entries of the table that is looked up through a pool, and for how long.
    pub(crate) pool_entries: u64,
    pub(crate) pool_time: Duration,
    /// Keys of which the values are in files, and requests at pipeline 1 and 16.
    pub(crate) tier_keys: u32,
    pub(crate) tier_requests: [u32; 2],
    /// Records of the engines of which snapshots are taken, and how many are timed in a round.
    pub(crate) snapshot_records: Vec<u32>,
    pub(crate) snapshots: u32,
    /// Records of the engine that writers run on beside snapshots and reports, and for how long.
    pub(crate) beside_records: u32,
    pub(crate) beside_time: Duration,
    /// Records of 1 KiB of the servers that make a checkpoint beside writers.
    pub(crate) saved_records: u32,
    /// Records that a report sums up.
    pub(crate) report_records: u32,
    /// Values of the file that is rewritten.
    pub(crate) tier_rewritten: u32,
    /// Requests for a value that is read from a file: so few that the page cache has hardly any twice.
    pub(crate) tier_cold_requests: u32,
    /// How long a workload of YCSB runs.
    pub(crate) ycsb_time: Duration,
}

/// Sizes of values and records of the scenario `durability`, of which files are made. A round
/// with these takes half a minute. Half of it are the rivals, which start five times from
/// files.
const FILES: [(u32, u32); 2] = [(16, 1_000_000), (1024, 200_000)];
/// With `--large`: minutes a round. What begins and ends an operation weighs nothing then, as
/// programs that are loaded before a recovery do.
const FILES_LARGE: [(u32, u32); 2] = [(16, 10_000_000), (1024, 2_000_000)];
/// With `--large`: records of 1 KiB of the servers that save beside writers, some 2.5 GB of memory.
const SAVED_LARGE: u32 = 2_000_000;

impl Plan {
    pub(crate) fn new(rounds: usize, quick: bool) -> Self {
        let millis = Duration::from_millis;
        if quick {
            return Self {
                rounds: 1,
                quick,
                kernel_records: 1 << 14,
                kernel_draws: 1 << 14,
                kernel_operations: 1 << 13,
                run_records: 2_000,
                run_time: millis(2),
                versions: vec![1, 4],
                versions_records: 500,
                versions_time: millis(5),
                memory_records: 5_000,
                growth_records: 20_000,
                tcp_keys: 1_000,
                tcp_requests: [1_000, 4_000],
                attack_time: millis(50),
                attack_connections: 100,
                attack_replies: 128 << 20,
                collections: 50,
                elements: 2_000,
                types_requests: [320, 2_560],
                erase_time: millis(50),
                deliveries: 1_000,
                hand_overs: 20,
                ordered_rows: 2_002,
                jobs: 100,
                sync_requests: 1_500,
                sync_time: millis(200),
                files: vec![(16, 2_000)],
                writers_time: millis(50),
                proxy_scale: 1,
                proxy_seconds: 1,
                pool_entries: 20_000,
                pool_time: millis(40),
                tier_keys: 20_000,
                tier_requests: [1_000, 4_000],
                snapshot_records: vec![500, 5_000],
                snapshots: 200,
                beside_records: 5_000,
                beside_time: millis(60),
                saved_records: 2_000,
                report_records: 100,
                tier_rewritten: 3_000,
                tier_cold_requests: 1_000,
                ycsb_time: millis(150),
            };
        }
        Self {
            rounds,
            quick,
            kernel_records: 1 << 22,
            kernel_draws: 1 << 22,
            kernel_operations: 1 << 19,
            run_records: 1_000_000,
            run_time: millis(250),
            versions: (1..=bpfdb::abi::BPFDB_VERSIONS_MAX).collect(),
            versions_records: 250_000,
            versions_time: millis(250),
            memory_records: 1_000_000,
            growth_records: 4_000_000,
            tcp_keys: 1_000_000,
            tcp_requests: [200_000, 1_600_000],
            attack_time: millis(3000),
            attack_connections: CONNECTIONS_MAX,
            attack_replies: 2 << 30,
            collections: 10_000,
            elements: 1_000_000,
            types_requests: [8_000, 64_000],
            erase_time: millis(1500),
            deliveries: 100_000,
            hand_overs: 500,
            ordered_rows: 100_002,
            jobs: 20_000,
            sync_requests: 150_000,
            sync_time: millis(3000),
            files: FILES.into(),
            writers_time: millis(2000),
            proxy_scale: 10,
            proxy_seconds: 4,
            pool_entries: 2_000_000,
            pool_time: millis(1500),
            tier_keys: 500_000,
            tier_requests: [60_000, 240_000],
            snapshot_records: vec![10_000, 1_000_000, 8_000_000],
            snapshots: 20_000,
            beside_records: 1_000_000,
            beside_time: millis(3000),
            saved_records: 1_000_000,
            report_records: 1_000,
            tier_rewritten: 60_000,
            tier_cold_requests: 20_000,
            ycsb_time: millis(4000),
        }
    }

    /// The same with files as large as they are where durability matters.
    pub(crate) fn with_large_files(self) -> Self {
        Self {
            files: FILES_LARGE.into(),
            saved_records: SAVED_LARGE,
            ..self
        }
    }

    /// Calls `measure` for a round that warms up, which a flag says, and for
    /// each that counts.
    pub(crate) fn repeat(
        &self,
        what: &str,
        mut measure: impl FnMut(usize, bool) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        eprintln!("{what}: warming up");
        measure(0, true)?;
        for round in 0..self.rounds {
            eprintln!("{what}: round {} of {}", round + 1, self.rounds);
            measure(round + 1, false)?;
        }
        Ok(())
    }
}
