/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Sets of integers: as long as a set has had nothing else and is small, its run is in ascending order,
 * in which Redis replies such a set.
 */
#ifndef BPFDB_VALUES_INTEGER_SET_BPF_H
#define BPFDB_VALUES_INTEGER_SET_BPF_H

#include "packed.bpf.h"

/* Is the run in the session in ascending order? */
static __always_inline bool run_is_of_integers(struct bpfdb_session *s)
{
	const struct packed *run = packed_header(s);

	return run && !(run->flags & (PACKED_NOT_INTEGERS | PACKED_NOT_COMPACT));
}

/*
 * Is the integer at `at` of the run below this one? Both are in their shortest form: of two with the
 * same sign the longer one has the greater magnitude, and of two as long the one that is greater byte
 * by byte.
 */
static __always_inline bool entry_integer_below(struct bpfdb_session *s, const u8 *run,
						const struct packed_key *key, u32 at, u32 len)
{
	const u8 *entry = packed_bytes(run, at);
	u32 entry_len = load4(entry) & PACKED_BYTES_MAX;
	bool entry_negative = entry[PACKED_ENTRY] == '-', negative = key->bytes[0] == '-', below;

	if (entry_negative != negative)
		return entry_negative;
	below = entry_len != len ? entry_len < len : packed_key_below(s, key, at, len);
	return below != negative;
}

/* Leaves *e, whose cut is 0, at the first integer of the run that is above the one in `key`, of e->key_len
 * bytes, or behind all. The run does not have that one. */
__noinline int packed_integer_place(struct bpfdb_session *s NONNULL,
				    const struct packed_key *key NONNULL,
				    struct packed_entry *e NONNULL)
{
	const struct packed *run = packed_header(s);

	e->cut = 0;
	e->at = PACKED_HEADER;
	if (!run)
		return 0;
	e->left = LOAD(run->count);
	repeat(i, PACKED_WALK_MAX)
	{
		u32 header;

		if (!e->left)
			break;
		if (!entry_integer_below(s, (const u8 *)run, key, e->at, e->key_len))
			break;
		header = load4(packed_bytes((const u8 *)run, e->at));
		e->at += packed_size(header & PACKED_BYTES_MAX, header >> 16);
		e->left--;
	}
	return 0;
}

#endif
