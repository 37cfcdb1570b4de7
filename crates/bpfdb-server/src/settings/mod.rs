//! The settings of a server.
//!
//! There is one list of them, below. From it come [`Settings`], the flags of
//! `bpfdb serve`, the keys of the configuration file (`file.rs`), the
//! parameters of CONFIG and the tables in docs/settings.md, all with the same
//! names: those of Redis, where Redis has the setting.

mod events;
mod file;
pub(crate) mod limits;
pub mod memory;
mod options;
pub(crate) mod parameters;
mod value;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use bpfdb_durability::RetentionOptions;
pub use events::{EventClass, KeyspaceEvents};
pub use file::{ConfigFile, FileError};
pub use options::{Loaded, Options};
pub use value::{
    AppendFsync, ClientMemory, Durability, EvictionPolicy, LocalClients, LogFormat, LogLevel,
    OutputLimit, OutputLimits, Permissions, Secret, Size, TablesBy,
};

pub(crate) use value::outside;

use value::Value;

/// When a new value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// At the next start only.
    Restart,
    /// At the next start only; CONFIG SET may say the value that it has once more, as scripts
    /// do that were written for a server where it can change.
    RestartUnlessSame,
    /// At the next start only; CONFIG SET answers as for a parameter that Redis protects.
    RestartProtected,
    /// CONFIG SET may change it.
    Now,
}

/// One setting: how it is called, and how its value is read and written.
#[derive(Debug)]
pub struct Setting {
    pub name: &'static str,
    /// What it is for; more than one line.
    pub help: &'static [&'static str],
    pub change: Change,
    /// Stands for a value in `--help`.
    pub hint: &'static str,
    show: fn(&Settings) -> String,
    to_toml: fn(&Settings) -> toml_edit::Value,
    set: fn(&mut Settings, &str) -> Result<(), String>,
}

impl Setting {
    pub fn find(name: &str) -> Option<&'static Self> {
        SETTINGS
            .iter()
            .find(|setting| setting.name.eq_ignore_ascii_case(name))
    }

    pub fn show(&self, settings: &Settings) -> String {
        (self.show)(settings)
    }

    /// As a file has it.
    pub fn to_toml(&self, settings: &Settings) -> String {
        (self.to_toml)(settings).to_string()
    }

    /// Sets it, or says what is wrong with the text.
    pub fn set(&self, settings: &mut Settings, text: &str) -> Result<(), String> {
        (self.set)(settings, text)
    }

    /// The help as one line.
    pub fn help(&self) -> String {
        self.help.concat().trim().to_owned()
    }

    /// Is it a switch, which is off, and which a flag without a value turns on?
    pub fn is_switch(&self) -> bool {
        self.hint == <bool as Value>::HINT && self.show(&Settings::default()) == false.show()
    }
}

fn within<T: Value>(value: T, range: Option<RangeInclusive<i64>>) -> Result<T, String> {
    let number = value.number().unwrap_or(i64::MAX);
    match range {
        Some(range) if !range.contains(&number) => Err(value::outside(range.start(), range.end())),
        _ => Ok(value),
    }
}

/// A number that its type cannot hold is beyond the bounds of the setting too.
fn told(error: String, text: &str, range: Option<&RangeInclusive<i64>>) -> String {
    match range {
        Some(range) if text.parse::<i128>().is_ok() => value::outside(range.start(), range.end()),
        _ => error,
    }
}

macro_rules! bounds {
    () => {
        None
    };
    ($range:expr) => {
        Some($range)
    };
}

