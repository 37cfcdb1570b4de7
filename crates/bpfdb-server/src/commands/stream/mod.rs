//! Streams: entries with ascending identifiers, read by any client and by groups of consumers.
//!
//! ```text
//! store.rs      how a stream is read and written
//! ids.rs        identifiers in arguments
//! entries.rs    entries in replies
//! ranges.rs     XRANGE, XREVRANGE
//! trimming.rs   which entries XADD and XTRIM remove
//! reading.rs    XREAD, XREADGROUP
//! claims.rs     XCLAIM, XAUTOCLAIM
//! ```

mod claims;
mod entries;
mod ids;
mod ranges;
mod reading;
mod store;
mod trimming;
mod xack;
mod xadd;
mod xautoclaim;
mod xclaim;
mod xdel;
mod xgroup;
mod xinfo;
mod xlen;
mod xpending;
mod xrange;
mod xread;
mod xreadgroup;
mod xrevrange;
mod xsetid;
mod xtrim;

use super::definition::Command;

/// The event of a consumer that a group has got.
const NEW_CONSUMER: &str = "xgroup-createconsumer";

pub(super) static COMMANDS: &[&Command] = &[
    &xack::COMMAND,
    &xadd::COMMAND,
    &xautoclaim::COMMAND,
    &xclaim::COMMAND,
    &xdel::COMMAND,
    &xgroup::COMMAND,
    &xinfo::COMMAND,
    &xlen::COMMAND,
    &xpending::COMMAND,
    &xrange::COMMAND,
    &xread::COMMAND,
    &xreadgroup::COMMAND,
    &xrevrange::COMMAND,
    &xsetid::COMMAND,
    &xtrim::COMMAND,
];
