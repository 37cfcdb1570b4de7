/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * A pass over all records, for a checkpoint: page by page, while all sessions go on reading
 * and writing, and without a snapshot, which would cost writers versions.
 * docs/decisions/0019-checkpoints.md has the argument why that is enough.
 *
 * Invariants
 *  1. All commits with a timestamp up to the pass's epoch are decided before it begins: the
 *     log has them. So what the latest version is does not change under the pass but by a
 *     commit with a later timestamp.
 *  2. A record is taken with its latest committed version, if that has a timestamp up to the
 *     epoch. One with a later timestamp is left out: the log has that write.
 *  3. A version is taken whatever its expiry says. Only what is too long for a step is read by
 *     its key later, and is left out if it has expired by then.
 *  4. Every key whose record is there during all of the pass is visited at least once.
 *
 * The cursor is the page part of a scan's position (scan.bpf.h): the page bits of the hash,
 * the lowest first. A pass over the page at the cursor visits the homes 0 to 1023, and finds
 * the bucket of cursor and home by the index as it is at this moment, be the page split or
 * merged meanwhile. Each bucket is taken whole; its home word, the same before and after,
 * says level and members: at that moment a bucket of level L held all keys of its home in an
 * interval of 2^(22 - L) positions, which the cursor is in. Then the cursor goes on behind the
 * smallest of these intervals, that of the greatest level. Each of the buckets covered at
 * least what lies between, so each key of it that stays was visited: invariant 4, by
 * induction. Splits and merges cause nothing but keys that are found twice.
 *
 * (A scan has the home first because its step is a bucket, and what a merge brings to homes
 * that were visited before would be missed. Here the greatest level counts: it is the level
 * before the merge, and the cursor does not pass what came.)
 */
#ifndef BPFDB_OPERATORS_CHECKPOINT_BPF_H
#define BPFDB_OPERATORS_CHECKPOINT_BPF_H

#include "scan.bpf.h"

#define CHECKPOINT_END (1U << SCAN_PAGE_BITS)
_Static_assert(CHECKPOINT_END == BPFDB_CHECKPOINT_END, "user space knows it too");

/* The bits of a hash that make the index look at this cursor and home. */
static __always_inline u64 checkpoint_hash(u32 cursor, u32 home)
{
	return scan_hash((u64)home << SCAN_PAGE_BITS | cursor);
}

/* Where the cursor goes on, when `level` was the greatest of the page's buckets. */
static __always_inline u32 checkpoint_next(u32 cursor, u32 level)
{
	return scan_next(cursor, level);
}

/*
 * The timestamp of the version that was read of a cell with this header, if the header is the
 * same afterwards. A commit that was decided since it was read counts: by invariant 1 it is
 * after the epoch, so the record may be left out.
 */
static __always_inline u64 latest_stamp(const struct bpfdb_cell *cell, u64 header)
{
	struct bpfdb_session *owner;
	u64 word;

	if (likely(!(header & BPFDB_CELL_PENDING)))
		return version_stamp(&cell->head);
	owner = bpfdb_session(header_owner(header));
	word = owner ? LOAD_ACQUIRE(owner->commit) : 0;
	return commit_phase(word) == BPFDB_PHASE_COMMITTED ? word & BPFDB_PAYLOAD_MASK
							   : version_stamp(&cell->head);
}

/* Leaves the latest version of the record in the session, by its form (value_len) and words,
 * and its timestamp in *stamp. OK, RETRY or CORRUPT; it counts if the header is the same
 * afterwards. */
static __always_inline int latest_version(struct bpfdb_session *s, struct bpfdb_cell *cell,
					  u64 address, u64 header, u64 *stamp)
{
	int status = BPFDB_OK;

	if (likely(!(header & (BPFDB_CELL_PENDING | BPFDB_CELL_REPLACING))))
		take_version(s, LOAD(cell->head.meta), LOAD(cell->head.data[0]),
			     LOAD(cell->head.data[1]));
	else
		status = bpfdb_read_slow(s, address, header, LATEST);
	*stamp = latest_stamp(cell, header);
	return status;
}

#endif
