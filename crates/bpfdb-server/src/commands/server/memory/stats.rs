//! MEMORY STATS.

use super::super::super::prelude::*;

const PAGE: u64 = bpfdb::abi::BPFDB_PAGE_SIZE as u64;

pub(crate) static COMMAND: Command = Command {
    name: "memory|stats",
    summary: "Figures about memory",
    since: "4.0.0",
    group: Group::Server,
    complexity: "O(pages)",
    arity: 2,
    tips: &[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ],
    differences: "The figures of this engine.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    // How many keys there are.
    context.connection.tells_of_all = true;
    let stats = context.engine.stats()?;
    let clients = context
        .instance
        .statistics
        .numbers
        .client_memory_bytes
        .get();
    let keys = stats.records_of(context.session.database());
    let figures = [
        ("total.allocated", stats.memory_used() + clients),
        ("memory.held", stats.memory_held()),
        ("memory.kept", stats.memory_kept()),
        ("memory.added", stats.memory_added()),
        ("memory.limit", stats.segments_max * bpfdb::SEGMENT_SIZE),
        ("index.bytes", stats.index_pages * PAGE),
        ("clients.normal", clients),
        ("keys.count", keys),
        (
            "keys.bytes-per-key",
            stats.memory_used().checked_div(keys).unwrap_or(0),
        ),
        ("dataset.bytes", stats.memory_used()),
        ("fragmentation.bytes", stats.memory_kept()),
    ];
    context.replies.map(figures.len());
    for (name, figure) in figures {
        context.replies.bulk(name);
        context.replies.integer(figure as i64);
    }
    Ok(())
}
