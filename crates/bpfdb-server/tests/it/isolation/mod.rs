//! The suites of histories, anomalies and stress (`bpfdb-tests`), with procedures as clients: each
//! transaction is one call. On every path that a call can take, and beside all other clients.
//!
//! ```text
//! paths.rs       the ways of a call, and what has answered it
//! clients.rs     clients that hand over whole transactions
//! histories.rs   random transactions (histories.lua), which the checker of bpfdb-model judges
//! anomalies.rs   transactions that an anomaly would break (anomalies.lua), and what it would break
//! steps.rs       the same transactions step by step
//! actors.rs      the clients that run them
//! named.rs       each anomaly is looked for
//! money.rs       transfers and audits (money.lua): the sum is the same at every moment
//! stress.rs      counters, whole values, keys that come and go, a shortage of memory (stress.lua)
//! stress/        growth, memory after long overwriting, snapshots
//! collections/   the same of hashes, lists, sets and sorted sets, by commands
//! ```
//!
//! A run can fail: without BEGIN and COMMIT around it, each of these transactions is noticed.

mod actors;
mod anomalies;
mod clients;
mod collections;
use bpfdb_tests::server as common;
mod histories;
mod money;
mod named;
mod paths;
mod steps;
mod stress;

use std::sync::{Mutex, MutexGuard, PoisonError};

use bpfdb_tests::settings;
use common::Reply;

/// As many of something, or as many as an emulated machine can do.
fn volume(count: usize) -> usize {
    match settings::is_emulated() {
        true => count.div_ceil(10),
        false => count,
    }
}

/// `make test` has this scale, and `make soak` a larger one.
const SHORT: usize = 1;

/// Of random choices: the same ones in each run of `make test`, others in each soak.
fn seed(scale: usize) -> u64 {
    settings::number("BPFDB_SEED").unwrap_or_else(|| match scale {
        SHORT => 1,
        _ => settings::fresh_seed(),
    })
}

/// Does the error say that another client was in the way, with a lock or with a snapshot?
fn is_refusal(reply: &Reply) -> bool {
    reply.text.starts_with(b"CONFLICT ") || reply.text.starts_with(b"ERR every version of this key")
}

/// One run at a time: they share servers, and are about parallelism of their own.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
