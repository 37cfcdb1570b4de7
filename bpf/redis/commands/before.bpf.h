/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Replies with the value that a command is about to replace. They are written while
 * the value is locked, because its memory is given up at the end. So what comes after
 * may have to be done again, or be left to the daemon: the request must stay readable,
 * and the reply can be taken back.
 */
#ifndef BPFDB_COMMANDS_BEFORE_BPF_H
#define BPFDB_COMMANDS_BEFORE_BPF_H

#include "transaction.bpf.h"

struct before {
	u32 out; /* where the reply begins */
	bool found;
};

static __always_inline struct before before_begin(const struct context *c)
{
	return (struct before){.out = c->out};
}

/* Replies with what GET for update, which had this outcome, left in the session: the
 * outcome, or an Error. */
static __always_inline enum bpfdb_status before_reply(struct sk_msg_md *m, struct context *c,
						      struct bpfdb_session *s,
						      enum bpfdb_status status,
						      struct before *before)
{
	enum result result;

	if (status >= BPFDB_FIRST_ERROR)
		return status;
	before->found = status == BPFDB_FOUND;
	room_until(c, c->request);
	result = before->found ? reply_value(m, c, s) : reply_nil(m, c);
	return result == DONE ? status : FOR_THE_DAEMON;
}

/* The command came to `status`: takes the reply back, or counts it as Redis does. */
static __always_inline void before_end(struct context *c, struct bpfdb_session *s,
				       enum bpfdb_status status, const struct before *before)
{
	if (status >= BPFDB_FIRST_ERROR) {
		c->out = before->out;
		return;
	}
	s->gets_found += before->found;
	s->gets_missed += !before->found;
}

#endif
