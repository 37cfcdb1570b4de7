/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Cold values: a version whose bytes are in a file of the data directory, a *run*
 * (docs/decisions/0034-cold-values.md). It has the form of a large value, whatever its
 * length, and its table (struct bpfdb_large) has a place in a run and no pieces. So whatever leaves
 * large values to user space leaves cold ones to it, and key, lock, timestamp, type and expiry
 * stay where they are.
 *
 * What a version held before, when its value goes to a run or comes back, is *retired*:
 *
 *   in the version ──swap──► engine.retired ──cold_retire──► engine.retiring
 *                                          ──grace period, cold_dispose──► free
 *
 * Invariants
 *  1. No byte of a table changes while a version names it. A cold table has one holder.
 *  2. A program that reads by a snapshot does not look at the record again after it has copied
 *     (invariant 4 of snapshot.bpf.h). So what a swap takes out of a version is given back only
 *     after a grace period: every program that found it there has ended. What begins after the
 *     swap finds the other form of the same version.
 *  3. engine.runs counts the cold tables there are, by their run. A value is counted down when
 *     its table is freed. So a run whose count is 0 can go.
 *  4. One caller at a time calls cold_retire and cold_dispose: the owner of the engine. What an
 *     owner leaves when it dies the next one finds.
 */
#ifndef BPFDB_COLD_BPF_H
#define BPFDB_COLD_BPF_H

#include "large.bpf.h"

/* The table of a cold value of `len` bytes, held once: its address, 0 if there is no memory, not
 * even in the reserve. */
static __always_inline u64 cold_create(u64 len, const struct bpfdb_place *place)
{
	u64 address = slot_alloc_for(sizeof(struct bpfdb_large), FOR_FREEING);
	struct bpfdb_large *large = address ? bpfdb_at(address) : NULL;

	if (!large)
		return 0;
	large_init(large, len);
	large->place = *place;
	run_use_add(large, 1);
	return address;
}

/* Room for what a swap will take out of a version; 0: no memory. */
static __always_inline u64 retired_create(void)
{
	return slot_alloc_for(sizeof(struct bpfdb_retired), FOR_FREEING);
}

/* Puts what a version held into the list. False: the list changed during every attempt, and the
 * memory is lost. */
static __always_inline bool retired_put(u64 address, u32 form, u64 data)
{
	struct bpfdb_retired *retired = bpfdb_at(address);

	if (!retired)
		return false;
	retired->form = form;
	retired->data = data;
	repeat(i, BPFDB_READ_TRIES)
	{
		u64 first = LOAD(engine.retired.value);

		STORE(retired->next, first);
		if (CAS(&engine.retired.value, first, address) == first)
			return true;
	}
	COUNT(memory_lost);
	return false;
}

#endif
