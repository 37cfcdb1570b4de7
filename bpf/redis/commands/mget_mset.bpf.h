/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* MGET: one snapshot. MSET: all or nothing. */
#ifndef BPFDB_COMMANDS_MGET_MSET_BPF_H
#define BPFDB_COMMANDS_MGET_MSET_BPF_H

#include "transaction.bpf.h"

/* Replies with the value of the session's key: OK, or an Error. */
static __always_inline enum bpfdb_status mget_one(struct sk_msg_md *m, struct context *c,
						  struct bpfdb_session *s)
{
	repeat(i, BPFDB_COMMAND_TRIES)
	{
		enum bpfdb_status status = bpfdb_get(s);
		enum result result;

		/* As in Redis, MGET has no error for a key: what is no string is not there. */
		if (status == BPFDB_NOT_FOUND || status == BPFDB_WRONG_TYPE)
			return reply_nil(m, c) == DONE ? BPFDB_OK : FOR_THE_DAEMON;
		if (status != BPFDB_FOUND)
			return status;
		result = reply_value(m, c, s);
		if (result != AGAIN)
			return result == DONE ? BPFDB_OK : FOR_THE_DAEMON;
	}
	/* Without a snapshot: it is the only key. */
	return FOR_THE_DAEMON;
}

static __always_inline enum bpfdb_status mget_all(struct sk_msg_md *m, struct context *c,
						  struct bpfdb_session *s)
{
	repeat(i, c->argc)
	{
		enum bpfdb_status status;

		if (c->out > BPFDB_REPLY_BATCH)
			return FOR_THE_DAEMON;
		c->piece = c->at;
		if (key_next(c, s) != DONE)
			return BPFDB_BAD_REQUEST;
		status = mget_one(m, c, s);
		if (status != BPFDB_OK)
			return status;
	}
	return BPFDB_OK;
}

__noinline enum result command_mget(struct sk_msg_md *m, struct context *c NONNULL,
				    struct bpfdb_session *s NONNULL)
{
	bool own = short_needed(s) && c->argc > 1;
	u32 out = c->out;
	enum result result;
	enum bpfdb_status status;

	if (!c->argc)
		return PASS_TO_DAEMON;
	result = args_check(c, c->argc, 1);
	if (result != DONE)
		return result;
	room_until(c, c->request);
	status = short_begin(s, own, SHORT_READ);
	if (status == BPFDB_OK) {
		status = reply_header(m, c, '*', c->argc) == DONE ? mget_all(m, c, s)
								  : FOR_THE_DAEMON;
		status = short_end(s, own, status);
	}
	c->at = c->end;
	if (status == BPFDB_OK)
		return DONE;
	c->out = out;
	return reply_error(m, c, s, status);
}

static __always_inline enum bpfdb_status mset_all(struct context *c, struct bpfdb_session *s)
{
	repeat(i, c->argc / 2)
	{
		enum bpfdb_status status;

		if (key_next(c, s) != DONE || arg_next(c) != DONE)
			return BPFDB_BAD_REQUEST;
		status = arg_to_value(c, s);
		if (status == BPFDB_OK)
			status = bpfdb_set(s);
		if (status != BPFDB_OK)
			return status;
	}
	return BPFDB_OK;
}

static __always_inline enum bpfdb_status mset_once(struct context *c, struct bpfdb_session *s,
						   bool own, u32 first)
{
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);

	c->at = first;
	return short_end(s, own, status == BPFDB_OK ? mset_all(c, s) : status);
}

__noinline enum result command_mset(struct sk_msg_md *m, struct context *c NONNULL,
				    struct bpfdb_session *s NONNULL)
{
	bool own = short_needed(s) && c->argc > 2;
	u32 first = c->at;
	enum result result;
	enum bpfdb_status status;

	if (!c->argc || c->argc % 2)
		return PASS_TO_DAEMON;
	result = args_check(c, c->argc, 2);
	if (result != DONE)
		return result;
	status = WITHOUT_CONFLICT(own, mset_once(c, s, own, first));
	return REPLY_WRITTEN(m, c, s, status, reply_ok(m, c));
}

#endif
