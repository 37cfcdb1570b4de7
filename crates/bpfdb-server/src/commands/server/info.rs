//! INFO.

use super::super::prelude::*;
use crate::server::REDIS_VERSION;

pub(crate) static COMMAND: Command = Command {
    name: "info",
    summary: "Get information and statistics about the server",
    since: "1.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: -1,
    flags: &[Flag::Loading, Flag::Stale],
    categories: &[Category::Dangerous],
    tips: &[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let stats = context.engine.stats()?;
    let text = format!(
        "# Server\r\n\
         server_name:bpfdb\r\n\
         bpfdb_version:{}\r\n\
         redis_version:{REDIS_VERSION}\r\n\
         redis_mode:standalone\r\n\
         process_id:{}\r\n\
         \r\n# Clients\r\n\
         sessions:{}\r\n\
         transactions:{}\r\n\
         \r\n# Memory\r\n\
         used_memory:{}\r\n\
         maxmemory:{}\r\n\
         \r\n# Stats\r\n\
         requests_answered_in_kernel:{}\r\n\
         connections_handed_over:{}\r\n\
         \r\n# Keyspace\r\n\
         db0:keys={},expires=0,avg_ttl=0\r\n",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        stats.sessions,
        stats.transactions,
        stats.segments * bpfdb::SEGMENT_SIZE,
        stats.segments_max * bpfdb::SEGMENT_SIZE,
        stats.counters.requests_fast,
        stats.counters.connections_passed,
        stats.records,
    );
    context.replies.verbatim("txt", &text);
    Ok(())
}
