/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* EXPIRE, PEXPIRE, TTL, PTTL. */
#ifndef BPFDB_COMMANDS_EXPIRY_BPF_H
#define BPFDB_COMMANDS_EXPIRY_BPF_H

#include "counter.bpf.h"
#include "string.bpf.h"

/* Times in arguments from here on are the daemon's: some are no 64-bit number in
 * milliseconds. */
#define TIME_LIMIT (1LL << 50)

/* What a time counts, in milliseconds, and whether from now. */
enum { TIME_SECONDS = 1000, TIME_MILLISECONDS = 1 };

/*
 * The next argument as the time at which a value expires: DONE with it in
 * c->deadline. Those that are over, or no numbers, are SLOW. A subprogram, like
 * arg_next().
 */
__noinline int deadline_next(struct bpfdb_connection *c NONNULL, u32 unit, bool from_now)
{
	s64 time;
	int result = arg_next(c);

	if (result != DONE)
		return result;
	if (!arg_integer(c, &time) || time <= 0 || time >= TIME_LIMIT)
		return SLOW;
	c->deadline = time * unit + (from_now ? time_now() : 0);
	return DONE;
}

/* The value that GET left in the session becomes its value again. */
__noinline int value_copy(struct bpfdb_session *s NONNULL)
{
	return value_again(s, 0);
}

/* OK with c->need: did the key have a value? */
static __always_inline int expire_once(struct bpfdb_connection *c, struct bpfdb_session *s,
				       bool own)
{
	int status = short_begin(s, own, SHORT_WRITE);

	c->need = 0;
	if (status == BPFDB_OK)
		status = bpfdb_get_for_update(s);
	if (status == BPFDB_FOUND) {
		c->need = 1;
		status = value_copy(s);
		if (status == BPFDB_OK) {
			s->expires = c->deadline;
			status = bpfdb_set(s);
		}
	}
	return short_end(s, own, status);
}

__noinline int command_expire(struct sk_msg_md *m, struct bpfdb_connection *c NONNULL,
			      struct bpfdb_session *s NONNULL, u32 unit)
{
	bool own = short_needed(s);
	int result, status;

	/* NX, XX, GT and LT are the daemon's. */
	if (c->argc != 2)
		return SLOW;
	result = key_next(c, s);
	if (result == DONE)
		result = deadline_next(c, unit, true);
	if (result != DONE)
		return result;
	room_until(c, c->at);
	status = WITHOUT_CONFLICT(own, expire_once(c, s, own));
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	return reply_header(m, c, ':', c->need);
}

/* What TTL tells of the value that GET found: -1 if it does not expire. */
static __always_inline s64 time_left(const struct bpfdb_session *s, u32 unit)
{
	u64 now = time_now(), expires = s->found_expires, left;

	if (!expires)
		return -1;
	left = expires > now ? expires - now : 0;
	/* Rounded, as Redis does. */
	return unit == TIME_SECONDS ? (left + 500) / 1000 : left;
}

__noinline int command_ttl(struct sk_msg_md *m, struct bpfdb_connection *c NONNULL,
			   struct bpfdb_session *s NONNULL, u32 unit)
{
	int result, status;
	u32 start;

	result = key_alone(c, s);
	if (result != DONE)
		return result;
	status = bpfdb_get(s);
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	start = integer_format(c, status == BPFDB_FOUND ? time_left(s, unit) : -2);
	return harmless(reply_text_integer(m, c, start, TEXT_END - start));
}

#endif
