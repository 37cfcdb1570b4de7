//! MEMORY DOCTOR.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "memory|doctor",
    summary: "A report about memory, in words",
    since: "4.0.0",
    group: Group::Server,
    complexity: "O(pages)",
    arity: 2,
    tips: &[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    // How much data there is.
    context.tells_of_all();
    let stats = context.engine.stats()?;
    let limit = stats.segments_max * bpfdb::SEGMENT_SIZE;
    let mut report = String::new();
    let evicts = context.instance.evictor.rules().evicts();
    if stats.memory_used() * 10 > limit * 9 && !evicts {
        report += "More than nine tenths of maxmemory are in use: writes will soon be refused. \
                   Delete data, or start the server with more.\n";
    }
    if stats.memory_held() * 10 > limit * 9 && stats.memory_kept() * 4 > limit {
        report += "A quarter of maxmemory is kept in pages that are not empty, for data of the \
                   sizes that were deleted: writes of other sizes may be refused. MEMORY \
                   PURGE gives back what is empty; the rest as the data of those pages goes.\n";
    }
    if stats.history_versions > stats.records {
        report += "Old versions outnumber records: read-only transactions run for long.\n";
    }
    if report.is_empty() {
        report += "No problem was found.\n";
    }
    context.replies.verbatim("txt", &report);
    Ok(())
}
