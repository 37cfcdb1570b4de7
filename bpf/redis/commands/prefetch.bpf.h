/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The ways to the programs that have cold values read before the daemon needs them (redis/prefetch.bpf.h). */
#ifndef BPFDB_COMMANDS_PREFETCH_BPF_H
#define BPFDB_COMMANDS_PREFETCH_BPF_H

#include "../context.bpf.h"
#include "../../net/message.bpf.h"
#include <bpfdb/procedure.h>

/* Each has one program as its only entry: a server with cold values puts it there. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} prefetcher SEC(".maps"), segment_prefetcher SEC(".maps");

/* The message is about to be handed over, from the request at c->request on. */
__noinline int message_prefetch(struct sk_msg_md *m, struct context *c NONNULL)
{
	int done = 0;

	/* The kernel bounds the tail calls of a run. */
	if (c->calls >= BPFDB_CALLS_PER_RUN)
		return 0;
	c->calls++;
	bpf_tail_call(m, &prefetcher, 0);
	OPAQUE(done);
	return done;
}

/* The segment goes to the daemon, which has the connection. */
__noinline int segment_prefetch(struct __sk_buff *skb)
{
	int done = 0;

	bpf_tail_call(skb, &segment_prefetcher, 0);
	OPAQUE(done);
	return done;
}

#endif
