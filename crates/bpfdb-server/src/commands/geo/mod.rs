//! Places, which are members of sorted sets.
//!
//! ```text
//! places.rs   places, distances and units in arguments and in replies
//! search.rs   GEOSEARCH, GEORADIUS and their kin
//! ```

mod geoadd;
mod geodist;
mod geohash;
mod geopos;
mod georadius;
mod georadius_ro;
mod georadiusbymember;
mod georadiusbymember_ro;
mod geosearch;
mod geosearchstore;
mod places;
mod search;

use super::definition::Command;

pub(super) static COMMANDS: &[&Command] = &[
    &geoadd::COMMAND,
    &geodist::COMMAND,
    &geohash::COMMAND,
    &geopos::COMMAND,
    &georadius::COMMAND,
    &georadius_ro::COMMAND,
    &georadiusbymember::COMMAND,
    &georadiusbymember_ro::COMMAND,
    &geosearch::COMMAND,
    &geosearchstore::COMMAND,
];
