//! The compiled programs of `bpf` that only the benchmarks load.

include!(concat!(env!("OUT_DIR"), "/objects.rs"));
