/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* A number in a value, and what is computed of many. */
#ifndef BPFDB_TABLE_FIELD_BPF_H
#define BPFDB_TABLE_FIELD_BPF_H

#include "block.bpf.h"

#define SIGN (1ULL << 63)

static __always_inline bool type_has_sign(u32 type)
{
	return type >= BPFDB_TABLE_I8;
}

static __always_inline u32 type_size(u32 type)
{
	return 1U << (type & 3);
}

/* A decimal number of `len` bytes as Redis writes it: no blank, no +, no zero in front of others. It goes to
 * `number` of the chain; false: it is none. It lies there from digit to digit, too: of a variable the verifier
 * (6.18) would follow each value. */
__noinline int text_number(u32 chain, u32 at, u32 len)
{
	struct bpfdb_table_chain *c = chain_at(chain);
	bool is_negative = len > 0 && *buffer_at(chain, at) == '-';
	u64 most = SIGN - !is_negative;
	u32 i = START;

	at += is_negative;
	len -= is_negative;
	if (!len || len >= BPFDB_TABLE_TEXT_MAX)
		return false;
	if (*buffer_at(chain, at) == '0' && (len > 1 || is_negative))
		return false;
	STORE(c->number, 0);
	each(i, len)
	{
		u64 digit = (u64)*buffer_at(chain, at + i) - '0';
		u64 before = LOAD(c->number);

		if (digit > 9 || before > (most - digit) / 10)
			return false;
		STORE(c->number, before * 10 + digit);
	}
	if (is_negative)
		STORE(c->number, -LOAD(c->number));
	return i == len;
}

/* The same of the number of the chain's field in the value of an entry, with its sign in all 64 bits. */
static __always_inline bool field_read(u32 chain, struct bpfdb_table_chain *c,
				       const struct entry *entry)
{
	u32 at = entry->value_at + c->field_at, type = c->field_type, size = type_size(type), bits;
	u64 word;

	if (c->field_at > entry->value_len)
		return false;
	if (type == BPFDB_TABLE_TEXT)
		return text_number(chain, at, entry->value_len - c->field_at);
	if (size > entry->value_len - c->field_at)
		return false;
	bits = (64 - 8 * size) & 63;
	word = load_u64(chain, at) << bits;
	c->number = type_has_sign(type) ? (u64)((s64)word >> bits) : word >> bits;
	return true;
}

static __always_inline void field_add(struct bpfdb_table_chain *c)
{
	u64 number = c->number;
	bool has_sign = type_has_sign(c->field_type);
	u64 ordered = has_sign ? number ^ SIGN : number;
	u64 sum = c->sum + number;

	c->sum_high += sum < number;
	if (has_sign && number >> 63)
		c->sum_high--;
	c->sum = sum;
	if (!c->fields || ordered < c->least)
		c->least = ordered;
	if (!c->fields || ordered > c->greatest)
		c->greatest = ordered;
	c->fields++;
}

/* Adds the entries `index` to `end` - 1 of a leaf; 0, or WRONG. */
__noinline int fields_add(u32 chain, u32 base, u32 index, u32 end)
{
	struct bpfdb_table_chain *c = chain_at(chain);
	u32 wanted = end - index, i = START;

	each(i, wanted)
	{
		struct entry entry;

		if (!entry_find(chain, base, index + i, true, &entry))
			return WRONG;
		if (field_read(chain, c, &entry))
			field_add(c);
	}
	return i == wanted ? 0 : WRONG;
}

#endif
