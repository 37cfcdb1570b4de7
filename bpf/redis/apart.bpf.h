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
 * 3. What meets a collection that is no small one is left to redis_large (large.bpf.h), as if this
 *    program had not run. It has changed nothing, but for a write of several elements in MULTI … EXEC,
 *    after whose first ones the collection may be too long: redis_large has none of these, so the block
 *    is undone.
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

/* The context and the session of the program that has entered this one. */
static __always_inline bool apart_open(struct sk_msg_md *m, struct context **c,
				       struct bpfdb_session **s)
{
	struct bpf_sock *sk = m->sk;
	struct socket_data *data = sk ? bpf_sk_storage_get(&socket_storage, sk, NULL, 0) : NULL;

	*c = data ? context_at(data->context) : NULL;
	*s = data ? bpfdb_session(data->index) : NULL;
	return *c && *s;
}

/* What a program has to leave to the other one as it was. */
struct apart_start {
	u64 found;
	u64 missed;
	u32 at;
};

static __always_inline struct apart_start apart_begin(struct context *c,
						      const struct bpfdb_session *s)
{
	c->is_large = 0;
	return (struct apart_start){
		.found = s->gets_found,
		.missed = s->gets_missed,
		.at = c->at,
	};
}

/* The command has done nothing, and another program begins with it. */
static __always_inline void apart_undo(struct context *c, struct bpfdb_session *s,
				       const struct apart_start *start)
{
	c->at = start->at;
	s->gets_found = start->found;
	s->gets_missed = start->missed;
	/* Behind the last one that BPFDB_CALLS_PER_RUN allows the kernel allows one more. */
	c->calls++;
}

SEC("sk_msg")
int redis_apart(struct sk_msg_md *m)
{
	struct context *c;
	struct bpfdb_session *s;
	struct apart_start start;
	enum result result;

	if (!apart_open(m, &c, &s))
		return PASS_TO_DAEMON;
	start = apart_begin(c, s);
	result = command_run_apart(m, c, s);
	if (likely(result != PASS_TO_DAEMON || !c->is_large))
		return result;
	apart_undo(c, s, &start);
	bpf_tail_call(m, &apart, BPFDB_APART_LARGE);
	return PASS_TO_DAEMON;
}

#endif
