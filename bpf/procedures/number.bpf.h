/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Numbers of a procedure, whole ones within 2^53, and their texts. */
#ifndef BPFDB_PROCEDURES_NUMBER_BPF_H
#define BPFDB_PROCEDURES_NUMBER_BPF_H

#include "frame.bpf.h"
#include "integer.bpf.h"

/* Up to this Lua's numbers are exact. */
#define NUMBER_MAX (1LL << 53)
/* Digits of 2^53. */
#define NUMBER_DIGITS 16
/* The text of a number ends here, in `text` of the frame. */
#define NUMBER_END 32

_Static_assert(sizeof(((struct bpfdb_frame *)0)->text) == NUMBER_END, "it is the end");

/* Writes a number to the end of the frame's text: its length. */
static __always_inline u32 number_write(struct bpfdb_frame *f, s64 value)
{
	u64 number = value < 0 ? -(u64)value : value;
	u32 start = NUMBER_END;
	u8 *text = (u8 *)f->text;

	for (u32 i = 0; i < INTEGER_DIGITS + 1; i++) {
		text[--start & (NUMBER_END - 1)] = '0' + number % 10;
		number /= 10;
		if (!number)
			break;
	}
	if (value < 0)
		text[--start & (NUMBER_END - 1)] = '-';
	f->digits = NUMBER_END - start;
	return NUMBER_END - start;
}

/* The text that number_write() left, as up to three words; 24 bytes may be read. */
static __always_inline const u8 *number_text(struct bpfdb_frame *f, u64 len)
{
	OPAQUE(len);
	return (u8 *)f->text + ((NUMBER_END - len) & (NUMBER_END - 1));
}

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
	u32 len = number_write(f, value);
	const u8 *from = number_text(f, len);
	u8 *to = heap_at(f, place);
	u64 second = load8(from + 8), third = load8(from + 16);

	*(u64 *)to = load8(from);
	*(u64 *)(to + 8) = second;
	*(u64 *)(to + 16) = third;
	return len;
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
