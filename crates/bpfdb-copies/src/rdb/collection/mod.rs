//! Hashes, lists, sets and sorted sets in a file of Redis, and in what DUMP gives.
//!
//! ```text
//! type                       read from                          written
//!  1 list   2 set   4 hash   number, strings                    2, 4: beyond the limits
//!  3, 5     sorted set       number, members with their scores  5: beyond the limits
//!  9        hash             a zipmap
//! 10 12 13  list, sorted set, hash: a ziplist
//! 11        set              an intset                          few integers
//! 14        list             number, ziplists
//! 16 17 20  hash, sorted set, set: a listpack                   16, 17: within the limits
//! 18        list             number, listpacks and long elements always
//! 22 24, 22 of Valkey        hash with times of fields
//! 23 25     hash             a listpack with times of fields
//! ```
//!
//! Written is what Redis 7.0 writes of the same value, but for its compression. A hash one of whose
//! fields expires is no value of ours.

pub(super) mod read;
pub(super) mod write;
