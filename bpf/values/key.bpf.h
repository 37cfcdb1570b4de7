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
	if (s->key[0] == BPFDB_RESERVED_KEYS)
		return false;
	s->key[1] = load8(from + 8);
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
