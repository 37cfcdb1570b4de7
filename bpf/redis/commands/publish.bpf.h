/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* PUBLISH while nobody has subscribed to anything. */
#ifndef BPFDB_COMMANDS_PUBLISH_BPF_H
#define BPFDB_COMMANDS_PUBLISH_BPF_H

#include "transaction.bpf.h"
#include "../resp_reply.bpf.h"

/*
 * The daemon raises the word before it replies to SUBSCRIBE. Whoever publishes after a subscriber has that reply sees
 * it raised; who publishes before may find nobody, as in Redis. The channel's name is not looked at: any
 * subscription, to a pattern or of a shard too, has the daemon answer.
 */
struct bpfdb_audience audience SEC(".data.audience");

/* Not in a transaction: what it publishes is sent when that commits, and a client may have subscribed between this
 * command and the commit. */
__noinline enum result command_publish(struct sk_msg_md *m, struct context *c NONNULL,
				       struct bpfdb_session *s NONNULL)
{
	enum result result;

	if (c->argc != 2 || LOAD(audience.is_there) || !short_needed(s))
		return PASS_TO_DAEMON;
	result = arg_next(c);
	if (result == DONE)
		result = arg_next(c);
	if (result != DONE)
		return result;
	room_until(c, c->at);
	return harmless(reply_header(m, c, ':', 0));
}

#endif
