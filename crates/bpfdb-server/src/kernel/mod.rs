//! The part of the server that runs in the kernel, as the daemon sees it: the programs of
//! `bpf/net` and `bpf/redis`, where they are attached, and the state that both sides share. `redis`, `apart`,
//! `procedures` and `waiting` are about Redis, and know the others; these are transport for any front end.

pub(crate) mod apart;
pub(crate) mod cgroup;
pub(crate) mod connections;
pub(crate) mod flags;
mod objects;
pub(crate) mod park;
pub(crate) mod prefetch;
pub(crate) mod procedures;
pub(crate) mod programs;
pub(crate) mod redis;
pub(crate) mod waiting;
pub(crate) mod workers;
