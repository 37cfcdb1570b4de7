/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The programs that user space runs by BPF_PROG_RUN: the calls of bpfdb/driver.h.
 *
 * A start waits for bpfdb_run alone. It has what sessions of user space need all the time, and what
 * costs little besides: the verifier walks a global subprogram once for each program that calls it, and
 * most calls end in the same ones (rollback, history, slots).
 *
 * All but the requests are subprograms (`__noinline`): inlined, their variables would be on the
 * stack below each request, and all frames together have 512 bytes (Linux 6.12, clang 22).
 *
 * `raw_tp` programs and not `syscall` ones: the latter are sleepable. One could be preempted
 * while it holds a latch, and the grace period after which a page of the index is used for
 * something else does not wait for it.
 */
#ifndef BPFDB_DRIVER_BPF_H
#define BPFDB_DRIVER_BPF_H

#include "checkpoint.bpf.h"
#include "evict.bpf.h"
#include "cold.bpf.h"
#include "locks.bpf.h"
#include "log.bpf.h"
#include "maintain.bpf.h"
#include "presize.bpf.h"
#include "run.bpf.h"
#include "scan.bpf.h"

#define DRIVER_CALL(name, call)                                                                    \
	case BPFDB_DRIVER_##name: return call;

/* ctx of each: BPFDB_DRIVER_WORDS words, the number of the call and its arguments. */
SEC("raw_tp")
int bpfdb_run(struct bpf_raw_tracepoint_args *ctx)
{
	switch (ctx->args[0]) {
		BPFDB_DRIVER_LIST(DRIVER_CALL)
	default: return BPFDB_BAD_REQUEST;
	}
}

SEC("raw_tp")
int bpfdb_run_walks(struct bpf_raw_tracepoint_args *ctx)
{
	switch (ctx->args[0]) {
		BPFDB_WALK_LIST(DRIVER_CALL)
	default: return BPFDB_BAD_REQUEST;
	}
}

SEC("raw_tp")
int bpfdb_run_eviction(struct bpf_raw_tracepoint_args *ctx)
{
	switch (ctx->args[0]) {
		BPFDB_EVICTION_LIST(DRIVER_CALL)
	default: return BPFDB_BAD_REQUEST;
	}
}

SEC("raw_tp")
int bpfdb_run_reaper(struct bpf_raw_tracepoint_args *ctx)
{
	switch (ctx->args[0]) {
		BPFDB_REAPER_LIST(DRIVER_CALL)
	default: return BPFDB_BAD_REQUEST;
	}
}

#endif
