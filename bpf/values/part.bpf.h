/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Parts of strings: the memory of a session's value, for commands that look into it or change a
 * part. */
#ifndef BPFDB_VALUES_PART_BPF_H
#define BPFDB_VALUES_PART_BPF_H

#include "string.bpf.h"

struct part {
	u32 first;
	u32 len;
};

/* Bytes from start to end of a value of `len`; negative positions count from its end. */
static __always_inline struct part part_of(s64 start, s64 end, u32 len)
{
	struct part none = {};

	/* Else both might become 0. */
	if (start < 0 && end < 0 && start > end)
		return none;
	if (start < 0)
		start = start + len < 0 ? 0 : start + len;
	if (end < 0)
		end = end + len < 0 ? 0 : end + len;
	if (end >= len)
		end = (s64)len - 1;
	return start > end ? none : (struct part){start, end - start + 1};
}

/* Zeroes the words of a slot from the one with byte `from` up to byte `until`: OK or
 * CORRUPT. A subprogram, so that the verifier does not know where it begins: it would
 * walk all rounds. */
__noinline enum bpfdb_status words_clear(u64 address, u32 from, u32 until)
{
	u8 *slot = bpfdb_at(address);

	if (!slot)
		return BPFDB_CORRUPT;
	repeat(i, BPFDB_VALUE_MAX / 8)
	{
		u64 at = (from & ~7u) + (u64)i * 8;

		if (at >= until)
			break;
		OPAQUE(at);
		at &= BPFDB_VALUE_MAX - 8;
		*(u64 *)(slot + at) = 0;
	}
	return BPFDB_OK;
}

/*
 * Allocates the session's value anew, `len` bytes: not less than the one that GET left
 * there and locked, which is copied into it. What follows is zero up to byte `until`.
 * OK, or an Error.
 */
static __always_inline enum bpfdb_status value_again(struct bpfdb_session *s, u32 len, u32 until)
{
	u32 old = s->value_len;
	u64 a = s->value[0], b = s->value[1];
	void *from, *to;
	enum bpfdb_status status;

	if (old > BPFDB_VALUE_MAX || len > BPFDB_VALUE_MAX)
		return LEFT_TO_USER_SPACE;
	status = bpfdb_value_alloc(s, len);
	if (status != BPFDB_OK)
		return status;
	if (old <= BPFDB_INLINE_MAX) {
		b = old > 8 ? low_bytes(b, old - 8) : 0;
		a = low_bytes(a, old);
	}
	if (len <= BPFDB_INLINE_MAX) {
		s->value[0] = a;
		s->value[1] = b;
		return BPFDB_OK;
	}
	to = bpfdb_at(s->value[0]);
	if (!to || (old < until && words_clear(s->value[0], old, until) != BPFDB_OK))
		return BPFDB_CORRUPT;
	if (old <= BPFDB_INLINE_MAX) {
		((u64 *)to)[0] = a;
		((u64 *)to)[1] = b;
		return BPFDB_OK;
	}
	from = bpfdb_at(a);
	/* Again: clang 22 makes one comparison of the two above, from which the verifier
	 * (6.18) learns a bound that is twice as high. */
	OPAQUE(old);
	if (!from || old > BPFDB_VALUE_MAX)
		return BPFDB_CORRUPT;
	bpf_probe_read_kernel(to, old, from);
	return BPFDB_OK;
}

/* The value that GET left in the session becomes its value again. */
__noinline enum bpfdb_status value_copy(struct bpfdb_session *s NONNULL)
{
	return value_again(s, s->value_len, 0);
}

/* Where a byte of the session's value is, if that is inline; 16 may be read there. */
static __always_inline u8 *inline_byte(struct bpfdb_session *s, u64 at)
{
	OPAQUE(at);
	return (u8 *)s->value + (at & (BPFDB_INLINE_MAX - 1));
}

/* The same of a value in a slot, of which all that follows may be read. NULL: it was
 * given up meanwhile. */
static __always_inline u8 *slot_byte(struct bpfdb_session *s, u64 at)
{
	u8 *grain;

	OPAQUE(at);
	grain = bpfdb_at(s->value[0] + (at & ~(u64)(BPFDB_GRAIN - 1)));
	return grain ? grain + (at & (BPFDB_GRAIN - 1)) : NULL;
}

static __always_inline u8 *value_byte(struct bpfdb_session *s, u64 at)
{
	return s->value_len <= BPFDB_INLINE_MAX ? inline_byte(s, at) : slot_byte(s, at);
}

/* An absent value counts as an empty one: FOUND, or the Error that GET had. */
static __always_inline enum bpfdb_status value_or_empty(struct bpfdb_session *s,
							enum bpfdb_status status)
{
	if (status != BPFDB_NOT_FOUND)
		return status;
	s->value_len = 0;
	s->value[0] = s->value[1] = 0;
	/* Nor is there a slot that could be given up. */
	s->view_cell = 0;
	return BPFDB_FOUND;
}

#endif
