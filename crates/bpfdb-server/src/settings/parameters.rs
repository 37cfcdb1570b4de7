//! Parameters of Redis that are no settings here. Its clients and tools ask for them, and
//! set some; each says what becomes of that.

use std::collections::BTreeMap;

use super::{Size, outside};

use Kind::{Immutable, Memory, Number, Only, Protected, Switch, Word};

const INT_MAX: i64 = i32::MAX as i64;

/// What CONFIG SET may make of a parameter.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Nothing, as in Redis.
    Immutable,
    /// Nothing, as in Redis without `enable-protected-configs`.
    Protected,
    /// What it is: something else would promise what bpfdb does not do.
    Only,
    /// What Redis takes too; it is kept, shown, and has no effect: it is about the
    /// representation of data, or files, or replicas, that do not exist here.
    Switch,
    /// From, to.
    Number(i64, i64),
    /// Bytes, at least.
    Memory(u64),
    Word(&'static [&'static str]),
}

#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// An older name of the same.
    older: Option<&'static str>,
    value: &'static str,
    kind: Kind,
}

const fn parameter(name: &'static str, value: &'static str, kind: Kind) -> Parameter {
    Parameter {
        name,
        older: None,
        value,
        kind,
    }
}

impl Parameter {
    const fn also(self, older: &'static str) -> Self {
        Self {
            older: Some(older),
            ..self
        }
    }

    /// Under which names it is shown.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        [Some(self.name), self.older].into_iter().flatten()
    }

    /// A new value as it is shown, or what is wrong with it.
    fn read(&self, text: &str) -> Result<String, String> {
        match self.kind {
            Immutable => Err("can't set immutable config".into()),
            Protected => Err("can't set protected config".into()),
            Only if text.eq_ignore_ascii_case(self.value) => Ok(self.value.into()),
            Only => Err(format!("it is always '{}' in bpfdb", self.value)),
            Switch => {
                word(text, &["yes", "no"]).map_err(|_| "argument must be 'yes' or 'no'".into())
            }
            Number(from, to) => number(text, from, to).map(|number| match self.name {
                // As Redis does.
                "hz" => number.clamp(1, 500).to_string(),
                _ => number.to_string(),
            }),
            Memory(least) => memory(text, least).map(|bytes| bytes.to_string()),
            Word(words) => word(text, words),
        }
    }
}

fn word(text: &str, words: &[&str]) -> Result<String, String> {
    let known = words.iter().find(|word| word.eq_ignore_ascii_case(text));
    known.map(|word| (*word).to_owned()).ok_or_else(|| {
        let words = words.join(", ");
        format!("argument(s) must be one of the following: {words}")
    })
}

fn number(text: &str, from: i64, to: i64) -> Result<i64, String> {
    let number = crate::values::integer::parse(text.as_bytes())
        .ok_or("argument couldn't be parsed into an integer")?;
    if !(from..=to).contains(&number) {
        return Err(outside(from, to));
    }
    Ok(number)
}

fn memory(text: &str, least: u64) -> Result<u64, String> {
    let Size(bytes) = text
        .parse()
        .map_err(|_| "argument must be a memory value".to_owned())?;
    if bytes < least || bytes > i64::MAX as u64 {
        return Err(outside(least, i64::MAX));
    }
    Ok(bytes)
}

/// Those that were set, and to what. They last as long as the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(BTreeMap<&'static str, String>);

impl Parameters {
    pub(crate) fn show(&self, parameter: &Parameter) -> String {
        match self.0.get(parameter.name) {
            Some(value) => value.clone(),
            None => parameter.value.to_owned(),
        }
    }

    /// The value of one that is a number, and none below 0.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let parameter = find(name.as_bytes());
        let text = parameter.map(|parameter| self.show(parameter));
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn set(&mut self, parameter: &Parameter, text: &str) -> Result<(), String> {
        let value = parameter.read(text)?;
        self.0.insert(parameter.name, value);
        Ok(())
    }
}

pub(crate) fn find(name: &[u8]) -> Option<&'static Parameter> {
    let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
    PARAMETERS
        .iter()
        .find(|parameter| parameter.names().any(is))
}

