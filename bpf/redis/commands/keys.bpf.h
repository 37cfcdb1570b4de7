/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* DEL, UNLINK, EXISTS, TOUCH: any number of keys, counted. TYPE. */
#ifndef BPFDB_COMMANDS_KEYS_BPF_H
#define BPFDB_COMMANDS_KEYS_BPF_H

#include "transaction.bpf.h"

/* Looks for all keys, or deletes them: OK with the number of those that there were in
 * c->keys_found, or an Error. */
static __always_inline enum bpfdb_status keys_each(struct context *c, struct bpfdb_session *s,
						   bool deletes)
{
	c->keys_found = 0;
	repeat(i, c->argc)
	{
		enum bpfdb_status status;

		if (key_next(c, s) != DONE)
			return BPFDB_BAD_REQUEST;
		status = deletes ? bpfdb_delete(s) : OF_ANY_TYPE(s, bpfdb_get(s));
		if (status >= BPFDB_FIRST_ERROR)
			return status;
		c->keys_found += status == BPFDB_FOUND;
	}
	return BPFDB_OK;
}

static __always_inline enum bpfdb_status delete_once(struct context *c, struct bpfdb_session *s,
						     bool own, u32 first)
{
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);

	c->at = first;
	return short_end(s, own, status == BPFDB_OK ? keys_each(c, s, true) : status);
}

__noinline enum result command_del(struct sk_msg_md *m, struct context *c NONNULL,
				   struct bpfdb_session *s NONNULL)
{
	bool own = short_needed(s) && c->argc > 1;
	u32 first = c->at;
	enum result result;
	enum bpfdb_status status;

	if (!c->argc)
		return PASS_TO_DAEMON;
	result = args_check(c, c->argc, 1);
	if (result != DONE)
		return result;
	status = WITHOUT_CONFLICT(own, delete_once(c, s, own, first));
	/* It deletes key by key, which takes no memory for locks. */
	if (own && unlikely(status == BPFDB_OUT_OF_MEMORY))
		return PASS_TO_DAEMON;
	return REPLY_WRITTEN(m, c, s, status, reply_header(m, c, ':', c->keys_found));
}

__noinline enum result command_exists(struct sk_msg_md *m, struct context *c NONNULL,
				      struct bpfdb_session *s NONNULL)
{
	bool own = short_needed(s) && c->argc > 1;
	enum result result;
	enum bpfdb_status status;
	u32 untracked;

	if (!c->argc)
		return PASS_TO_DAEMON;
	result = args_check(c, c->argc, 1);
	if (result != DONE)
		return result;
	untracked = s->untracked;
	s->untracked = c->own.command != BPFDB_COMMAND_TOUCH;
	status = short_begin(s, own, SHORT_READ);
	if (status == BPFDB_OK)
		status = short_end(s, own, keys_each(c, s, false));
	s->untracked = untracked;
	c->at = c->end;
	room_until(c, c->request);
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	room_until(c, c->at);
	return harmless(reply_header(m, c, ':', c->keys_found));
}

__noinline enum result command_type(struct sk_msg_md *m, struct context *c NONNULL,
				    struct bpfdb_session *s NONNULL)
{
	enum result result = key_alone(c, s);
	enum bpfdb_status status;

	if (result != DONE)
		return result;
	status = UNTRACKED(s, bpfdb_get(s));
	/* The daemon has the names of other types. */
	if (status == BPFDB_WRONG_TYPE)
		return PASS_TO_DAEMON;
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	return harmless(status == BPFDB_FOUND ? reply_string_type(m, c) : reply_no_type(m, c));
}

#endif
