/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* From the kernel to the daemon: what cannot be answered here, and what may be later. */
#ifndef BPFDB_NET_HANDOVER_BPF_H
#define BPFDB_NET_HANDOVER_BPF_H

#include "connection.bpf.h"
#include "front_end.bpf.h"

/* Parts of one message that the kernel may keep unseen: each has a byte. */
#define PARTS_KEPT 8
/* How often the parts of a request are looked at before the daemon, which need
 * not begin anew each time, gets them. */
#define PARTS_MAX 64

__noinline int hand_over(struct sk_msg_md *m, struct bpfdb_connection *c NONNULL, u32 index)
{
	/* It may have ended meanwhile; its socket is there until that is closed. */
	u64 cookie = c->cookie & ~BPFDB_COOKIE_RETIRED;

	c->corked = 0;
	c->parts = 0;
	front_end_passed(c);
	STORE(c->handed, c->handed + m->size);
	/* Perhaps a long argument. The daemon, which hears of it after this, knows. */
	if (!(LOAD(c->arrived) & BPFDB_CONNECTION_DAEMON))
		STORE(c->patient, 1);
	COUNT_NET_N(bytes_passed, m->size);
	connection_raise(c, index, BPFDB_CONNECTION_DAEMON);
	return bpf_msg_redirect_hash(m, &sockets, &cookie, BPF_F_INGRESS);
}

/* A broken connection sends nothing more: the error makes the worker give up. */
static __always_inline int give_up(struct bpfdb_connection *c, u32 index)
{
	connection_raise(c, index, BPFDB_CONNECTION_BROKEN);
	return SK_DROP;
}

/*
 * Waits for the rest of a request, unless it is too long, or comes in too many
 * parts. The kernel keeps 17 parts at most, and loses the connection to the next
 * one (ENOSPC, seen on 6.18; adjacent parts are one, until others take turns
 * with the same page). So the program looks again after a few bytes: then it
 * makes one part of all (bpf_msg_pull_data).
 */
static __always_inline int keep_back(struct sk_msg_md *m, struct bpfdb_connection *c, u32 index,
				     u32 complete_size)
{
	u32 need = complete_size > m->size ? complete_size : m->size + 1;

	if (need > BPFDB_REQUEST_MAX || m->size < c->corked || c->parts >= PARTS_MAX)
		return hand_over(m, c, index);
	if (need > m->size + PARTS_KEPT)
		need = m->size + PARTS_KEPT;
	c->parts++;
	c->corked = need;
	bpf_msg_cork_bytes(m, need);
	return SK_PASS;
}

#endif
