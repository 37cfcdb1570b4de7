//! Strings, and the bits in them.

mod append;
mod bitcount;
mod bitfield;
mod bitfield_ro;
mod bitop;
mod bitpos;
mod bits;
mod decr;
mod decrby;
mod fields;
mod get;
mod getbit;
mod getdel;
mod getex;
mod getrange;
mod getset;
mod incr;
mod incrby;
mod incrbyfloat;
mod lcs;
mod mget;
mod mset;
mod msetnx;
mod psetex;
mod set;
mod setbit;
mod setex;
mod setnx;
mod setrange;
mod strlen;
mod substr;

use super::definition::Command;

pub(super) static COMMANDS: &[&Command] = &[
    &append::COMMAND,
    &bitcount::COMMAND,
    &bitfield::COMMAND,
    &bitfield_ro::COMMAND,
    &bitop::COMMAND,
    &bitpos::COMMAND,
    &decr::COMMAND,
    &decrby::COMMAND,
    &get::COMMAND,
    &getbit::COMMAND,
    &getdel::COMMAND,
    &getex::COMMAND,
    &getrange::COMMAND,
    &getset::COMMAND,
    &incr::COMMAND,
    &incrby::COMMAND,
    &incrbyfloat::COMMAND,
    &lcs::COMMAND,
    &mget::COMMAND,
    &mset::COMMAND,
    &msetnx::COMMAND,
    &psetex::COMMAND,
    &set::COMMAND,
    &setbit::COMMAND,
    &setex::COMMAND,
    &setnx::COMMAND,
    &setrange::COMMAND,
    &strlen::COMMAND,
    &substr::COMMAND,
];
