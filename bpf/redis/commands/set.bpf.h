/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* SET with its options, SETEX, PSETEX, SETNX, GETSET. */
#ifndef BPFDB_COMMANDS_SET_BPF_H
#define BPFDB_COMMANDS_SET_BPF_H

#include "expiry.bpf.h"
#include "before.bpf.h"

/* c->options: what SET does depends on what is there. */
#define SET_IF_ABSENT 1
#define SET_IF_PRESENT 2
#define SET_KEEPS_TIME 4
/* And so is the reply. */
#define SET_GETS 8
/* SETNX: whether it was set, as a number. */
#define SET_TELLS 16
/* Most words behind the value: GET, a condition, and a time with its
 * unit. */
#define SET_OPTIONS_MAX 4

/* Sets the argument as the value, whatever is there. */
static __always_inline enum result set_always(struct sk_msg_md *m, struct context *c,
					      struct bpfdb_session *s)
{
	enum bpfdb_status status;

	room_until(c, c->at);
	status = value_set(s, arg_to_value(c, s), c->deadline);
	return status == BPFDB_OK ? reply_ok(m, c) : reply_error(m, c, s, status);
}

__noinline enum result set_plain(struct sk_msg_md *m, struct context *c NONNULL,
				 struct bpfdb_session *s NONNULL)
{
	enum result result = key_and_arg(c, s);

	if (result != DONE)
		return result;
	/* Not for SET with options: the stack below the operators is short. */
	if (c->arg_len > BPFDB_INLINE_MAX && key_prepare(s) == BPFDB_OK)
		home_prefetch(s->hash);
	c->deadline = 0;
	return set_always(m, c, s);
}

/* SETEX and PSETEX: the time stands before the value. */
__noinline enum result command_setex(struct sk_msg_md *m, struct context *c NONNULL,
				     struct bpfdb_session *s NONNULL, u32 unit)
{
	enum result result;

	if (c->argc != 3)
		return PASS_TO_DAEMON;
	result = key_next(c, s);
	if (result == DONE)
		result = deadline_next(c, unit, true);
	if (result == DONE)
		result = arg_next(c);
	if (result != DONE)
		return result;
	return set_always(m, c, s);
}

/* ---- Conditions ---------------------------------------------------------- */

/* Does the condition hold where GET has this outcome? */
static __always_inline bool set_wanted(const struct context *c, enum bpfdb_status status)
{
	return !(c->options & (status == BPFDB_FOUND ? SET_IF_ABSENT : SET_IF_PRESENT));
}

/* OK with c->changed: was it set? With SET_GETS the reply is there too. The options are read
 * anew each time: kept, they give the verifier another state for each of their values. */
static __always_inline enum bpfdb_status set_if_once(struct sk_msg_md *m, struct context *c,
						     struct bpfdb_session *s, bool own)
{
	struct before before = before_begin(c);
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);

	if (status == BPFDB_OK) {
		s->value_type = c->options & SET_GETS ? BPFDB_TYPE_STRING : BPFDB_TYPE_ANY;
		status = bpfdb_get_for_update(s);
		s->value_type = BPFDB_TYPE_STRING;
	}
	if (c->options & SET_GETS)
		status = before_reply(m, c, s, status, &before);
	c->changed = status < BPFDB_FIRST_ERROR && set_wanted(c, status);
	if (c->changed) {
		if (c->options & SET_KEEPS_TIME)
			c->deadline = status == BPFDB_FOUND ? s->found_expires : 0;
		status = value_set(s, arg_to_value(c, s), c->deadline);
	}
	status = short_end(s, own, status);
	if (c->options & SET_GETS)
		before_end(c, s, status, &before);
	return status;
}

/* OK with c->changed: was it set? Else an Error. */
static __always_inline enum bpfdb_status set_if(struct sk_msg_md *m, struct context *c,
						struct bpfdb_session *s)
{
	bool own = short_needed(s);
	enum bpfdb_status status;

