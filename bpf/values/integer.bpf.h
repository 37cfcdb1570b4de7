/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Integers of 64 bits: in digits, as clients and procedures write them, and as values. */
#ifndef BPFDB_VALUES_INTEGER_BPF_H
#define BPFDB_VALUES_INTEGER_BPF_H

#include "string.bpf.h"

/* Digits of any integer of 64 bits. */
#define INTEGER_DIGITS 19
/* Its longest text: with a sign, or without one and 2^63 or more. */
#define INTEGER_MAX_LEN (INTEGER_DIGITS + 1)
/* Memory in which integers are written: the digits end with its last byte. A power of two. */
#define INTEGER_END 32

/*
 * Parses a decimal integer of up to `digits_max` digits, of which as many bytes may be read, and
 * one more. `strict`: its shortest form only, as Redis wants it for INCR; what else Lua takes for
 * a number (spaces, fractions, hexadecimal digits) is the interpreter's.
 */
static __always_inline bool integer_of(const u8 *text, u32 len, u32 digits_max, bool strict,
				       s64 *value)
{
	bool negative = text[0] == '-';
	u64 number = 0, limit = ~0ULL >> 1;
	u32 digits = len - negative;

	if (!len || !digits || digits > digits_max)
		return false;
	for (u32 i = 0; i < digits_max + 1; i++) {
		u32 digit;

		if (i < negative)
			continue;
		if (i >= len)
			break;
		digit = text[i] - '0';
		if (digit > 9)
			return false;
		number = number * 10 + digit;
	}
	/* No leading zero, no minus zero. */
	if (strict && text[negative] == '0' && len > 1)
		return false;
	/* 19 digits do not overflow 64 bits without a sign. */
	if (number > limit + negative)
		return false;
	*value = negative ? -number : number;
	/* Lua has a minus zero. */
	return strict || !negative || number;
}

/* Writes the digits of a number before text[end]; where they begin. `size`, a power of two: bytes
 * of the text. */
static __always_inline u32 digits_write(u8 *text, u32 size, u32 end, u64 number)
{
	for (u32 i = 0; i < INTEGER_MAX_LEN; i++) {
		text[--end & (size - 1)] = '0' + number % 10;
		number /= 10;
		if (!number)
			break;
	}
	return end;
}

/*
 * Writes an integer before text[INTEGER_END], and leaves in *start where it begins; both are map
 * memory. Returns that, read anew: the verifier walks what follows once, not for each length.
 */
static __always_inline u32 integer_write(u8 *text, u32 *start, s64 value)
{
	u64 number = value < 0 ? -(u64)value : value;
	u32 at = digits_write(text, INTEGER_END, INTEGER_END, number);

	if (value < 0)
		text[--at & (INTEGER_END - 1)] = '-';
	*start = at;
	return LOAD(*start);
}

/* What integer_write() left, from where it begins. */
static __always_inline const u8 *integer_text(const u8 *text, u64 start)
{
	OPAQUE(start);
	return text + (start & (INTEGER_END - 1));
}

/* ---- Values -------------------------------------------------------------- */

/* What GET found as an integer, in the form that INCR takes. `text`, three words, is scratch. */
static __always_inline bool value_integer(const struct bpfdb_session *s, u64 *text, s64 *value)
{
	if (s->value_len > INTEGER_MAX_LEN)
		return false;
	text[0] = s->value[0];
	text[1] = s->value[1];
	if (s->value_len > BPFDB_INLINE_MAX) {
		const u64 *slot = bpfdb_at(s->value[0]);

		if (!slot)
			return false;
		text[0] = slot[0];
		text[1] = slot[1];
		text[2] = slot[2];
	}
	return integer_of((u8 *)text, s->value_len, INTEGER_DIGITS, true, value);
}

/*
 * INCRBY, after GET for update: adds `by` to the integer that was found, or to 0. False: what
 * was found is none, or the sum is none of 64 bits. `text` as above.
 */
static __always_inline bool integer_add(const struct bpfdb_session *s, u64 *text, bool found,
					s64 by, s64 *sum)
{
	s64 value = 0;

	if (found && !value_integer(s, text, &value))
		return false;
	if (__builtin_add_overflow(value, by, &value))
		return false;
	/* By way of memory: the verifier walks what follows once, not for each way of parsing. */
	text[0] = value;
	*sum = LOAD(text[0]);
	return true;
}

/* An integer becomes the value of the next SET: OK or an Error. As text it is in `text`, from
 * *start on. */
static __always_inline enum bpfdb_status integer_to_value(struct bpfdb_session *s, u8 *text,
							  u32 *start, s64 value)
{
	u32 at = integer_write(text, start, value);

	return value_from_memory(s, integer_text(text, at), INTEGER_END - at, INTEGER_END);
}

#endif
