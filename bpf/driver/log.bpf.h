/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* For the writer of the log: large values, of which a ring has references only. */
#ifndef BPFDB_DRIVER_LOG_BPF_H
#define BPFDB_DRIVER_LOG_BPF_H

#include "large.bpf.h"

/* ctx: ring, position of a write in it, and the struct bpfdb_log_large so many bytes behind
 * that, which may be beyond the ring's end. */
static __always_inline struct bpfdb_log_large *log_large_at(struct bpf_raw_tracepoint_args *ctx)
{
	u64 behind = ctx->args[3];
	char *write = log_memory(ctx->args[1], ctx->args[2]);

	OPAQUE(behind);
	behind &= 2 * BPFDB_KEY_MAX - BPFDB_LOG_GRAIN;
	return write ? (void *)(write + behind) : NULL;
}

/* ctx: those, io buffer, offset in the value. Copies up to BPFDB_LARGE_PART bytes from there
 * to the beginning of the buffer; how many. */
static __noinline int run_log_read(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_log_large *value = log_large_at(ctx);
	u64 start = ctx->args[5], left;

	/* In whole pieces, so that they have their places in the buffer. */
	if (!value || !value->table || start >= value->len || start % BPFDB_PIECE_SIZE)
		return 0;
	left = value->len - start;
	if (left > BPFDB_LARGE_PART)
		left = BPFDB_LARGE_PART;
	return parts_store(value->table, ctx->args[4], 0, start, left) == BPFDB_OK ? left : 0;
}

/* ctx: the first three of those. Gives back the holder that the record is, once: the caller that
 * takes the address out of the ring does it. */
static __always_inline int run_log_release(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_log_large *value = log_large_at(ctx);
	u64 table = value ? SWAP(&value->table, 0) : 0;

	if (!table)
		return BPFDB_OK;
	ADD(&engine.log_holds.value, -1);
	return bpfdb_large_free(table);
}

#endif
