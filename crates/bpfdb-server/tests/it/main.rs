//! The tests of this crate that need nothing private: one program, a module for each subject.

mod apart;
mod blocking;
mod blocks;
mod changes;
mod clients;
mod cold_reads;
mod conflicts;
mod connections;
mod databases;
mod differential;
mod differential_errors;
mod dumped;
mod durability;
mod event_loop;
mod eviction;
mod exposure;
mod functions;
mod generated;
mod groups;
mod hashes_and_sets;
mod held_disk;
mod hostile;
mod isolation;
mod keyspace_events;
mod large;
mod large_collections;
mod large_in_kernel;
mod large_memory;
mod limits;
mod listings;
mod local;
mod long_blocks;
mod long_streams;
mod look_ups;
mod multi;
mod operation;
mod park;
mod pipelines;
mod preempted;
mod prefetch;
mod procedures;
mod protocol;
mod publish;
mod replies;
mod scripts;
mod snapshots;
mod synchronous;
mod tables;
mod transactions;
mod value_types;
mod waiting;

/// Not a test: the process of a server, which tests start (`bpfdb_tests::server::process`).
#[test]
#[ignore = "run by the tests"]
fn server_process() {
    bpfdb_tests::server::process::serve();
}