	/* What will not be written needs no lock. */
	if (own && !(c->options & SET_GETS)) {
		status = OF_ANY_TYPE(s, bpfdb_peek(s));
		c->changed = 0;
		if (status >= BPFDB_FIRST_ERROR || !set_wanted(c, status))
			return status;
	}
	return WITHOUT_CONFLICT(own, set_if_once(m, c, s, own));
}

/* ---- Options ------------------------------------------------------------- */

/* The next option; `left` arguments stand behind it. DONE with the context's options and
 * deadline. What is repeated or contradicts itself is PASS_TO_DAEMON. A subprogram, as
 * deadline_next(). */
__noinline enum result set_option(struct context *c NONNULL, u32 left)
{
	bool timed = c->deadline || c->options & SET_KEEPS_TIME;
	enum result result = arg_next(c);
	u64 word;

	if (result != DONE)
		return result;
	word = arg_word(c);
	switch (word) {
	case WORD("nx"): c->options |= SET_IF_ABSENT; return DONE;
	case WORD("xx"): c->options |= SET_IF_PRESENT; return DONE;
	case WORD("get"): c->options |= SET_GETS; return DONE;
	case WORD("keepttl"): c->options |= SET_KEEPS_TIME; return timed ? PASS_TO_DAEMON : DONE;
	}
	return timed || !left ? PASS_TO_DAEMON : deadline_option(c, word);
}

/* All that stand behind the value. */
static __always_inline enum result set_options(struct context *c)
{
	u32 left = c->argc - 2;

	repeat(i, SET_OPTIONS_MAX)
	{
		bool had_time = c->deadline;
		enum result result;

		if (!left)
			break;
		left--;
		result = set_option(c, left);
		if (result != DONE)
			return result;
		left -= !had_time && c->deadline;
	}
	if ((c->options & SET_IF_ABSENT) && (c->options & SET_IF_PRESENT))
		return PASS_TO_DAEMON;
	return left ? PASS_TO_DAEMON : DONE;
}

/*
 * Key, value and options; DONE with the value as the argument parsed last. `named` is what the
 * command's name says, in place of options behind the value; 0: the options are there. A
 * subprogram, so that the verifier walks what comes next once, whatever the options are.
 */
__noinline enum result set_parse(struct context *c NONNULL, struct bpfdb_session *s NONNULL,
				 u32 named)
{
	u32 arg, len;
	enum result result;

	if (c->argc < 2 || c->argc > 2 + (named ? 0 : SET_OPTIONS_MAX))
		return PASS_TO_DAEMON;
	result = key_and_arg(c, s);
	c->options = named;
	c->deadline = 0;
	if (result != DONE || named)
		return result;
	arg = c->arg;
	len = c->arg_len;
	result = set_options(c);
	c->arg = arg;
	c->arg_len = len;
	return result;
}

/* SET with options, SETNX and GETSET; `named` as above. */
__noinline enum result set_with_options(struct sk_msg_md *m, struct context *c NONNULL,
					struct bpfdb_session *s NONNULL, u32 named)
{
	enum result result = set_parse(c, s, named);
	enum bpfdb_status status;

	if (result != DONE)
		return result;
	if (!c->options)
		return set_always(m, c, s);
	if (!(c->options & SET_GETS))
		room_until(c, c->at);
	status = set_if(m, c, s);
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	if (c->options & SET_GETS)
		return DONE;
	if (c->options & SET_TELLS)
		return reply_header(m, c, ':', c->changed);
	return c->changed ? reply_ok(m, c) : harmless(reply_nil(m, c));
}

static __always_inline enum result command_set(struct sk_msg_md *m, struct context *c,
					       struct bpfdb_session *s)
{
	return c->argc == 2 ? set_plain(m, c, s) : set_with_options(m, c, s, 0);
}

static __always_inline enum result command_setnx(struct sk_msg_md *m, struct context *c,
						 struct bpfdb_session *s)
{
	return set_with_options(m, c, s, SET_IF_ABSENT | SET_TELLS);
}

static __always_inline enum result command_getset(struct sk_msg_md *m, struct context *c,
						  struct bpfdb_session *s)
{
	return set_with_options(m, c, s, SET_GETS);
}

#endif
