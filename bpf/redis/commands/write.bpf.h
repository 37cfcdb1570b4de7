/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* APPEND, SETRANGE, SETBIT: a part of a value is written. */
#ifndef BPFDB_COMMANDS_WRITE_BPF_H
#define BPFDB_COMMANDS_WRITE_BPF_H

#include "../../values/part.bpf.h"
#include "counter.bpf.h"

/* A position: behind the last byte. */
#define AT_END (~0u)

static __always_inline enum bpfdb_status write_begin(struct bpfdb_session *s, bool own)
{
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);

	return status == BPFDB_OK ? value_or_empty(s, bpfdb_get_for_update(s)) : status;
}

/* Sets what became of the value, if that went well; when it expires stays. */
static __always_inline enum bpfdb_status write_end(struct bpfdb_session *s, bool own,
						   enum bpfdb_status status)
{
	return short_end(s, own, value_set(s, status, s->found_expires));
}

/*
 * The argument is written into the value that GET left in the session, which grows for
 * it: OK with the whole as the session's value, or an Error. A subprogram, because the
 * stack below the operators is short: 512 bytes for all frames.
 */
__noinline enum bpfdb_status value_write(struct context *c NONNULL, struct bpfdb_session *s NONNULL,
					 u32 at)
{
	u32 old = s->value_len, written = c->arg_len, len;
	void *to;
	enum bpfdb_status status;

	if (at == AT_END)
		at = old;
	if (at > BPFDB_VALUE_MAX || written > BPFDB_VALUE_MAX)
		return FOR_THE_DAEMON;
	len = at + written > old ? at + written : old;
	status = value_again(s, len, at);
	if (status != BPFDB_OK)
		return status;
	if (len <= BPFDB_INLINE_MAX) {
		OPAQUE(at);
		OPAQUE(written);
		at &= 31;
		written &= 31;
		arg_copy(c, (u8 *)s->value + at, written);
		return BPFDB_OK;
	}
	/* The end may lie outside the page that bpfdb_at() vouches for. */
	to = bpfdb_at(s->value[0] + (at & ~(BPFDB_GRAIN - 1)));
	if (!to)
		return BPFDB_CORRUPT;
	to += at & (BPFDB_GRAIN - 1);
	if (written > BPFDB_VALUE_MAX - BPFDB_GRAIN)
		return FOR_THE_DAEMON;
	arg_copy(c, to, written);
	return BPFDB_OK;
}

/* OK with the length in c->new_len. */
static __always_inline enum bpfdb_status write_once(struct context *c, struct bpfdb_session *s,
						    bool own, u32 at)
{
	enum bpfdb_status status = write_begin(s, own);

	if (status == BPFDB_FOUND)
		status = value_write(c, s, at);
	c->new_len = s->value_len;
	return write_end(s, own, status);
}

/* The argument is what is written. */
static __always_inline enum result write_reply(struct sk_msg_md *m, struct context *c,
					       struct bpfdb_session *s, u32 at)
{
	bool own = short_needed(s);
	enum bpfdb_status status;

	/* More might not find room in one slot, whatever there is. */
	if (c->arg_len > BPFDB_VALUE_MAX / 2)
		return PASS_TO_DAEMON;
	room_until(c, c->at);
	status = WITHOUT_CONFLICT(own, write_once(c, s, own, at));
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	return reply_header(m, c, ':', c->new_len);
}

__noinline enum result command_append(struct sk_msg_md *m, struct context *c NONNULL,
				      struct bpfdb_session *s NONNULL)
{
	enum result result = c->argc == 2 ? key_and_arg(c, s) : PASS_TO_DAEMON;

	return result == DONE ? write_reply(m, c, s, AT_END) : result;
}

/* A key, a number for c->number, and the argument behind them. */
static __always_inline enum result key_number_arg(struct context *c, struct bpfdb_session *s)
{
	enum result result = c->argc == 3 ? key_next(c, s) : PASS_TO_DAEMON;

	if (result == DONE)
		result = number_next(c);
	return result == DONE ? arg_next(c) : result;
}

__noinline enum result command_setrange(struct sk_msg_md *m, struct context *c NONNULL,
					struct bpfdb_session *s NONNULL)
{
	enum result result = key_number_arg(c, s);

	if (result != DONE)
		return result;
	/* An empty piece changes nothing, and makes no value. */
	if (c->number < 0 || c->number > BPFDB_VALUE_MAX || !c->arg_len)
		return PASS_TO_DAEMON;
	return write_reply(m, c, s, c->number);
}

/* ---- Bits ---------------------------------------------------------------- */

/* The bit of the value that GET left in the session, which grows for it: OK, or FOUND if
 * nothing changes, with what the bit was in c->old_bit. */
__noinline enum bpfdb_status bit_write(struct context *c NONNULL, struct bpfdb_session *s NONNULL,
				       u32 bit, bool on)
{
	u32 at = bit / 8, mask = 0x80 >> bit % 8;
	u32 old = s->value_len, len = at < old ? old : at + 1;
	enum bpfdb_status status;
	u8 *byte;

	/* As in Redis, a bit that stays as it is is not written: WATCH need not know. */
	if (at < old && old <= BPFDB_VALUE_MAX) {
		byte = value_byte(s, at);
		if (!byte)
			return BPFDB_CORRUPT;
		c->old_bit = (*byte & mask) != 0;
		if (c->old_bit == on)
			return BPFDB_FOUND;
	}
	status = value_again(s, len, len);
	if (status != BPFDB_OK)
		return status;
	byte = value_byte(s, at);
	if (!byte)
		return BPFDB_CORRUPT;
	c->old_bit = (*byte & mask) != 0;
	*byte = on ? *byte | mask : *byte & ~mask;
	return BPFDB_OK;
}

static __always_inline enum bpfdb_status bit_once(struct context *c, struct bpfdb_session *s,
						  bool own, u32 bit, bool on)
{
	enum bpfdb_status status = write_begin(s, own);

	if (status == BPFDB_FOUND)
		status = bit_write(c, s, bit, on);
	return write_end(s, own, status);
}

__noinline enum result command_setbit(struct sk_msg_md *m, struct context *c NONNULL,
				      struct bpfdb_session *s NONNULL)
{
	bool own = short_needed(s);
	enum result result = key_number_arg(c, s);
	enum bpfdb_status status;
	u32 bit;
	u8 digit;

	if (result != DONE)
		return result;
	digit = *window_at(c, c->arg, 1);
	if (c->arg_len != 1 || (digit != '0' && digit != '1') || c->number < 0 ||
	    c->number >= BPFDB_VALUE_MAX * 8)
		return PASS_TO_DAEMON;
	bit = c->number;
	room_until(c, c->at);
	status = WITHOUT_CONFLICT(own, bit_once(c, s, own, bit, digit == '1'));
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	return reply_header(m, c, ':', c->old_bit);
}

#endif
