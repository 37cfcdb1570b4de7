/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Numbers of a procedure, whole ones within 2^53, and their texts. */
#ifndef BPFDB_PROCEDURES_NUMBER_BPF_H
#define BPFDB_PROCEDURES_NUMBER_BPF_H

#include "frame.bpf.h"
#include "../values/integer.bpf.h"

/* Up to this Lua's numbers are exact. */
#define NUMBER_MAX (1LL << 53)
/* Digits of 2^53. */
#define NUMBER_DIGITS 16

_Static_assert(sizeof(((struct bpfdb_frame *)0)->text) == INTEGER_END, "the digits end there");

/* The number of a text; `strict`: in its shortest form only. */
__noinline int rt_number(struct bpfdb_frame *f NONNULL, u64 text, u32 to, u32 strict)
{
	s64 value = 0;

	if (!integer_of(heap_at(f, (u32)text), text_len(text), NUMBER_DIGITS, strict, &value))
		return BPFDB_DEOPTIMISATION_TEXT_IS_NO_NUMBER;
	if (value > NUMBER_MAX || value < -NUMBER_MAX)
		return BPFDB_DEOPTIMISATION_NUMBER_TOO_LARGE;
	*register_at(f, to) = value;
	return 0;
}

/* Writes the text of a number to a place in the heap with room for 24 bytes. */
static __always_inline u32 number_to_heap(struct bpfdb_frame *f, u32 place, s64 value)
{
	u8 *text = (u8 *)f->text, *to = heap_at(f, place);
	u32 start = integer_write(text, &f->digits, value);
	const u8 *from = integer_text(text, start);
	u64 second = load8(from + 8), third = load8(from + 16);

	*(u64 *)to = load8(from);
	*(u64 *)(to + 8) = second;
	*(u64 *)(to + 16) = third;
	return INTEGER_END - start;
}

/* The text of a number. */
__noinline int rt_text(struct bpfdb_frame *f NONNULL, s64 value, u32 to)
{
	u32 place = heap_take(f, 24);

	if (place == HEAP_FULL)
		return BPFDB_DEOPTIMISATION_HEAP;
	*register_at(f, to) = text_of(place, number_to_heap(f, place, value));
	return 0;
}

#endif
