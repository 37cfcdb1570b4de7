//! Where bpfdb and Redis differ on purpose. Each time one is met is counted and
//! told; nothing else may differ.

use super::compare::Asked;
use bpfdb_tests::server::Reply;

pub struct Difference {
    pub name: &'static str,
    pub reason: &'static str,
    /// Do the data differ from then on? Then no more is compared.
    pub diverges: bool,
    pub explains: fn(&Asked<'_>, redis: &Reply, bpfdb: &Reply) -> bool,
}

const BAD_KEY: &[u8] = b"ERR key is empty, or longer than 512 bytes; use another key";
const KEY_MAX: usize = bpfdb::abi::BPFDB_KEY_MAX as usize;

pub static DIFFERENCES: &[Difference] = &[
    Difference {
        name: "keys have at most 512 bytes",
        reason: "a key is part of a record of the index, whose operators copy it whole",
        diverges: true,
        explains: |asked, _, bpfdb| {
            is_error(bpfdb, BAD_KEY)
                && (asked.words.iter().chain(asked.queued.iter().flatten()))
                    .any(|word| word.len() > KEY_MAX)
        },
    },
    Difference {
        name: "accesses are not recorded",
        reason: "reads do not write",
        diverges: false,
        explains: |_, redis, bpfdb| {
            redis.number().is_some()
                && is_error(
                    bpfdb,
                    b"ERR accesses are not recorded with maxmemory-policy noeviction, idle time not tracked.",
                )
        },
    },
    Difference {
        name: "MEMORY USAGE does not see what has expired",
        reason: "nobody does, from its time on; Redis sees it until it is touched",
        diverges: false,
        explains: |asked, redis, bpfdb| {
            asked.words[0].eq_ignore_ascii_case(b"memory")
                && redis.number().is_some()
                && bpfdb.is_nil
        },
    },
    Difference {
        name: "DBSIZE does not count what is set with a time that is over",
        reason: "it is never there; Redis counts it until it is touched",
        diverges: false,
        explains: |asked, redis, bpfdb| {
            asked.words[0].eq_ignore_ascii_case(b"dbsize")
                && redis
                    .number()
                    .is_some_and(|more| bpfdb.number().is_some_and(|less| more > less))
        },
    },
];

/// Also as one of the results of EXEC, or as the reason why it has rolled back.
fn is_error(reply: &Reply, text: &[u8]) -> bool {
    const ROLLED_BACK: &[u8] = b"EXECABORT Transaction rolled back: ";
    let reason = reply.text.strip_prefix(ROLLED_BACK);
    let rolled_back = reason.is_some() && reason == text.strip_prefix(b"ERR ");
    reply.is_error() && (reply.text == text || rolled_back)
        || reply.items.iter().any(|item| is_error(item, text))
}

pub fn explain(asked: &Asked<'_>, redis: &Reply, bpfdb: &Reply) -> Option<&'static Difference> {
    DIFFERENCES
        .iter()
        .find(|difference| (difference.explains)(asked, redis, bpfdb))
}
