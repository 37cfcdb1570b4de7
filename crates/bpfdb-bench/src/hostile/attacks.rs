//! Which attacks there are.

use anyhow::Result;

use super::attacker::AttackState;
use super::{connections, requests};

pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) threads: usize,
    /// Says when it is ready, and ends when it is over.
    pub(super) run: fn(&AttackState<'_>) -> Result<()>,
}

const fn attack(
    name: &'static str,
    threads: usize,
    run: fn(&AttackState<'_>) -> Result<()>,
) -> Attack {
    Attack { name, threads, run }
}

/// Those in a loop have two threads, as many as the smallest machine has
/// processors. The first two are no attacks: they tell what the others are to be
/// compared with.
pub(super) const ATTACKS: [Attack; 13] = [
    attack("none", 1, requests::none),
    attack("two busy loops", 2, requests::busy),
    attack("lengths too large", 2, requests::too_large),
    attack("negative lengths", 2, requests::negative),
    attack("truncated, then reset", 2, requests::truncated),
    attack("endless, 16 MB/s", 1, requests::endless_trickle),
    attack("endless, full speed", 1, requests::endless),
    attack("lines of garbage", 2, requests::garbage),
    attack("connect, PING, reset", 2, connections::churn),
    attack("half-open requests", 1, connections::half_open),
    attack("idle connections", 1, connections::idle),
    attack("slow readers, 48 KiB", 1, connections::slow_readers),
    attack("slow readers, 1 MiB", 1, connections::slow_readers_of_large),
];
