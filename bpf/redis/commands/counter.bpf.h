/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* INCR, DECR, INCRBY, DECRBY. What is not an integer is PASS_TO_DAEMON. */
#ifndef BPFDB_COMMANDS_COUNTER_BPF_H
#define BPFDB_COMMANDS_COUNTER_BPF_H

#include "../../values/integer.bpf.h"
#include "transaction.bpf.h"

#define INTEGER_MIN ((s64)(1ULL << 63))

/* The next argument as a number: DONE with it in c->number; if it is none, PASS_TO_DAEMON. A
 * subprogram, like arg_next(). */
__noinline enum result number_next(struct context *c NONNULL)
{
	enum result result = arg_next(c);
	s64 number = 0;

	if (result != DONE)
		return result;
	if (c->arg_len > INTEGER_MAX_LEN || !integer_of(window_at(c, c->arg, INTEGER_MAX_LEN),
							c->arg_len, INTEGER_DIGITS, true, &number))
		return PASS_TO_DAEMON;
	c->number = number;
	return DONE;
}

/*
 * Adds to the number that GET left in the session, or to 0: OK with the sum as the session's
 * value, and as text in the context, from c->text_start. A subprogram, to keep the stack below
 * the operators short.
 */
__noinline enum bpfdb_status counter_change(struct context *c NONNULL,
					    struct bpfdb_session *s NONNULL, s64 delta, bool found)
{
	s64 sum;

	if (!integer_add(s, (u64 *)c->text, found, delta, &sum))
		return FOR_THE_DAEMON;
	return integer_to_value(s, c->text, &c->text_start, sum);
}

static __always_inline enum bpfdb_status counter_once(struct context *c, struct bpfdb_session *s,
						      s64 delta, bool own)
{
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);

	if (status == BPFDB_OK)
		status = bpfdb_get_for_update(s);
	if (status < BPFDB_FIRST_ERROR)
		status = counter_change(c, s, delta, status == BPFDB_FOUND);
	return short_end(s, own, value_set(s, status, s->found_expires));
}

static __always_inline enum result counter_add(struct sk_msg_md *m, struct context *c,
					       struct bpfdb_session *s, s64 delta)
{
	bool own = short_needed(s);
	enum bpfdb_status status;

	room_until(c, c->at);
	status = WITHOUT_CONFLICT(own, counter_once(c, s, delta, own));
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	return reply_text_integer(m, c, c->text_start, INTEGER_END - c->text_start);
}

/* INCR and DECR (one argument), INCRBY and DECRBY (two). */
__noinline enum result command_counter(struct sk_msg_md *m, struct context *c NONNULL,
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
