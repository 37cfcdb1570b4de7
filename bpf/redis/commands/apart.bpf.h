/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The way to the commands that have a program of their own (BPFDB_APART in bpfdb/commands.h; the
 * program is redis/apart.bpf.h). It is entered by a tail call out of a subprogram: when it ends,
 * the kernel returns to the caller of that, with what the program has returned.
 *
 * A server loads this program when the first of its commands has come. As long as it is not there the
 * daemon answers them.
 */
#ifndef BPFDB_COMMANDS_APART_BPF_H
#define BPFDB_COMMANDS_APART_BPF_H

#include "transaction.bpf.h"
#include "../../net/message.bpf.h"
#include <bpfdb/procedure.h>

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, BPFDB_APART_COUNT);
	__type(key, u32);
	__type(value, u32);
} apart SEC(".maps");

/* What the program says of the command, whose number is in the context. A connection that has met a large
 * collection is likely to meet it again: its commands go to redis_large first, so that what
 * redis_apart would do in vain is not done. Not in a transaction of the client's: redis_apart knows what
 * it says if that has failed. The kernel bounds the tail calls of a run, those to procedures included. */
__noinline enum result command_apart(struct sk_msg_md *m, struct context *c NONNULL,
				     struct bpfdb_session *s NONNULL)
{
	enum result result = PASS_TO_DAEMON;

	if (c->calls >= BPFDB_CALLS_PER_RUN)
		return PASS_TO_DAEMON;
	c->calls++;
	if (c->own.meets_large && (short_needed(s) || c->block))
		bpf_tail_call(m, &apart, BPFDB_APART_LARGE);
	c->own.meets_large = 0;
	bpf_tail_call(m, &apart, BPFDB_APART_COMMANDS);
	/* Else clang would have the callers take it for a constant. */
	OPAQUE(result);
	return result;
}

#endif
