/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* GETDEL, GETEX: a value is read, and deleted or given another time. */
#ifndef BPFDB_COMMANDS_GETDEL_GETEX_BPF_H
#define BPFDB_COMMANDS_GETDEL_GETEX_BPF_H

#include "before.bpf.h"
#include "expiry.bpf.h"
#include "string.bpf.h"

enum taking { TAKING_DELETES, TAKING_EXPIRES };

/* What becomes of the value that was found: an outcome or an Error. */
static __always_inline enum bpfdb_status taken(struct context *c, struct bpfdb_session *s,
					       enum taking what)
{
	if (what == TAKING_DELETES)
		return bpfdb_delete(s);
	/* PERSIST in vain. The time that it has is a write, as in Redis. */
	if (!s->found_expires && !c->deadline)
		return BPFDB_OK;
	return value_set(s, value_copy(s), c->deadline);
}

static __always_inline enum bpfdb_status take_once(struct sk_msg_md *m, struct context *c,
						   struct bpfdb_session *s, bool own,
						   enum taking what)
{
	struct before before = before_begin(c);
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);

	if (status == BPFDB_OK)
		status = bpfdb_get_for_update(s);
	status = before_reply(m, c, s, status, &before);
	if (status == BPFDB_FOUND)
		status = taken(c, s, what);
	status = short_end(s, own, status);
	before_end(c, s, status, &before);
	return status;
}

static __always_inline enum result take(struct sk_msg_md *m, struct context *c,
					struct bpfdb_session *s, enum taking what)
{
	bool own = short_needed(s);
	enum bpfdb_status status;

	/* What is not there needs no lock. */
	if (own && bpfdb_peek(s) == BPFDB_NOT_FOUND) {
		s->gets_missed++;
		room_until(c, c->at);
		return harmless(reply_nil(m, c));
	}
	status = WITHOUT_CONFLICT(own, take_once(m, c, s, own, what));
	return status >= BPFDB_FIRST_ERROR ? reply_error(m, c, s, status) : DONE;
}

__noinline enum result command_getdel(struct sk_msg_md *m, struct context *c NONNULL,
				      struct bpfdb_session *s NONNULL)
{
	enum result result = c->argc == 1 ? key_next(c, s) : PASS_TO_DAEMON;

	return result == DONE ? take(m, c, s, TAKING_DELETES) : result;
}

/* With PERSIST or a time. */
__noinline enum result getex_with_option(struct sk_msg_md *m, struct context *c NONNULL,
					 struct bpfdb_session *s NONNULL)
{
	bool persists = c->argc == 2;
	enum result result;

	if (c->argc != 2 && c->argc != 3)
		return PASS_TO_DAEMON;
	result = key_and_arg(c, s);
	if (result != DONE)
		return result;
	c->deadline = 0;
	if (!persists)
		result = deadline_option(c, arg_word(c));
	else if (arg_word(c) != WORD("persist"))
		result = PASS_TO_DAEMON;
	return result == DONE ? take(m, c, s, TAKING_EXPIRES) : result;
}

/* Without an option it is GET. */
static __always_inline enum result command_getex(struct sk_msg_md *m, struct context *c,
						 struct bpfdb_session *s)
{
	return c->argc == 1 ? command_get(m, c, s) : getex_with_option(m, c, s);
}

#endif
