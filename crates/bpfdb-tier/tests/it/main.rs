//! Tests of `bpfdb-tier`.

mod engine;
mod eviction;
mod files;
