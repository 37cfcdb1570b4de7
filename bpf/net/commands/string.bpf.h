/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* GET, STRLEN, APPEND: one key, one value. */
#ifndef BPFDB_COMMANDS_STRING_BPF_H
#define BPFDB_COMMANDS_STRING_BPF_H

#include "transaction.bpf.h"

/* GETs in a row that writers may spoil by replacing the value being copied. */
#define COPY_TRIES 64

__noinline int command_get(struct sk_msg_md *m, struct bpfdb_connection *c NONNULL,
			   struct bpfdb_session *s NONNULL)
{
	int result, status;

	result = key_alone(c, s);
	if (result != DONE)
		return result;
	next_prefetch(c);
	repeat(i, COPY_TRIES)
	{
		status = bpfdb_get(s);
		if (status == BPFDB_NOT_FOUND)
			return harmless(reply_nil(m, c));
		if (status != BPFDB_FOUND)
			return reply_error(m, c, s, status);
		result = reply_value(m, c, s);
		if (result != AGAIN)
			return harmless(result);
	}
	return reply_error(m, c, s, BPFDB_EXHAUSTED);
}

__noinline int command_strlen(struct sk_msg_md *m, struct bpfdb_connection *c NONNULL,
			      struct bpfdb_session *s NONNULL)
{
	int result, status;

	result = key_alone(c, s);
	if (result != DONE)
		return result;
	status = bpfdb_get(s);
	if (status == BPFDB_NOT_FOUND)
		return harmless(reply_header(m, c, ':', 0));
	if (status != BPFDB_FOUND)
		return reply_error(m, c, s, status);
	return harmless(reply_header(m, c, ':', s->value_len));
}

/*
 * Allocates the session's value anew, `added` bytes longer than the one that
 * GET left there and locked, and copies that into it: OK or an Error.
 */
static __always_inline int value_again(struct bpfdb_session *s, u32 added)
{
	u32 len = s->value_len;
	u64 a = s->value[0], b = s->value[1];
	void *from, *to;
	int status;

	if (len > BPFDB_VALUE_MAX)
		return FOR_THE_DAEMON;
	status = bpfdb_value_alloc(s, len + added);
	if (status != BPFDB_OK)
		return status;
	if (len + added <= BPFDB_INLINE_MAX) {
		s->value[0] = a;
		s->value[1] = b;
		return BPFDB_OK;
	}
	to = bpfdb_at(s->value[0]);
	if (!to)
		return BPFDB_CORRUPT;
	if (len <= BPFDB_INLINE_MAX) {
		((u64 *)to)[0] = a;
		((u64 *)to)[1] = b;
		return BPFDB_OK;
	}
	from = bpfdb_at(a);
	if (!from)
		return BPFDB_CORRUPT;
	bpf_probe_read_kernel(to, len, from);
	return BPFDB_OK;
}

/* The argument goes behind the value that GET left in the session: OK with the
 * whole as the session's value, or an Error. A subprogram, because the stack
 * below the operators is short: 512 bytes for all frames. */
__noinline int value_append(struct bpfdb_connection *c NONNULL, struct bpfdb_session *s NONNULL)
{
	u32 old_len = s->value_len, added = c->arg_len;
	void *to;
	int status;

	if (added > BPFDB_VALUE_MAX)
		return BPFDB_VALUE_TOO_LARGE;
	status = value_again(s, added);
	if (status != BPFDB_OK)
		return status;
	if (old_len + added <= BPFDB_INLINE_MAX) {
		OPAQUE(old_len);
		OPAQUE(added);
		old_len &= 31;
		added &= 31;
		arg_copy(c, (u8 *)s->value + old_len, added);
		return BPFDB_OK;
	}
	/* The end may lie outside the page that bpfdb_at() vouches for. */
	to = bpfdb_at(s->value[0] + (old_len & ~(BPFDB_GRAIN - 1)));
	if (!to)
		return BPFDB_CORRUPT;
	to += old_len & (BPFDB_GRAIN - 1);
	if (added > BPFDB_VALUE_MAX - BPFDB_GRAIN)
		return BPFDB_VALUE_TOO_LARGE;
	arg_copy(c, to, added);
	return BPFDB_OK;
}

static __always_inline int append_once(struct bpfdb_connection *c, struct bpfdb_session *s,
				       bool own)
{
	int status = short_begin(s, own, SHORT_WRITE);

	if (status == BPFDB_OK)
		status = bpfdb_get_for_update(s);
	if (status == BPFDB_NOT_FOUND) {
		s->value_len = 0;
		s->value[0] = s->value[1] = 0;
		status = BPFDB_FOUND;
	}
	if (status == BPFDB_FOUND) {
		status = value_append(c, s);
		c->need = s->value_len;
		if (status == BPFDB_OK) {
			s->expires = s->found_expires;
			status = bpfdb_set(s);
		}
	}
	return short_end(s, own, status);
}

__noinline int command_append(struct sk_msg_md *m, struct bpfdb_connection *c NONNULL,
			      struct bpfdb_session *s NONNULL)
{
	bool own = short_needed(s);
	int result, status;

	if (c->argc != 2)
		return SLOW;
	result = key_and_arg(c, s);
	if (result != DONE)
		return result;
	if (c->arg_len > BPFDB_VALUE_MAX / 2)
		return SLOW;
	room_until(c, c->at);
	status = WITHOUT_CONFLICT(own, append_once(c, s, own));
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	return reply_header(m, c, ':', c->need);
}

#endif
