/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * When records were removed. A record whose last version is a deletion, or has
 * expired, leaves the index, and its timestamp with it. WATCH must know all the
 * same that a key which is absent now had a value for a while
 * (operators/watch.bpf.h): so the timestamp stays in a table, by the hash of the
 * key. A slot holds the latest of all keys that share it.
 *
 * The slot is raised before the record leaves its bucket: a reader that does not find the
 * record and reads the slot afterwards finds the timestamp.
 */
#ifndef BPFDB_REMOVAL_BPF_H
#define BPFDB_REMOVAL_BPF_H

#include "history.bpf.h"

static __always_inline u64 *removal_slot(u64 hash)
{
	u32 slot = hash & (BPFDB_REMOVALS - 1);

	return bpf_map_lookup_elem(&removals, &slot);
}

/* No key with this hash was removed by a later commit, for all that is known. */
static __always_inline u64 removal_stamp(u64 hash)
{
	u64 *slot = removal_slot(hash);

	return slot ? LOAD(*slot) : BPFDB_STAMP_MASK;
}

/* A record is about to leave. False if others were faster all the time: it must
 * stay then. A placeholder was never written: its timestamp is 0. */
static __always_inline bool removal_note(u64 hash, u64 stamp)
{
	u64 *slot;

	if (!stamp)
		return true;
	slot = removal_slot(hash);
	if (!slot)
		return false;
	repeat(i, BPFDB_TRIES)
	{
		u64 latest = LOAD(*slot);

		if (latest >= stamp || CAS(slot, latest, stamp) == latest)
			return true;
	}
	return false;
}

#endif
