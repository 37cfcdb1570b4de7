/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* PING [message], ECHO message. */
#ifndef BPFDB_COMMANDS_CONNECTION_BPF_H
#define BPFDB_COMMANDS_CONNECTION_BPF_H

#include "../resp_reply.bpf.h"

__noinline enum result command_echo(struct sk_msg_md *m, struct context *c NONNULL)
{
	enum result result;

	if (c->argc != 1)
		return PASS_TO_DAEMON;
	result = arg_next(c);
	if (result != DONE)
		return result;
	/* The reply is written over the request before this one at most: its
	 * bytes may still have to be loaded. */
	room_until(c, c->request);
	return harmless(reply_arg(m, c));
}

__noinline enum result command_ping(struct sk_msg_md *m, struct context *c NONNULL)
{
	if (c->argc)
		return command_echo(m, c);
	room_until(c, c->at);
	return harmless(reply_pong(m, c));
}

#endif
