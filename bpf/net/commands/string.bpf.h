/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* GET, STRLEN: one key, one value. */
#ifndef BPFDB_COMMANDS_STRING_BPF_H
#define BPFDB_COMMANDS_STRING_BPF_H

#include "transaction.bpf.h"

/* GETs in a row that writers may spoil by replacing the value being copied. */
#define COPY_TRIES 64

__noinline enum result command_get(struct sk_msg_md *m, struct bpfdb_connection *c NONNULL,
				   struct bpfdb_session *s NONNULL)
{
	enum result result;
	enum bpfdb_status status;

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

__noinline enum result command_strlen(struct sk_msg_md *m, struct bpfdb_connection *c NONNULL,
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
