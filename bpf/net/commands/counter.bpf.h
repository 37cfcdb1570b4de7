/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* INCR, DECR, INCRBY, DECRBY. What is not an integer is PASS_TO_DAEMON. */
#ifndef BPFDB_COMMANDS_COUNTER_BPF_H
#define BPFDB_COMMANDS_COUNTER_BPF_H

#include "../../procedures/integer.bpf.h"
#include "transaction.bpf.h"

/* The connection's text: digits end at TEXT_END. */
#define TEXT_END 32
#define INTEGER_MIN ((s64)(1ULL << 63))

/* Parses c->text[0..len): the shortest form of a 64-bit integer only. */
static __always_inline bool integer_parse(const u8 *text, u32 len, s64 *value)
{
	return integer_of(text, len, INTEGER_DIGITS, true, value);
}

/* Writes a number before c->text[TEXT_END]; where it begins. */
static __always_inline u32 integer_format(struct bpfdb_connection *c, s64 value)
{
	u64 number = value < 0 ? -(u64)value : value;
	u32 start = TEXT_END;

	for (u32 i = 0; i < BPFDB_INTEGER_MAX; i++) {
		c->text[--start & (TEXT_END - 1)] = '0' + number % 10;
		number /= 10;
		if (!number)
			break;
	}
	if (value < 0)
		c->text[--start & (TEXT_END - 1)] = '-';
	return start;
}

/* The value that GET left in the session as text in the connection. */
static __always_inline bool value_to_text(struct bpfdb_connection *c, struct bpfdb_session *s)
{
	const u64 *slot;
	u64 *text = (u64 *)c->text;

	if (s->value_len > BPFDB_INTEGER_MAX)
		return false;
	if (s->value_len <= BPFDB_INLINE_MAX) {
		text[0] = s->value[0];
		text[1] = s->value[1];
		return true;
	}
	slot = bpfdb_at(s->value[0]);
	if (!slot)
		return false;
	text[0] = slot[0];
	text[1] = slot[1];
	text[2] = slot[2];
	return true;
}

/* The number in the connection's text becomes the session's value. */
static __always_inline enum bpfdb_status text_to_value(struct bpfdb_connection *c,
						       struct bpfdb_session *s, u32 start)
{
	u32 len = TEXT_END - start;
	u64 at = start, *slot;
	const u8 *from;
	enum bpfdb_status status = bpfdb_value_alloc(s, len);

	if (status != BPFDB_OK)
		return status;
	OPAQUE(at);
	from = c->text + (at & (TEXT_END - 1));
	if (len <= BPFDB_INLINE_MAX) {
		s->value[0] = low_bytes(load8(from), len);
		s->value[1] = len > 8 ? low_bytes(load8(from + 8), len - 8) : 0;
		return BPFDB_OK;
	}
	slot = bpfdb_at(s->value[0]);
	if (!slot)
		return BPFDB_CORRUPT;
	slot[0] = load8(from);
	slot[1] = load8(from + 8);
	slot[2] = load8(from + 16);
	return BPFDB_OK;
}

/* The next argument as a number: DONE with it in c->number; if it is none, PASS_TO_DAEMON. A
 * subprogram, like arg_next(). */
__noinline enum result number_next(struct bpfdb_connection *c NONNULL)
{
	enum result result = arg_next(c);
	s64 number = 0;

	if (result != DONE)
		return result;
	if (c->arg_len > BPFDB_INTEGER_MAX ||
	    !integer_parse(window_at(c, c->arg, BPFDB_INTEGER_MAX), c->arg_len, &number))
		return PASS_TO_DAEMON;
	c->number = number;
	return DONE;
}

/*
 * Adds to the number that GET left in the session, or to 0: OK with the sum as the session's value, and as text in the connection,
 * from c->text_start. A subprogram, to keep the stack below the operators short.
 */
__noinline enum bpfdb_status counter_change(struct bpfdb_connection *c NONNULL,
					    struct bpfdb_session *s NONNULL, s64 delta, bool found)
{
	s64 value = 0;

	if (found && (!value_to_text(c, s) || !integer_parse(c->text, s->value_len, &value)))
		return FOR_THE_DAEMON;
	if (__builtin_add_overflow(value, delta, &value))
		return FOR_THE_DAEMON;
	c->text_start = integer_format(c, value);
	return text_to_value(c, s, c->text_start);
}

static __always_inline enum bpfdb_status counter_once(struct bpfdb_connection *c,
						      struct bpfdb_session *s, s64 delta, bool own)
{
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);

	if (status == BPFDB_OK)
		status = bpfdb_get_for_update(s);
	if (status < BPFDB_FIRST_ERROR)
		status = counter_change(c, s, delta, status == BPFDB_FOUND);
	if (status == BPFDB_OK) {
		s->expires = s->found_expires;
		status = bpfdb_set(s);
	}
	return short_end(s, own, status);
}

static __always_inline enum result counter_add(struct sk_msg_md *m, struct bpfdb_connection *c,
					       struct bpfdb_session *s, s64 delta)
{
	bool own = short_needed(s);
	enum bpfdb_status status;

	room_until(c, c->at);
	status = WITHOUT_CONFLICT(own, counter_once(c, s, delta, own));
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	return reply_text_integer(m, c, c->text_start, TEXT_END - c->text_start);
}

/* INCR and DECR (one argument), INCRBY and DECRBY (two). */
__noinline enum result command_counter(struct sk_msg_md *m, struct bpfdb_connection *c NONNULL,
				       struct bpfdb_session *s NONNULL, u32 negative, u32 argc)
{
	s64 delta = 1;
	enum result result;

	if (c->argc != argc)
		return PASS_TO_DAEMON;
	result = key_next(c, s);
	if (result != DONE)
		return result;
	if (argc == 2) {
		result = number_next(c);
		if (result != DONE)
			return result;
		delta = c->number;
		if (negative && delta == INTEGER_MIN)
			return PASS_TO_DAEMON;
	}
	return counter_add(m, c, s, negative ? -delta : delta);
}

#endif
