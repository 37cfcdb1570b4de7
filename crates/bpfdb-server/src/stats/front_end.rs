//! Counters of the network's programs, as figures: with those of the engine they are what
//! `bpfdb stats` prints and what a metrics endpoint exports.

use bpfdb::commands::{KERNEL_COMMANDS, KernelCommand};
use bpfdb::figures::{Figure, Kind};
use bpfdb::{Stats, abi};

/// Errors that the kernel replies, by their first word.
pub(crate) const ERROR_REPLIES: [(&str, u32); abi::BPFDB_ERROR_REPLY_COUNT as usize] = [
    ("ERR", abi::BPFDB_ERROR_REPLY_ERR),
    ("CONFLICT", abi::BPFDB_ERROR_REPLY_CONFLICT),
    ("OOM", abi::BPFDB_ERROR_REPLY_OOM),
    ("WRONGTYPE", abi::BPFDB_ERROR_REPLY_WRONGTYPE),
];

/// Every gauge and counter of an engine that has served the network: the engine's own, and those of
/// the network's programs.
pub fn figures(stats: &Stats) -> Vec<Figure> {
    let mut figures = stats.figures();
    let redis = stats.counters.redis();
    let answered = commands(
        "commands",
        "kernel_commands",
        "Redis commands answered in the kernel",
        &redis.commands,
    );
    let failed = commands(
        "commands_failed",
        "kernel_commands_failed",
        "Redis commands that the kernel answered with an error",
        &redis.commands_failed,
    );
    // Events of both come last.
    let is_event = |figure: &Figure| figure.path.starts_with("events.");
    let place = figures.iter().position(is_event).unwrap_or(figures.len());
    figures.splice(
        place..place,
        answered.chain(failed).chain(error_replies(redis)),
    );
    figures.extend(events(redis));
    figures
}

/// The field of INFO's section bpfdb that shows a figure, if one does: those of commands are in the
/// section kernelstats.
pub(crate) fn info_field(figure: &Figure) -> Option<String> {
    let hidden = matches!(figure.label, Some(("size" | "command", _)));
    (!hidden).then(|| format!("bpfdb_{}", figure.path.replace('.', "_")))
}

fn commands(
    folder: &str,
    metric: &'static str,
    help: &'static str,
    values: &[u64],
) -> impl Iterator<Item = Figure> {
    KERNEL_COMMANDS
        .iter()
        .map(move |command: &KernelCommand| Figure {
            path: format!("{folder}.{}", command.name),
            metric,
            label: Some(("command", command.name.into())),
            kind: Kind::Counter,
            help,
            value: values[command.number as usize],
        })
}

fn error_replies(redis: &abi::bpfdb_redis_counters) -> impl Iterator<Item = Figure> {
    ERROR_REPLIES.iter().map(|&(word, number)| Figure {
        path: format!("error_replies.{}", word.to_ascii_lowercase()),
        metric: "kernel_error_replies",
        label: Some(("error", word.into())),
        kind: Kind::Counter,
        help: "Errors that the kernel replied, by their first word",
        value: redis.error_replies[number as usize],
    })
}

#[rustfmt::skip]
fn events(redis: &abi::bpfdb_redis_counters) -> impl Iterator<Item = Figure> {
    [
        ("requests_by_kernel", redis.requests_by_kernel(), "Requests of clients answered in the kernel"),
        ("bytes_received", redis.net.bytes_received, "Bytes of requests answered in the kernel"),
        ("bytes_sent", redis.net.bytes_sent, "Bytes of replies that the kernel gave"),
        ("requests_local", redis.net.requests_local, "Of these, answered inside the client's own send()"),
        ("connections_passed", redis.net.connections_passed, "Times that a connection was handed to the daemon"),
        ("bytes_passed", redis.net.bytes_passed, "Bytes of requests passed to the daemon"),
    ]
    .into_iter()
    .map(|(name, value, help)| Figure {
        path: format!("events.{name}"),
        metric: name,
        label: None,
        kind: Kind::Counter,
        help,
        value,
    })
}
