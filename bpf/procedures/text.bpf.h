/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Texts of a procedure: put together, compared, cut. */
#ifndef BPFDB_PROCEDURES_TEXT_BPF_H
#define BPFDB_PROCEDURES_TEXT_BPF_H

#include "number.bpf.h"

/*
 * A text is put together at the end of the heap: the generated program notes where it begins
 * (`building`), each of these adds a part, and rt_built() makes a value of it. In between
 * `heap_used` is the exact end.
 */
__noinline int rt_add(struct bpfdb_frame *f NONNULL, u64 text)
{
	u32 len = text_len(text), place = f->heap_used;

	if (len > BPFDB_CALL_TEXT_MAX || place + len > BPFDB_CALL_HEAP - 16)
		return BPFDB_DEOPTIMISATION_HEAP;
	heap_fill(f, place, heap_at(f, (u32)text), len);
	f->heap_used = place + len;
	return 0;
}

__noinline int rt_add_number(struct bpfdb_frame *f NONNULL, s64 value)
{
	u32 place = f->heap_used;

	if (place + 24 > BPFDB_CALL_HEAP - 16)
		return BPFDB_DEOPTIMISATION_HEAP;
	f->heap_used = place + number_to_heap(f, place, value);
	return 0;
}

__noinline int rt_built(struct bpfdb_frame *f NONNULL, u32 to)
{
	u32 place = f->building, len = f->heap_used - place;

	if (len > BPFDB_CALL_TEXT_MAX)
		return BPFDB_DEOPTIMISATION_HEAP;
	*register_at(f, to) = text_of(place, len);
	f->heap_used = (f->heap_used + 7) & ~7u;
	return 0;
}

/* What comparisons return if the call has run for as long as it may. */
#define NO_FUEL 3

/* Takes fuel for what is done besides rounds of loops. False: there is not so much. */
static __always_inline bool fuel_take(struct bpfdb_frame *f, u32 amount)
{
	if (f->fuel < amount)
		return false;
	f->fuel -= amount;
	return true;
}

/* 1 if both are the same, or NO_FUEL. */
__noinline int rt_equal(struct bpfdb_frame *f NONNULL, u64 a, u64 b)
{
	u32 len = text_len(a);

	if (len != text_len(b))
		return 0;
	if (!fuel_take(f, 1 + len / 32))
		return NO_FUEL;
	/* The place is kept in memory: in a register the verifier would follow each round. */
	f->place = 0;
	repeat(i, BPFDB_CALL_TEXT_MAX / 8 + 1)
	{
		u64 place = f->place, left, differs;

		if (place >= len)
			break;
		f->place = place + 8;
		left = len - place;
		differs = load8(heap_at(f, (u32)a + place)) ^ load8(heap_at(f, (u32)b + place));
		if (low_bytes(differs, left > 8 ? 8 : left))
			return 0;
	}
	return 1;
}

/* As strcmp() in the locale C, in which Redis compares: 0 less, 1 the same, 2 greater;
 * or NO_FUEL. */
__noinline int rt_compare(struct bpfdb_frame *f NONNULL, u64 a, u64 b)
{
	u32 a_len = text_len(a), b_len = text_len(b), len = a_len < b_len ? a_len : b_len;

	if (!fuel_take(f, 1 + len / 32))
		return NO_FUEL;
	f->place = 0;
	repeat(i, BPFDB_CALL_TEXT_MAX / 8 + 1)
	{
		u64 place = f->place, left, x, y;

		if (place >= len)
			break;
		f->place = place + 8;
		left = len - place > 8 ? 8 : len - place;
		x = low_bytes(load8(heap_at(f, (u32)a + place)), left);
		y = low_bytes(load8(heap_at(f, (u32)b + place)), left);
		if (x != y)
			return __builtin_bswap64(x) < __builtin_bswap64(y) ? 0 : 2;
	}
	return a_len < b_len ? 0 : a_len == b_len ? 1 : 2;
}

/* string.sub: a part of the same bytes, nothing is copied. */
__noinline int rt_part(struct bpfdb_frame *f NONNULL, u64 text, s64 first, s64 last, u32 to)
{
	s64 len = text_len(text);

	if (first < 0)
		first = first + len < 0 ? 1 : first + len + 1;
	if (first < 1)
		first = 1;
	if (last < 0)
		last += len + 1;
	if (last > len)
		last = len;
	if (first > last)
		*register_at(f, to) = text_of((u32)text, 0);
	else
		*register_at(f, to) = text_of((u32)text + first - 1, last - first + 1);
	return 0;
}

/* KEYS[i], ARGV[i]; nil outside. */
__noinline int rt_word(struct bpfdb_frame *f NONNULL, u32 is_argument, s64 index, u32 to)
{
	u64 *words = is_argument ? f->argument_words : f->key_words;
	u32 count = is_argument ? f->arguments : f->keys;
	u64 at = index - 1;

	if (at >= count) {
		*tag_at(f, to) = BPFDB_TAG_NIL;
		return 0;
	}
	OPAQUE(at);
	*register_at(f, to) = words[at & (BPFDB_CALL_WORDS - 1)];
	*tag_at(f, to) = BPFDB_TAG_TEXT;
	return 0;
}

/* The same byte eight times. */
#define EIGHT(byte) (0x0101010101010101ULL * (byte))

/* Is one of these eight bytes a zero? (H. S. Warren, "Hacker's Delight", section 6-1.) */
static __always_inline bool has_zero(u64 word)
{
	return (word - EIGHT(0x01)) & ~word & EIGHT(0x80);
}

/* Can this text be a line of a reply as it is? */
__noinline int rt_line(struct bpfdb_frame *f NONNULL, u64 text)
{
	u32 len = text_len(text);

	if (len > BPFDB_CALL_LINE_MAX)
		return BPFDB_DEOPTIMISATION_LINE;
	if (!fuel_take(f, 1 + len / 32))
		return BPFDB_DEOPTIMISATION_FUEL;
	f->place = 0;
	repeat(i, BPFDB_CALL_LINE_MAX / 8)
	{
		u64 place = f->place, left, word;

		if (place >= len)
			break;
		f->place = place + 8;
		left = len - place;
		word = load8(heap_at(f, (u32)text + place));
		/* What stands behind the text is taken for blanks. */
		if (left < 8)
			word = low_bytes(word, left) | EIGHT(' ') << left * 8;
		/* Redis ends a line at a zero. */
		if (has_zero(word) || has_zero(word ^ EIGHT('\r')) || has_zero(word ^ EIGHT('\n')))
			return BPFDB_DEOPTIMISATION_LINE;
	}
	return 0;
}

#endif