/// `name in the struct "name elsewhere": type, bounds => default, change;`
macro_rules! settings {
    ($(
        $(#[doc = $help:literal])+
        $field:ident $name:literal: $type:ty $(, $range:expr)? => $default:expr, $change:ident;
    )*) => {
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $($(#[doc = $help])+ pub $field: $type,)*
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        pub static SETTINGS: &[Setting] = &[$(
            Setting {
                name: $name,
                help: &[$($help),+],
                change: Change::$change,
                hint: <$type as Value>::HINT,
                show: |settings| settings.$field.show(),
                to_toml: |settings| settings.$field.to_toml(),
                set: |settings, text| {
                    let range = bounds!($($range)?);
                    let value = settings.$field.parse_onto(text)
                        .map_err(|error| told(error, text, range.as_ref()))?;
                    settings.$field = within(value, range)?;
                    Ok(())
                },
            },
        )*];
    };
}

settings! {
    /// Address to listen on, or the name of a host that has one
    bind "bind": IpAddr => IpAddr::V4(Ipv4Addr::LOCALHOST), Restart;
    /// TCP port to listen on; 0: any free one
    port "port": u16 => 6379, Restart;
    /// Connections that may wait to be accepted
    tcp_backlog "tcp-backlog": u32, 1..=65_535 => 4096, Restart;
    /// Path of a Unix-domain socket to listen on as well; empty: none
    unix_socket "unixsocket": Option<PathBuf> => None, Restart;
    /// Permissions of that socket, in octal; 0: as the umask leaves them
    unix_permissions "unixsocketperm": Permissions => Permissions(0), Restart;
    /// Clients of this machine that are answered inside their own send(): off;
    /// auto: all; or those in this cgroup (v2) and below it
    local_clients "local-clients": LocalClients => LocalClients::Auto, Restart;
    /// Nice value for the kernel's workers that answer remote clients; 0: they keep
    /// their own
    worker_nice "worker-nice": i64, -20..=0 => 0, Now;
    /// Databases that SELECT may choose
    databases "databases": u32, 1..=16 => 16, Restart;
    /// Most connections at the same time. At run time not more than at the start:
    /// the sessions are made then. Fewer, if the limit of open files is too low for them
    max_clients "maxclients": u32, 1..=65_000 => 10_000, Now;
    /// Seconds after which an idle connection is closed; 0: never
    timeout "timeout": u64, 0..=2_147_483_647 => 0, Now;
    /// Seconds of silence after which the kernel asks whether the client still
    /// lives; 0: never
    tcp_keepalive "tcp-keepalive": u64, 0..=32_767 => 300, Now;

    /// Password that clients must give by AUTH or HELLO; empty: none
    require_pass "requirepass": Secret => Secret::default(), Now;

    /// Most memory for data and index; 0: half of the machine's, or what a control group
    /// leaves, if that is less. Not more than the group leaves; at run time not more than the
    /// machine has. An engine can name 64 GiB at most
    max_memory "maxmemory": Size => Size(0), Now;
    /// What goes when memory is full: noeviction: nothing, and writes are refused; allkeys-lru: keys
    /// that were not used for long; allkeys-lfu: keys that are seldom used; allkeys-random: any keys;
    /// volatile-lru, volatile-lfu, volatile-random: the same of keys with an expiry;
    /// volatile-ttl: of these those that expire next
    max_memory_policy "maxmemory-policy": EvictionPolicy => EvictionPolicy::NoEviction, Now;
    /// Keys that are looked at for each one that goes; more than 64 are as 64
    max_memory_samples "maxmemory-samples": u32, 1..=2_147_483_647 => 5, Now;
    /// For the policies with lfu: the greater, the more uses the counter of a key needs to go up
    lfu_log_factor "lfu-log-factor": u32, 0..=2_147_483_647 => 10, Now;
    /// For these policies: minutes without use after which the counter goes down by one; 0: never
    lfu_decay_time "lfu-decay-time": u32, 0..=2_147_483_647 => 1, Now;
    /// Memory to keep ready ahead of need
    memory_ahead "memory-ahead": Size => Size::mib(128), Restart;
    /// Committed versions of a record; 1: single-version mode
    versions "versions": u32, 1..=8 => 4, Restart;
    /// Seconds after which an idle transaction is rolled back; 0: never
    transaction_timeout "transaction-timeout": u64, 0..=31_536_000 => 30, Restart;
    /// Seconds from which on a read-only transaction is ended if a writer would be
    /// refused for it, or memory is short; 0: never
    snapshot_max_age "snapshot-max-age": u64, 0..=31_536_000 => 30, Now;
    /// Keep the data in the kernel when the server stops: the next `serve` on this
    /// port goes on with it
    keep_data "keep-data": bool => false, Restart;

    /// Directory of the log, which belongs to one server; empty: /var/lib/bpfdb/PORT, or
    /// bpfdb/PORT in the state directory of a user who is not root
    dir "dir": Option<PathBuf> => None, RestartProtected;
    /// Write a log, so that the data is there again after a loss of power
    append_only "appendonly": bool => true, RestartUnlessSame;
    /// When clients get their replies, unless they choose (CLIENT DURABILITY): always:
    /// when what a reply depends on is on the disk; everysec: at once, and it is there
    /// as a rule within a tenth of a second; no: the same
    append_fsync "appendfsync": AppendFsync => AppendFsync::EverySecond, Now;

    /// Flushes of the log that may be under way at once while clients wait for them, if one takes
    /// long; 1: one after the other
    log_flushes "log-flushes": u32, 1..=16 => 4, Restart;

    /// Keep values that memory has no room for in files of the data directory
    tier "tier": bool => false, Restart;
    /// Memory for data above which values go to these files; 0: half of maxmemory. Not more than seven
    /// eighths of it
    tier_memory "tier-memory": Size => Size(0), Now;
    /// Have the kernel read such values before the daemon asks for them
    tier_prefetch "tier-prefetch": bool => false, Now;
    /// Have the kernel answer a GET of such a value when it has read it, without the daemon
    tier_kernel_gets "tier-kernel-gets": bool => false, Now;

    /// Folder with the tables that clients may open by TABLE OPEN; empty: tables in the data directory
    tables_dir "tables-dir": Option<PathBuf> => None, RestartProtected;
    /// What reads them: kernel; process: the daemon, through the page cache; auto: the kernel, or
    /// the daemon if the kernel cannot
    tables_by "tables-by": TablesBy => TablesBy::Auto, Now;
    /// Bytes of blocks that are kept in memory of each table that is open
    tables_pool "tables-pool": Size => Size::mib(16), Now;

    /// Seconds between two checkpoints, if anything was written; 0: none because of time
    checkpoint_every "checkpoint-every": u64, 0..=31_536_000 => 3600, Restart;
    /// Bytes of the log after which a checkpoint is made, or as many as the last one has, if
    /// that is more; 0: none because of the log's size
    checkpoint_log_size "checkpoint-log-size": Size => Size::mib(256), Restart;
    /// Seconds of the past to which `bpfdb recover` can go back: for so long the log before a
    /// checkpoint is retained; 0: it goes with the checkpoint
    log_retention "log-retention": u64, 0..=315_360_000 => 0, Now;
    /// Most bytes that are retained for that; beyond them the oldest go. 0: as many as the
    /// disk has
    log_retention_size "log-retention-size": Size => Size(0), Now;

    /// Compile scripts and functions that can be, so that the kernel runs them
    compile_procedures "compile-procedures": bool => true, Now;

    /// Longest argument; a longer one closes the connection
    max_bulk "proto-max-bulk-len": Size, 1_048_576..=536_870_912 => Size::mib(512), Now;
    /// Replies of one connection that may wait to be read: it is closed at the hard
    /// limit, or after so many seconds above the soft one. Clients that have subscribed
    /// to something are in the class pubsub, all others in the class normal
    output_limit "client-output-buffer-limit": OutputLimits => OutputLimits::of_normal(
        OutputLimit::new(limits::MESSAGE_MAX as u64, 32 << 20, 300)
    ), Now;
    /// Most memory for requests and replies of all connections together in user
    /// space, in bytes or in percent of maxmemory (5%); beyond it the connection that uses most is
    /// closed. 0: no limit
    max_client_memory "maxmemory-clients": ClientMemory => ClientMemory::Bytes(Size::mib(1024)), Now;

    /// Which changes of keys are published, by Redis's letters: K and E for channels by key and by
    /// event, A or single classes; empty: none. While there are any, the daemon answers all requests
    keyspace_events "notify-keyspace-events": KeyspaceEvents => KeyspaceEvents::default(), Now;

    /// Microseconds from which on a command that the daemon executes is kept for SLOWLOG;
    /// negative: none, 0: all
    slowlog_threshold "slowlog-log-slower-than": i64, -1..=i64::MAX => 10_000, Now;
    /// Commands that SLOWLOG keeps
    slowlog_len "slowlog-max-len": u32, 0..=1_000_000 => 128, Now;
    /// Milliseconds from which on something slow is kept for LATENCY; 0: nothing
    latency_threshold "latency-monitor-threshold": u64, 0..=i64::MAX => 0, Now;
    /// Address of the HTTP server with /metrics, /health and /ready; empty: none
    metrics_address "metrics-address": Option<SocketAddr> => None, Restart;
    /// What is logged
    log_level "loglevel": LogLevel => LogLevel::Info, Now;
    /// Form of the log: one line of text, or one JSON object, for each event
    log_format "log-format": LogFormat => LogFormat::Text, Restart;
    /// File that the log is appended to; empty: standard error
    log_file "logfile": Option<PathBuf> => None, Restart;
}

impl Settings {
    /// What is retained of the log.
    pub fn retention(&self) -> RetentionOptions {
        let bytes = self.log_retention_size.bytes();
        RetentionOptions {
            time: Duration::from_secs(self.log_retention),
            bytes: (bytes > 0).then_some(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_defaults_are_within_bounds() {
        for (at, setting) in SETTINGS.iter().enumerate() {
            let same = |other: &Setting| other.name == setting.name;
            assert_eq!(SETTINGS.iter().position(same), Some(at));

            let mut settings = Settings::default();
            let shown = setting.show(&settings);
            assert_eq!(
                setting.set(&mut settings, &shown),
                Ok(()),
                "{}",
                setting.name
            );
            assert_eq!(settings, Settings::default(), "{}", setting.name);
        }
    }

    #[test]
    fn bounds_are_told() {
        let mut settings = Settings::default();
        let versions = Setting::find("VERSIONS").expect("there");
        assert_eq!(
            versions.set(&mut settings, "9"),
            Err("argument must be between 1 and 8 inclusive".into())
        );
        assert_eq!(settings.versions, 4);
        let clients = Setting::find("maxclients").expect("there");
        assert_eq!(
            clients.set(&mut settings, "99999999999"),
            Err("argument must be between 1 and 65000 inclusive".into())
        );
    }
}
