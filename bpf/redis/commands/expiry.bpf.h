/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* EXPIRE, TTL, EXPIRETIME and their kin; PERSIST. */
#ifndef BPFDB_COMMANDS_EXPIRY_BPF_H
#define BPFDB_COMMANDS_EXPIRY_BPF_H

#include "../../values/expiry.bpf.h"
#include "../../values/packed.bpf.h"
#include "counter.bpf.h"

/*
 * The next argument as the time at which a value expires: DONE with it in
 * c->deadline. Those that are over, or no numbers, are PASS_TO_DAEMON. A subprogram, like
 * arg_next().
 */
__noinline enum result deadline_next(struct context *c NONNULL, u32 unit, bool from_now)
{
	enum result result = number_next(c);
	s64 time = c->number;

	if (result != DONE)
		return result;
	if (!time_fits(time))
		return PASS_TO_DAEMON;
	c->deadline = time_to_expiry(time, unit, from_now ? time_now() : 0);
	return DONE;
}

/* The same behind the word that says what it counts. */
static __always_inline enum result deadline_option(struct context *c, u64 word)
{
	switch (word) {
	case WORD("ex"): return deadline_next(c, TIME_SECONDS, true);
	case WORD("px"): return deadline_next(c, TIME_MILLISECONDS, true);
	case WORD("exat"): return deadline_next(c, TIME_SECONDS, false);
	case WORD("pxat"): return deadline_next(c, TIME_MILLISECONDS, false);
	default: return PASS_TO_DAEMON;
	}
}

/* The value expires at c->deadline; 0: it stops to do so. OK with c->changed: was there
 * something to do? */
static __always_inline enum bpfdb_status expire_once(struct context *c, struct bpfdb_session *s,
						     bool own)
{
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);

	c->changed = 0;
	if (status == BPFDB_OK)
		status = OF_ANY_TYPE(s, bpfdb_get_for_update(s));
	if (status == BPFDB_FOUND && (c->deadline || s->found_expires)) {
		c->changed = 1;
		status = value_set(s, value_or_run_copy(s), c->deadline);
	}
	return short_end(s, own, status);
}

/* The same with its reply. */
static __always_inline enum result expire_reply(struct sk_msg_md *m, struct context *c,
						struct bpfdb_session *s)
{
	bool own = short_needed(s);
	enum bpfdb_status status = WITHOUT_CONFLICT(own, expire_once(c, s, own));

	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	return reply_header(m, c, ':', c->changed);
}

/* EXPIRE and PEXPIRE; EXPIREAT and PEXPIREAT. */
__noinline enum result command_expire(struct sk_msg_md *m, struct context *c NONNULL,
				      struct bpfdb_session *s NONNULL, u32 unit, bool from_now)
{
	enum result result;

	/* NX, XX, GT and LT are the daemon's. */
	if (c->argc != 2)
		return PASS_TO_DAEMON;
	result = key_next(c, s);
	if (result == DONE)
		result = deadline_next(c, unit, from_now);
	if (result != DONE)
		return result;
	room_until(c, c->at);
	return expire_reply(m, c, s);
}

__noinline enum result command_persist(struct sk_msg_md *m, struct context *c NONNULL,
				       struct bpfdb_session *s NONNULL)
{
	enum result result = key_alone(c, s);
	enum bpfdb_status status;

	if (result != DONE)
		return result;
	/* What does not expire needs no lock. */
	if (short_needed(s)) {
		status = OF_ANY_TYPE(s, bpfdb_peek(s));
		if (status == BPFDB_NOT_FOUND || (status == BPFDB_FOUND && !s->found_expires))
			return harmless(reply_header(m, c, ':', 0));
	}
	c->deadline = 0;
	return expire_reply(m, c, s);
}

/* TTL and PTTL; EXPIRETIME and PEXPIRETIME. */
__noinline enum result command_ttl(struct sk_msg_md *m, struct context *c NONNULL,
				   struct bpfdb_session *s NONNULL, u32 unit, bool from_now)
{
	enum result result;
	enum bpfdb_status status;
	u32 start;
	s64 time;

	result = key_alone(c, s);
	if (result != DONE)
		return result;
	status = UNTRACKED(s, OF_ANY_TYPE(s, bpfdb_get(s)));
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	time = TIME_OF_NOTHING;
	if (status == BPFDB_FOUND)
		time = expiry_to_time(s, unit, from_now ? time_now() : 0);
	start = integer_write(c->text, &c->text_start, time);
	return harmless(reply_text_integer(m, c, start, INTEGER_END - start));
}

#endif
