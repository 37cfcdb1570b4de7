/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Contexts: the memory in which messages are answered. A run of net_answer claims one and gives
 * it back at its end; what a connection must remember until the next run is in the connection.
 *
 * Memory of the processor would not do: a program may be preempted by another thread's that
 * answers on the same processor, and so may that one. So a context is claimed by one
 * compare-and-swap, first the one of this processor, which has just been used there, and if
 * that is taken any other. There is no waiting: while all are taken, messages are passed to
 * TCP or to the daemon. No context is lost: a program that has begun always ends.
 */
#ifndef BPFDB_NET_CONTEXT_BPF_H
#define BPFDB_NET_CONTEXT_BPF_H

#include "../operators/maintenance.bpf.h"
#include "context_words.bpf.h"
#include <bpfdb/connection.h>

/* User space makes the map larger on a machine with many processors. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BPFDB_CONTEXTS);
	__type(key, u32);
	__type(value, struct context);
} contexts SEC(".maps");

static __always_inline struct context *context_at(u32 number)
{
	return bpf_map_lookup_elem(&contexts, &number);
}

static __always_inline struct context *context_try(u32 number)
{
	struct context *c = context_at(number);

	return c && !LOAD(c->busy) && !CAS(&c->busy, 0, 1) ? c : NULL;
}

/* A context that no other program has, and its number; NULL if all that are looked at are taken. */
static __always_inline struct context *context_claim(u32 *number)
{
	return CLAIM(number, BPFDB_CONTEXTS_TRIED, context_at, context_try);
}

static __always_inline void context_release(struct context *c)
{
	/* All of this message before the next one that has the context. */
	STORE_RELEASE(c->busy, 0);
}

#endif
