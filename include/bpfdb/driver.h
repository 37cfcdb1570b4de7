/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What user space has the engine's program do (BPF_PROG_RUN of bpfdb_run). From the list
 * follow the numbers and the dispatch in bpf/driver/driver.bpf.h.
 *
 * X(NAME, call): the call that does it, given the program's `ctx`. The functions are in
 * bpf/driver and say what their arguments and results are.
 */
#ifndef BPFDB_DRIVER_H
#define BPFDB_DRIVER_H

/* Words of the program's context: the number of the call, and up to five arguments. */
#define BPFDB_DRIVER_WORDS 6

#define BPFDB_DRIVER_LIST(X)                                                                       \
	X(REQUESTS, run_requests(ctx))                                                             \
	X(OPEN, run_open(ctx))                                                                     \
	X(CLOSE, run_close(ctx))                                                                   \
	X(CLOCK, run_clock())                                                                      \
	X(SCAN, run_scan(ctx))                                                                     \
	X(CHECKPOINT, run_checkpoint(ctx))                                                         \
	X(LOCK, run_lock(ctx))                                                                     \
	X(LOG_READ, run_log_read(ctx))                                                             \
	X(LOG_RELEASE, run_log_release(ctx))                                                       \
	X(PRESIZE, run_presize(ctx))                                                               \
	X(SPLIT_ANYWAY, run_split_anyway(ctx))                                                     \
	X(SAMPLE, run_sample(ctx))                                                                 \
	X(CLOSE_SLAB, run_close_slab(ctx))                                                         \
	X(SWEEP, run_sweep(ctx))                                                                   \
	X(REAP, run_reap())                                                                        \
	X(RECLAIM, run_reclaim(ctx))                                                               \
	X(MERGE, run_merge(ctx))                                                                   \
	X(RELEASE, run_release(ctx))                                                               \
	X(RETIRE, run_retire())                                                                    \
	X(RETIRED, run_retired(ctx))

#define BPFDB_DRIVER_NUMBER(name, call) BPFDB_DRIVER_##name,
enum bpfdb_driver_call { BPFDB_DRIVER_LIST(BPFDB_DRIVER_NUMBER) };

#endif