#[rustfmt::skip]
pub(crate) static PARAMETERS: &[Parameter] = &[
    parameter("acl-pubsub-default", "resetchannels", Word(&["allchannels", "resetchannels"])),
    parameter("aclfile", "", Immutable),
    parameter("acllog-max-len", "128", Number(0, i64::MAX)),
    parameter("active-defrag-cycle-max", "25", Number(1, 99)),
    parameter("active-defrag-cycle-min", "1", Number(1, 99)),
    parameter("active-defrag-ignore-bytes", "104857600", Memory(1)),
    parameter("active-defrag-max-scan-fields", "1000", Number(1, i64::MAX)),
    parameter("active-defrag-threshold-lower", "10", Number(0, 1000)),
    parameter("active-defrag-threshold-upper", "100", Number(0, 1000)),
    parameter("active-expire-effort", "1", Number(1, 10)),
    parameter("activedefrag", "no", Only),
    parameter("activerehashing", "yes", Switch),
    parameter("always-show-logo", "no", Immutable),
    parameter("aof-disable-auto-gc", "no", Switch),
    parameter("aof-load-truncated", "yes", Switch),
    parameter("aof-rewrite-incremental-fsync", "yes", Switch),
    parameter("aof-timestamp-enabled", "no", Switch),
    parameter("aof-use-rdb-preamble", "yes", Switch),
    parameter("aof_rewrite_cpulist", "", Immutable),
    parameter("appenddirname", "appendonlydir", Immutable),
    parameter("appendfilename", "appendonly.aof", Immutable),
    parameter("auto-aof-rewrite-min-size", "67108864", Memory(0)),
    parameter("auto-aof-rewrite-percentage", "100", Number(0, INT_MAX)),
    parameter("bgsave_cpulist", "", Immutable),
    parameter("bind-source-addr", "", Only),
    parameter("bio_cpulist", "", Immutable),
    parameter("busy-reply-threshold", "5000", Number(0, i64::MAX)).also("lua-time-limit"),
    parameter("client-query-buffer-limit", "1073741824", Only),
    parameter("cluster-allow-pubsubshard-when-down", "yes", Only),
    parameter("cluster-allow-reads-when-down", "no", Only),
    parameter("cluster-allow-replica-migration", "yes", Only),
    parameter("cluster-announce-bus-port", "0", Only),
    parameter("cluster-announce-hostname", "", Only),
    parameter("cluster-announce-ip", "", Only),
    parameter("cluster-announce-port", "0", Only),
    parameter("cluster-announce-tls-port", "0", Only),
    parameter("cluster-config-file", "nodes.conf", Immutable),
    parameter("cluster-enabled", "no", Immutable),
    parameter("cluster-link-sendbuf-limit", "0", Only),
    parameter("cluster-migration-barrier", "1", Only),
    parameter("cluster-node-timeout", "15000", Only),
    parameter("cluster-port", "0", Immutable),
    parameter("cluster-preferred-endpoint-type", "ip", Only),
    parameter("cluster-replica-no-failover", "no", Only).also("cluster-slave-no-failover"),
    parameter("cluster-replica-validity-factor", "10", Only).also("cluster-slave-validity-factor"),
    parameter("cluster-require-full-coverage", "yes", Only),
    parameter("crash-log-enabled", "no", Switch),
    parameter("crash-memcheck-enabled", "no", Switch),
    parameter("daemonize", "no", Immutable),
    parameter("dbfilename", "dump.rdb", Protected),
    parameter("disable-thp", "no", Immutable),
    parameter("dynamic-hz", "yes", Switch),
    parameter("enable-debug-command", "no", Immutable),
    parameter("enable-module-command", "no", Immutable),
    parameter("enable-protected-configs", "no", Immutable),
    parameter("hash-max-listpack-entries", "512", Number(0, i64::MAX)).also("hash-max-ziplist-entries"),
    parameter("hash-max-listpack-value", "64", Memory(0)).also("hash-max-ziplist-value"),
    parameter("hll-sparse-max-bytes", "3000", Memory(0)),
    parameter("hz", "10", Number(0, INT_MAX)),
    parameter("ignore-warnings", "", Only),
    parameter("io-threads", "1", Immutable),
    parameter("io-threads-do-reads", "no", Immutable),
    parameter("jemalloc-bg-thread", "no", Switch),
    parameter("latency-tracking", "yes", Switch),
    parameter("latency-tracking-info-percentiles", "50 99 99.9", Only),
    parameter("lazyfree-lazy-eviction", "no", Switch),
    parameter("lazyfree-lazy-expire", "no", Switch),
    parameter("lazyfree-lazy-server-del", "no", Switch),
    parameter("lazyfree-lazy-user-del", "no", Switch),
    parameter("lazyfree-lazy-user-flush", "no", Switch),
    parameter("list-compress-depth", "0", Number(0, INT_MAX)),
    parameter("list-max-listpack-size", "-2", Number(-INT_MAX - 1, INT_MAX)).also("list-max-ziplist-size"),
    parameter("masterauth", "", Only),
    parameter("masteruser", "", Only),
    parameter("maxmemory-eviction-tenacity", "10", Number(0, 100)),
    parameter("min-replicas-max-lag", "10", Number(0, INT_MAX)).also("min-slaves-max-lag"),
    parameter("min-replicas-to-write", "0", Only).also("min-slaves-to-write"),
    parameter("no-appendfsync-on-rewrite", "no", Switch),
    parameter("oom-score-adj", "no", Only),
    parameter("oom-score-adj-values", "0 200 800", Only),
    parameter("pidfile", "", Immutable),
    parameter("proc-title-template", "{title} {listen-addr} {server-mode}", Only),
    parameter("propagation-error-behavior", "ignore", Word(&["ignore", "panic", "panic-on-replicas"])),
    parameter("protected-mode", "no", Only),
    parameter("rdb-del-sync-files", "no", Switch),
    parameter("rdb-save-incremental-fsync", "yes", Switch),
    parameter("rdbchecksum", "yes", Immutable),
    parameter("rdbcompression", "yes", Switch),
    parameter("repl-backlog-size", "1048576", Memory(1)),
    parameter("repl-backlog-ttl", "3600", Number(0, i64::MAX)),
    parameter("repl-disable-tcp-nodelay", "no", Switch),
    parameter("repl-diskless-load", "disabled", Word(&["disabled", "on-empty-db", "swapdb"])),
    parameter("repl-diskless-sync", "yes", Switch),
    parameter("repl-diskless-sync-delay", "5", Number(0, INT_MAX)),
    parameter("repl-diskless-sync-max-replicas", "0", Number(0, INT_MAX)),
    parameter("repl-ping-replica-period", "10", Number(1, INT_MAX)).also("repl-ping-slave-period"),
    parameter("repl-timeout", "60", Number(1, INT_MAX)),
    parameter("replica-announce-ip", "", Only).also("slave-announce-ip"),
    parameter("replica-announce-port", "0", Only).also("slave-announce-port"),
    parameter("replica-announced", "yes", Switch),
    parameter("replica-ignore-disk-write-errors", "no", Switch),
    parameter("replica-ignore-maxmemory", "yes", Switch).also("slave-ignore-maxmemory"),
    parameter("replica-lazy-flush", "no", Switch).also("slave-lazy-flush"),
    parameter("replica-priority", "100", Number(0, INT_MAX)).also("slave-priority"),
    parameter("replica-read-only", "yes", Switch).also("slave-read-only"),
    parameter("replica-serve-stale-data", "yes", Switch).also("slave-serve-stale-data"),
    parameter("replicaof", "", Immutable).also("slaveof"),
    parameter("sanitize-dump-payload", "no", Word(&["no", "yes", "clients"])),
    parameter("save", "", Only),
    parameter("server_cpulist", "", Immutable),
    parameter("set-max-intset-entries", "512", Number(0, i64::MAX)),
    parameter("set-proc-title", "no", Immutable),
    parameter("shutdown-on-sigint", "default", Only),
    parameter("shutdown-on-sigterm", "default", Only),
    parameter("shutdown-timeout", "10", Number(0, INT_MAX)),
    parameter("socket-mark-id", "0", Immutable),
    parameter("stop-writes-on-bgsave-error", "no", Only),
    parameter("stream-node-max-bytes", "4096", Memory(0)),
    parameter("stream-node-max-entries", "100", Number(0, i64::MAX)),
    parameter("supervised", "no", Immutable),
    parameter("syslog-enabled", "no", Immutable),
    parameter("syslog-facility", "local0", Immutable),
    parameter("syslog-ident", "redis", Immutable),
    parameter("tls-auth-clients", "yes", Only),
    parameter("tls-ca-cert-dir", "", Only),
    parameter("tls-ca-cert-file", "", Only),
    parameter("tls-cert-file", "", Only),
    parameter("tls-ciphers", "", Only),
    parameter("tls-ciphersuites", "", Only),
    parameter("tls-client-cert-file", "", Only),
    parameter("tls-client-key-file", "", Only),
    parameter("tls-client-key-file-pass", "", Only),
    parameter("tls-cluster", "no", Only),
    parameter("tls-dh-params-file", "", Only),
    parameter("tls-key-file", "", Only),
    parameter("tls-key-file-pass", "", Only),
    parameter("tls-port", "0", Only),
    parameter("tls-prefer-server-ciphers", "no", Only),
    parameter("tls-protocols", "", Only),
    parameter("tls-replication", "no", Only),
    parameter("tls-session-cache-size", "20480", Only),
    parameter("tls-session-cache-timeout", "300", Only),
    parameter("tls-session-caching", "yes", Only),
    parameter("tracking-table-max-keys", "1000000", Number(0, i64::MAX)),
    parameter("zset-max-listpack-entries", "128", Number(0, i64::MAX)).also("zset-max-ziplist-entries"),
    parameter("zset-max-listpack-value", "64", Memory(0)).also("zset-max-ziplist-value"),
];
