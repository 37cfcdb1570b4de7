/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * A message: a part of the stream of a connection, with requests that are to be answered.
 *
 * A parser reads its window, a copy of a part of the message in the context: bytes of a
 * map may be read at any offset, without the bounds check that the verifier wants for each
 * access to a packet. Behind the last byte of the message the window is zero.
 */
#ifndef BPFDB_NET_MESSAGE_BPF_H
#define BPFDB_NET_MESSAGE_BPF_H

#include "context.bpf.h"

/* What became of a request, or of a part of it. Not an outcome of the engine, which is an
 * enum bpfdb_status: the compiler refuses to take one for the other. */
enum result {
	DONE = 0, /* answered */
	PASS_TO_DAEMON = 1, /* not executed: the daemon answers */
	INCOMPLETE = 2, /* not executed: more bytes must come */
	AGAIN = 3, /* the value changed while it was copied */
	NO_ROOM = 4, /* the reply found no memory */
};

/* Of a command that changes nothing: it may be executed again. */
static __always_inline enum result harmless(enum result result)
{
	return result == NO_ROOM ? PASS_TO_DAEMON : result;
}

/* Loads the window at a position of the message. A subprogram: whatever parses may need it, and
 * does so rarely. */
__noinline int window_load(struct context *c NONNULL, u32 at)
{
	u32 len = c->size - at;

	if (len > WINDOW)
		len = WINDOW;
	c->window_at = at;
	c->window_end = at + len;
	OPAQUE(len);
	len &= 2 * WINDOW - 1;
	if (len > WINDOW)
		return 0;
	bpf_probe_read_kernel(c->window, len, (void *)(c->source + at));
	*(u64 *)(c->window + len) = 0;
	return 0;
}

/* Bytes at a position of the message, at least `need` of them unless it ends
 * before; need is at most WINDOW_PAD. */
static __always_inline const u8 *window_at(struct context *c, u32 at, u32 need)
{
	u64 offset;

	if (at < c->window_at || (at + need > c->window_end && c->window_end < c->size))
		window_load(c, at < c->size ? at : c->size);
	offset = at - c->window_at;
	OPAQUE(offset);
	offset &= 2 * WINDOW - 1;
	if (offset > WINDOW)
		offset = WINDOW;
	return c->window + offset;
}

/* Makes the whole message readable at c->source. */
static __always_inline bool message_open(struct sk_msg_md *m, struct context *c)
{
	u32 size = m->size;

	c->answers = 0;
	c->gaps = 0;
	if (bpf_msg_pull_data(m, 0, size, 0))
		return false;
	c->source = (u64)m->data;
	c->size = size;
	c->request = 0;
	c->out = 0;
	c->room = 0;
	window_load(c, 0);
	return true;
}

/* Cuts out what lies between the replies and the requests that remain. */
static __always_inline bool message_cut(struct sk_msg_md *m, const struct context *c)
{
	u32 remain = c->size - c->request;
	u32 unused = m->size - c->out - remain;

	return !unused || bpf_msg_pop_data(m, c->out, unused, 0) == 0;
}

/*
 * The replies in one piece: the kernel may find memory for some pieces and not
 * for others, and would then show us replies as if they were requests.
 */
static __always_inline bool message_join(struct sk_msg_md *m, const struct context *c)
{
	return !c->gaps || bpf_msg_pull_data(m, 0, c->out, 0) == 0;
}

#endif
