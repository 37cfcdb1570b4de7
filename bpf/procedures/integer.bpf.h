/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Integers in digits, as clients and procedures write them. */
#ifndef BPFDB_PROCEDURES_INTEGER_BPF_H
#define BPFDB_PROCEDURES_INTEGER_BPF_H

#include "../operators/common.bpf.h"

/* Digits of any integer of 64 bits. */
#define INTEGER_DIGITS 19

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

#endif
