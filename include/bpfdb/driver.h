/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What user space has the engine's programs do (BPF_PROG_RUN), as a list for each of them: from
 * these follow the numbers and the dispatch in bpf/driver/driver.bpf.h. bpfdb_run is loaded with the
 * engine, and each of the others when the first of its calls is made (crates/bpfdb/src/driver.rs).
 *
 * X(NAME, call): the call that does it, given the program's `ctx`. The functions are in
 * bpf/driver and say what their arguments and results are.
 */
#ifndef BPFDB_DRIVER_H
#define BPFDB_DRIVER_H

/* Words of a program's context: the number of the call, and up to five arguments. */
#define BPFDB_DRIVER_WORDS 6

/* bpfdb_run */
#define BPFDB_DRIVER_LIST(X)                                                                       \
	X(REQUESTS, run_requests(ctx))                                                             \
	X(OPEN, run_open(ctx))                                                                     \
	X(CLOSE, run_close(ctx))                                                                   \
	X(CLOCK, run_clock())                                                                      \
	X(LOCK, run_lock(ctx))                                                                     \
	X(LOG_READ, run_log_read(ctx))                                                             \
	X(LOG_RELEASE, run_log_release(ctx))                                                       \
	X(PRESIZE, run_presize(ctx))                                                               \
	X(SPLIT_ANYWAY, run_split_anyway(ctx))                                                     \
	X(CLOSE_SLAB, run_close_slab(ctx))                                                         \
	X(SWEEP, run_sweep(ctx))                                                                   \
	X(RECLAIM, run_reclaim(ctx))                                                               \
	X(MERGE, run_merge(ctx))                                                                   \
	X(RELEASE, run_release(ctx))                                                               \
	X(RETIRE, run_retire())                                                                    \
	X(RETIRED, run_retired(ctx))

/* bpfdb_run_walks: over all records, step by step. */
#define BPFDB_WALK_LIST(X)                                                                         \
	X(SCAN, run_scan(ctx))                                                                     \
	X(CHECKPOINT, run_checkpoint(ctx))                                                         \
	X(SAMPLE, run_sample(ctx))

/* bpfdb_run_eviction: the operators of BPFDB_EVICTION_OPERATOR_LIST (bpfdb/operators.h). */
#define BPFDB_EVICTION_LIST(X) X(EVICTION_REQUESTS, run_eviction_requests(ctx))

/* bpfdb_run_reaper: what the timer does by itself. */
#define BPFDB_REAPER_LIST(X) X(REAP, run_reap())

#define BPFDB_DRIVER_NUMBER(name, call) BPFDB_DRIVER_##name,
enum bpfdb_driver_call {
	BPFDB_DRIVER_LIST(BPFDB_DRIVER_NUMBER)
	/* Those that follow are of bpfdb_run_walks. No call has this number. */
	BPFDB_DRIVER_WALKS,
	BPFDB_WALK_LIST(BPFDB_DRIVER_NUMBER)
	/* The same for bpfdb_run_eviction. */
	BPFDB_DRIVER_EVICTION,
	BPFDB_EVICTION_LIST(BPFDB_DRIVER_NUMBER)
	/* And for bpfdb_run_reaper. */
	BPFDB_DRIVER_REAPER,
	BPFDB_REAPER_LIST(BPFDB_DRIVER_NUMBER)
};

#endif
