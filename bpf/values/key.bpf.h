/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Keys: from where an operand is into the session, for the operators that follow. */
#ifndef BPFDB_VALUES_KEY_BPF_H
#define BPFDB_VALUES_KEY_BPF_H

#include "../operators/common.bpf.h"

/* Can a key have this length? */
static __always_inline bool key_fits(u32 len)
{
	return len && len <= BPFDB_KEY_MAX;
}

/*
 * A key that fits, in map memory of which 16 bytes may be read, becomes the session's, as far as
 * its first two words. False: it is reserved. key_words_copy() takes the rest, if there is one.
 */
static __always_inline bool key_begin(struct bpfdb_session *s, const u8 *from, u32 len)
{
	s->key_len = len;
	s->key[0] = load8(from);
	/* What stands behind a shorter key is no zero. */
	if (key_is_reserved(s->key[0]))
		return false;
	s->key[1] = load8(from + 8);
	return true;
}

/* May a key of this length be in this Redis database? */
static __always_inline bool key_fits_database(u32 len, u32 database)
{
	return key_fits(len) && (likely(!database) || len <= BPFDB_KEY_MAX - BPFDB_KEYSPACE_PREFIX);
}

/*
 * The same for a key in a Redis database that is not the first, all of it: a word that names the
 * database stands in front. Read as memory that may be anything, since the verifier walks a loop over
 * words at two positions for each length.
 */
static __always_inline bool key_begin_in(struct bpfdb_session *s, const u8 *from, u32 len,
					 u32 database)
{
	if (key_is_reserved(load8(from)))
		return false;
	s->key[0] = BPFDB_RESERVED_KEYS | (u64)database << BPFDB_KEYSPACE_SHIFT;
	s->key_len = len + BPFDB_KEYSPACE_PREFIX;
	OPAQUE(len);
	if (len > BPFDB_KEY_MAX - BPFDB_KEYSPACE_PREFIX)
		return false;
	bpf_probe_read_kernel(s->key + 1, len, from);
	return true;
}

/* All words of a long key, from map memory of which BPFDB_KEY_MAX bytes may be read. */
static __always_inline void key_words_copy(struct bpfdb_session *s, const u8 *from, u32 len)
{
	repeat(i, BPFDB_KEY_MAX / 8)
	{
		u64 offset = i;

		/* Not an induction variable of its own: the verifier would walk all rounds. */
		OPAQUE(offset);
		offset *= 8;
		if (offset >= len)
			break;
		offset &= BPFDB_KEY_MAX - 8;
		s->key[offset / 8] = load8(from + offset);
	}
}

#endif
