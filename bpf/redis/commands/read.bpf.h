/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* GETRANGE and SUBSTR, GETBIT, BITCOUNT: a part of a value is read. */
#ifndef BPFDB_COMMANDS_READ_BPF_H
#define BPFDB_COMMANDS_READ_BPF_H

#include "../../values/part.bpf.h"
#include "counter.bpf.h"
#include "string.bpf.h"

/* Replies with what `reply` makes of the value in the session, empty if there is none. */
#define READ_VALUE_ONCE(m, c, s, reply)                                                            \
	({                                                                                         \
		enum bpfdb_status got_ = value_or_empty(s, bpfdb_get(s));                          \
		got_ != BPFDB_FOUND                ? reply_error(m, c, s, got_)                    \
		: (s)->value_len > BPFDB_VALUE_MAX ? PASS_TO_DAEMON                                \
						   : harmless(reply);                              \
	})

#define READ_VALUE(m, c, s, reply) WHILE_SPOILED(s, READ_VALUE_ONCE(m, c, s, reply))

/* ---- Bytes ---------------------------------------------------------------- */

/* Bytes of the session's value, which is in a slot, as a bulk string. AGAIN: it was given up
 * meanwhile; the caller asks that of bpfdb_still_valid() too. */
__noinline enum result reply_slot_bytes(struct sk_msg_md *m, struct context *c NONNULL,
					struct bpfdb_session *s NONNULL, u32 first, u32 len)
{
	u8 *from = slot_byte(s, first);

	if (!from)
		return AGAIN;
	if (len > BPFDB_REPLY_VALUE_MAX)
		return PASS_TO_DAEMON;
	if (len <= BPFDB_INLINE_MAX)
		return reply_bulk_inline(m, c, load8(from), load8(from + 8), len);
	return reply_bulk_long(m, c, from, len);
}

__noinline enum result reply_part(struct sk_msg_md *m, struct context *c NONNULL,
				  struct bpfdb_session *s NONNULL, s64 start, s64 end)
{
	struct part part = part_of(start, end, s->value_len);
	u32 out = c->out;
	enum result result;
	u8 *from;

	if (part.len > BPFDB_REPLY_VALUE_MAX)
		return PASS_TO_DAEMON;
	/* Not over the request itself: it may have to be answered again. */
	room_until(c, c->request);
	if (s->value_len <= BPFDB_INLINE_MAX) {
		from = inline_byte(s, part.first);
		return reply_bulk_inline(m, c, load8(from), load8(from + 8), part.len);
	}
	result = reply_slot_bytes(m, c, s, part.first, part.len);
	if (result == DONE && !bpfdb_still_valid(s)) {
		c->out = out;
		return AGAIN;
	}
	return result;
}

/* Two numbers: DONE with the first in *start and the second in c->number. */
static __always_inline enum result numbers_next(struct context *c, s64 *start)
{
	enum result result = number_next(c);

	*start = c->number;
	return result == DONE ? number_next(c) : result;
}

__noinline enum result command_getrange(struct sk_msg_md *m, struct context *c NONNULL,
					struct bpfdb_session *s NONNULL)
{
	enum result result = c->argc == 3 ? key_next(c, s) : PASS_TO_DAEMON;
	s64 start = 0;

	if (result == DONE)
		result = numbers_next(c, &start);
	if (result != DONE)
		return result;
	return READ_VALUE(m, c, s, reply_part(m, c, s, start, c->number));
}

/* ---- Bits ----------------------------------------------------------------- */

/* Redis's longest value, in bits: positions from here on are no positions. */
#define BIT_LIMIT (512LL << 23)

static __always_inline enum result reply_bit(struct sk_msg_md *m, struct context *c,
					     struct bpfdb_session *s, u64 bit)
{
	u32 set = 0, at = bit / 8;
	u8 *byte;

	if (at < s->value_len) {
		byte = value_byte(s, at);
		if (!byte)
			return AGAIN;
		set = *byte >> (7 - bit % 8) & 1;
		if (!bpfdb_still_valid(s))
			return AGAIN;
	}
	return reply_header(m, c, ':', set);
}

__noinline enum result command_getbit(struct sk_msg_md *m, struct context *c NONNULL,
				      struct bpfdb_session *s NONNULL)
{
	enum result result = c->argc == 2 ? key_next(c, s) : PASS_TO_DAEMON;

	if (result == DONE)
		result = number_next(c);
	if (result != DONE)
		return result;
	if (c->number < 0 || c->number >= BIT_LIMIT)
		return PASS_TO_DAEMON;
	room_until(c, c->at);
	return READ_VALUE(m, c, s, reply_bit(m, c, s, c->number));
}

/* Bits that are set in a part of the session's value, bounded; negative: the value was
 * given up meanwhile. */
__noinline int bits_count(struct context *c NONNULL, struct bpfdb_session *s NONNULL, u32 first,
			  u32 len)
{
	bool is_inline = s->value_len <= BPFDB_INLINE_MAX;
	u8 *slot = is_inline ? NULL : bpfdb_at(s->value[0]);
	u32 end = first + len, count = 0;

	if (!slot && !is_inline)
		return -1;
	/* The place is kept in memory: in a register the verifier (6.12) walks all rounds. */
	c->counted_to = first & ~7u;
	repeat(i, BPFDB_BITCOUNT_MAX / 8 + 1)
	{
		u64 at = c->counted_to, word;

		if (at >= end)
			break;
		word = end - at;
		c->counted_to = at + 8;
		at &= BPFDB_VALUE_MAX - 8;
		word = low_bytes(slot ? load8(slot + at) : s->value[at / 8 % 2], word);
		if (at < first)
			word &= ~0ULL << (first - at) * 8;
		count += __builtin_popcountll(word);
	}
	return count;
}

static __always_inline enum result reply_bits(struct sk_msg_md *m, struct context *c,
					      struct bpfdb_session *s, s64 start, s64 end)
{
	struct part part = part_of(start, end, s->value_len);
	int count;

	if (part.len > BPFDB_BITCOUNT_MAX)
		return PASS_TO_DAEMON;
	count = bits_count(c, s, part.first, part.len);
	if (count < 0 || !bpfdb_still_valid(s))
		return AGAIN;
	return reply_header(m, c, ':', count);
}

/* Of the whole, or from one byte to another; positions of bits are the daemon's. */
__noinline enum result command_bitcount(struct sk_msg_md *m, struct context *c NONNULL,
					struct bpfdb_session *s NONNULL)
{
	enum result result = c->argc == 1 || c->argc == 3 ? key_next(c, s) : PASS_TO_DAEMON;
	s64 start = 0;

	c->number = -1;
	if (result == DONE && c->argc == 3)
		result = numbers_next(c, &start);
	if (result != DONE)
		return result;
	room_until(c, c->at);
	return READ_VALUE(m, c, s, reply_bits(m, c, s, start, c->number));
}

#endif
