/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Scans of user space: the keys go into the session's io buffer. */
#ifndef BPFDB_DRIVER_SCAN_BPF_H
#define BPFDB_DRIVER_SCAN_BPF_H

#include "../operators/scan.bpf.h"
#include "io.bpf.h"

/* The keys of one bucket take at most this much of the buffer. */
#define SCAN_KEY_SIZE (sizeof(u64) + BPFDB_KEY_MAX)
#define SCAN_BUCKET_SIZE (BPFDB_NEIGHBOURHOOD * SCAN_KEY_SIZE)
#define SCAN_OFFSET_MAX (BPFDB_IO_SIZE - SCAN_BUCKET_SIZE)

struct scan {
	u64 cursor;
	u32 session, io;
	u32 offset; /* where the next key goes */
	u32 keys;
	u32 wanted; /* keys after which to stop */
	u32 buckets; /* visited */
	u32 keyspaces; /* a set of them: of these it finds keys */
	int status;
};

/* Appends the key in the cell at `address`. 0: it is void by now. */
__noinline int scan_put(struct scan *scan NONNULL, u64 address)
{
	struct bpfdb_cell *cell = bpfdb_at(address);
	u64 *out = io_at(scan->io, scan->offset);
	void *slot;
	u32 len;

	if (!cell || !out)
		return 0;
	len = cell_key_len(cell);
	if (len > BPFDB_KEY_MAX)
		return 0;
	out[0] = len;
	if (key_is_inline(len)) {
		out[1] = LOAD(cell->key[0]);
		out[2] = LOAD(cell->key[1]);
	} else {
		slot = bpfdb_at(LOAD(cell->key[0]));
		if (!slot)
			return 0;
		bpf_probe_read_kernel(out + 1, len, slot);
	}
	scan->offset += sizeof(u64) + ((len + 7) & ~7u);
	scan->keys++;
	return 1;
}

/* Is the key in this cell one of those that the scan is of? */
static __always_inline bool scan_wants(const struct scan *scan, const struct bpfdb_cell *cell)
{
	return scan->keyspaces >> keyspace_of(cell_key_word(cell), cell_key_len(cell)) & 1;
}

/* The key in the cell at `address`, if it has a value: OK, or CONFLICT. */
__noinline int scan_cell(struct scan *scan NONNULL, u64 address)
{
	struct bpfdb_session *s = bpfdb_session(scan->session);
	struct bpfdb_cell *cell = bpfdb_at(address);
	int seen;

	if (!s || !cell || !scan_wants(scan, cell))
		return BPFDB_OK;
	if (s->state == BPFDB_TXN_WRITE)
		seen = scan_sees_locked(s, address);
	else
		seen = scan_sees(s, address);
	if (seen == 1)
		scan_put(scan, address);
	return seen == BPFDB_CONFLICT ? BPFDB_CONFLICT : BPFDB_OK;
}

/* The keys in the cells of a bucket. */
static __always_inline int scan_cells(struct scan *scan, const struct bucket *b)
{
	u32 bitmap = b->home & BPFDB_HOME_BITMAP_MASK;
	int status = BPFDB_OK;

	repeat(i, BPFDB_NEIGHBOURHOOD)
	{
		if (!(bitmap >> i))
			break;
		if (bitmap >> i & 1)
			status = scan_cell(scan, cell_address(b->page, b->index + i));
		if (status != BPFDB_OK)
			break;
	}
	return status;
}

/*
 * Visits the bucket at the cursor. OK, CONFLICT, or RETRY if it changed meanwhile. While
 * the home word is the same, its cells hold the same keys: a record comes, goes
 * and moves by a change of that word. An operator that has it latched may be about to insert one,
 * which the scan lock does not keep it from any more.
 */
__noinline int scan_bucket(struct scan *scan NONNULL)
{
	struct bpfdb_session *s = bpfdb_session(scan->session);
	u32 offset = scan->offset, keys = scan->keys;
	struct bucket b = {};
	int status;

	if (!s)
		return BPFDB_BAD_REQUEST;
	status = bucket_find(scan_hash(scan->cursor), &b);
	if (status != BPFDB_OK)
		return status;
	if ((b.home & BPFDB_HOME_LATCH) && s->state == BPFDB_TXN_WRITE)
		return RETRY;
	status = scan_cells(scan, &b);
	if (status != BPFDB_OK)
		return status;
	if (!bucket_unchanged(&b)) {
		scan->offset = offset;
		scan->keys = keys;
		return RETRY;
	}
	scan->cursor = scan_next(scan->cursor, b.level);
	return BPFDB_OK;
}

static long scan_step(u64 i, struct scan *scan)
{
	int status = RETRY;

	if (scan->cursor >= SCAN_END || scan->keys >= scan->wanted ||
	    scan->offset > SCAN_OFFSET_MAX)
		return 1;
	repeat(j, BPFDB_READ_TRIES)
	{
		status = scan_bucket(scan);
		if (status != RETRY)
			break;
		COUNT(read_retries);
	}
	scan->buckets++;
	scan->status = status == RETRY ? BPFDB_EXHAUSTED : status;
	return scan->status != BPFDB_OK;
}

/* Up to `buckets` buckets, if the session may run a statement now. */
static __always_inline int scan_run(struct scan *scan, struct bpfdb_session *s, u32 buckets)
{
	if (unlikely(s->state == BPFDB_TXN_FINISHING))
		bpfdb_settle(s);
	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	scan->status = scan_ready(s, scan->keyspaces);
	if (scan->status == BPFDB_OK) {
		bpf_loop(buckets, scan_step, scan, 0);
		if (scan->status == BPFDB_EXHAUSTED && s->state == BPFDB_TXN_WRITE)
			scan->status = conflict(s, BPFDB_CONFLICT_BUSY, 0);
		scan->status = scan_result(s, scan->status);
	}
	if (s->state == BPFDB_TXN_READ && !snapshot_is_registered(s))
		scan->status = BPFDB_SNAPSHOT_TOO_OLD;
	txn_touch(s);
	return session_leave(s, scan->status);
}

/* ctx: session, io buffer, which holds a struct bpfdb_scan. */
static __noinline int run_scan(struct bpf_raw_tracepoint_args *ctx)
{
	struct scan scan = {
		.session = ctx->args[1],
		.io = ctx->args[2],
		.offset = sizeof(struct bpfdb_scan),
	};
	struct bpfdb_session *s = bpfdb_session(scan.session);
	struct bpfdb_scan *request = io_at(scan.io, 0);
	u32 buckets;
	int status;

	if (!s || !request)
		return BPFDB_BAD_REQUEST;
	scan.cursor = request->cursor;
	scan.wanted = request->keys;
	scan.keyspaces = request->keyspaces;
	buckets = request->buckets;
	if (buckets > BPFDB_SCAN_BUCKETS_MAX)
		buckets = BPFDB_SCAN_BUCKETS_MAX;
	status = scan_run(&scan, s, buckets);
	request->cursor = scan.cursor < SCAN_END ? scan.cursor : 0;
	request->keys = scan.keys;
	request->buckets = scan.buckets;
	return status;
}

#endif
