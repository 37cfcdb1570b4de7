/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The program that answers the commands with BPFDB_APART (bpfdb/commands.h), one in each run, for
 * redis_answer:
 *
 *   redis_answer: parses the name, finds the command        redis_apart
 *     │ context and session are those of the socket             │
 *     ├── command_apart (commands/apart.bpf.h) ────────────────►│ arguments, operators, reply
 *     │◄─ the result ───────────────────────────────────────────┤
 *     │ counts, next request
 *
 * 1. It runs in the midst of redis_answer, which has claimed context and session for this message.
 *    It gives neither back.
 * 2. What it returns is an enum result, and no verdict of sk_msg.
 */
#ifndef BPFDB_REDIS_APART_BPF_H
#define BPFDB_REDIS_APART_BPF_H

#include "commands/dispatch.bpf.h"

#define DISPATCH_APART(name, flags, call)                                                          \
	case BPFDB_COMMAND_##name: return (flags) & BPFDB_APART ? (call) : PASS_TO_DAEMON;

static __always_inline enum result command_run_apart(struct sk_msg_md *m, struct context *c,
						     struct bpfdb_session *s)
{
	switch (c->own.command) {
		BPFDB_COMMAND_LIST(DISPATCH_APART)
	default: return PASS_TO_DAEMON;
	}
}

SEC("sk_msg")
int redis_apart(struct sk_msg_md *m)
{
	struct bpf_sock *sk = m->sk;
	struct socket_data *data = sk ? bpf_sk_storage_get(&socket_storage, sk, NULL, 0) : NULL;
	struct context *c = data ? context_at(data->context) : NULL;
	struct bpfdb_session *s = data ? bpfdb_session(data->index) : NULL;

	return c && s ? command_run_apart(m, c, s) : PASS_TO_DAEMON;
}

#endif
