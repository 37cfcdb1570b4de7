//! Parameters of Redis that clients ask for and that are always the same here.

pub(super) struct Fixed {
    pub(super) name: &'static str,
    pub(super) value: &'static str,
}

const fn fixed(name: &'static str, value: &'static str) -> Fixed {
    Fixed { name, value }
}

pub(super) static FIXED: &[Fixed] = &[
    fixed("activedefrag", "no"),
    fixed("appendfsync", "no"),
    fixed("appendonly", "no"),
    fixed("cluster-enabled", "no"),
    fixed("daemonize", "no"),
    fixed("databases", "1"),
    fixed("io-threads", "1"),
    fixed("latency-tracking", "yes"),
    fixed("latency-tracking-info-percentiles", "50 99 99.9"),
    fixed("lazyfree-lazy-user-del", "no"),
    fixed("maxmemory-policy", "noeviction"),
    fixed("notify-keyspace-events", ""),
    fixed("protected-mode", "no"),
    fixed("save", ""),
    fixed("supervised", "no"),
    fixed("tls-port", "0"),
];

pub(super) fn find(name: &[u8]) -> Option<&'static Fixed> {
    let is = |fixed: &&Fixed| fixed.name.as_bytes().eq_ignore_ascii_case(name);
    FIXED.iter().find(is)
}
