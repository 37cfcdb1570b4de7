/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* GET, STRLEN: one key, one value. */
#ifndef BPFDB_COMMANDS_STRING_BPF_H
#define BPFDB_COMMANDS_STRING_BPF_H

#include "transaction.bpf.h"

static __always_inline enum result get_reply(struct sk_msg_md *m, struct context *c,
					     struct bpfdb_session *s)
{
	enum bpfdb_status status = bpfdb_get(s);

	if (status == BPFDB_NOT_FOUND)
		return harmless(reply_nil(m, c));
	if (status != BPFDB_FOUND)
		return reply_error(m, c, s, status);
	return harmless(reply_value(m, c, s));
}

__noinline enum result command_get(struct sk_msg_md *m, struct context *c NONNULL,
				   struct bpfdb_session *s NONNULL)
{
	enum result result = key_alone(c, s);

	if (result != DONE)
		return result;
	next_prefetch(c);
	return WHILE_SPOILED(s, get_reply(m, c, s));
}

__noinline enum result command_strlen(struct sk_msg_md *m, struct context *c NONNULL,
				      struct bpfdb_session *s NONNULL)
{
	enum result result;
	enum bpfdb_status status;

	result = key_alone(c, s);
	if (result != DONE)
		return result;
	status = bpfdb_get(s);
	if (status == BPFDB_NOT_FOUND)
		return harmless(reply_header(m, c, ':', 0));
	if (status != BPFDB_FOUND)
		return reply_error(m, c, s, status);
	if (s->value_len > BPFDB_VALUE_MAX)
		return PASS_TO_DAEMON;
	return harmless(reply_header(m, c, ':', s->value_len));
}

#endif
