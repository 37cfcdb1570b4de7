/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * A connection whose request is parked: the front end keeps it until what it needs was read, and io_uring sends
 * the reply on our own socket (docs/decisions/0054-cold-values-answered-in-the-kernel.md).
 *
 *   verdict.bpf.h ── park_may_begin ──► front_end_parks: park_begin ── the segment is dropped
 *   sendmsg() of io_uring on our socket ──► net_answer ──► front_end_sends: park_commit ── TCP gets the reply
 *
 * 1. A request is parked if it is all that the connection has under way: everything before it is answered or
 *    consumed, and the kernel has the connection. So its session is nobody's meanwhile, and is not used either.
 * 2. Books: what is parked counts as passed to the daemon. So it is, if the daemon takes it; if the reply is sent,
 *    park_commit takes that back. Both under the lock of our socket.
 * 3. `parked` says that it is so. What arrives meanwhile raises DAEMON (verdict.bpf.h), and the end of the connection leaves
 *    the session to the daemon (connection_end).
 * 4. The reply is passed to TCP, without giving up the lock: a redirection would give it up. So there must
 *    be room, as for the worker's replies; it was there when the request arrived, and nothing was sent since. If it is not, or the
 *    books do not agree, the connection is BROKEN.
 */
#ifndef BPFDB_NET_PARK_BPF_H
#define BPFDB_NET_PARK_BPF_H

#include "connection.bpf.h"
#include "socket.bpf.h"
#include "worker.bpf.h"

/* Is there room for a reply, as far as the socket of this segment is concerned? */
static __always_inline bool segment_has_room(struct __sk_buff *skb)
{
	struct sk_buff *segment = bpf_cast_to_kern_ctx(skb);
	unsigned long *pressure = BPF_CORE_READ(segment, sk, __sk_common.skc_prot, memory_pressure);
	u32 queued = BPF_CORE_READ(segment, sk, sk_wmem_queued);
	u32 most = BPF_CORE_READ(segment, sk, sk_sndbuf);
	unsigned long since = 0;

	bpf_probe_read_kernel(&since, sizeof(since), pressure);
	return !since && queued <= most / 2;
}

/* It has no transaction, and its accesses count. Nothing else of the connection is under way, so nobody has the session. */
static __always_inline bool park_is_allowed(struct __sk_buff *skb, u32 index)
{
	struct bpfdb_session *s = bpfdb_session(index);

	return s && LOAD(s->state) == BPFDB_TXN_NONE && !session_undoes(s) && !LOAD(s->untracked) &&
	       !LOAD(gate.paused) && segment_has_room(skb);
}

/* The request of `bytes`, all of the segment, is about to be parked. */
static __always_inline void park_begin(struct bpfdb_connection *c, u32 bytes)
{
	c->passed += bytes;
	STORE(c->parked, bytes);
}

/* It is not. */
static __always_inline void park_undo(struct bpfdb_connection *c, u32 bytes)
{
	STORE(c->parked, 0);
	c->passed -= bytes;
}

/* Can the reply be sent that is this message, of `bytes`? */
static __always_inline bool park_can_commit(struct sk_msg_md *m, struct bpfdb_connection *c,
					    u64 cookie, u32 bytes)
{
	struct bpf_sock *sk = m->sk;
	struct tcp_sock *tcp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;

	return tcp && c->cookie == cookie && LOAD(c->parked) && m->size == bytes &&
	       !(LOAD(c->arrived) & (BPFDB_CONNECTION_CLOSED | BPFDB_CONNECTION_BROKEN)) &&
	       in_step(c, tcp) && !send_queue_is_long(tcp) && !memory_is_short(tcp);
}

/* TCP gets the reply next. `answered` last: a local client goes by it. */
static __always_inline void park_commit(struct bpfdb_connection *c, u32 bytes)
{
	u32 request = c->parked;

	COUNT_NET_N(bytes_received, request);
	COUNT_NET_N(bytes_sent, bytes);
	c->passed -= request;
	STORE(c->parked, 0);
	STORE(c->replied, c->replied + bytes);
	STORE_RELEASE(c->answered, c->answered + request);
}

/* A flag is raised for the connection of a parked request, which has this index as long as that is. */
static __always_inline void park_raise(u32 index, u64 cookie, u64 flag)
{
	struct bpfdb_connection *c = connection_at(index);

	if (c && LOAD(c->cookie) == cookie)
		connection_raise(c, index, flag);
}

#endif
