/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What arrives at a connection: counted, and sent on its way. */
#ifndef BPFDB_VERDICT_BPF_H
#define BPFDB_VERDICT_BPF_H

#include "connection.bpf.h"
#include "front_end.bpf.h"
#include "socket.bpf.h"

/* May so much wait? A client that sends a long argument has nothing to read yet, but
 * the worker may be slower than it is, and may not have looked at it at all. */
__noinline int waiting_granted(struct bpfdb_connection *c NONNULL, u64 waiting)
{
	if (waiting <= BPFDB_UNANSWERED_MAX + c->granted)
		return 1;
	if (!LOAD(c->patient))
		return 0;
	if (FETCH_ADD(&granted.value, BPFDB_GRANT) + BPFDB_GRANT > BPFDB_GRANTS_MAX) {
		ADD(&granted.value, -BPFDB_GRANT);
		return 0;
	}
	ADD(&c->granted, BPFDB_GRANT);
	return 1;
}

static __always_inline bool flooded(struct bpfdb_connection *c, u64 arrived)
{
	u64 waiting = bytes_waiting(c, arrived);

	if (likely(waiting <= BPFDB_UNANSWERED_MAX)) {
		if (unlikely(c->granted) && waiting <= BPFDB_UNANSWERED_MAX / 2)
			grant_release(c);
		return false;
	}
	return !waiting_granted(c, waiting);
}

/*
 * Has the worker nothing left of what came before? Only then may something be
 * passed to the daemon directly, where it counts against the receive window.
 * Behind what is still queued the kernel would queue it too, and later account
 * for its memory without the socket's lock (seen on 6.18 as a warning when the
 * socket is destroyed); so it goes through the worker as well.
 */
static __always_inline bool worker_is_idle(const struct bpfdb_connection *c, u64 arrived,
					   struct __sk_buff *skb)
{
	return arrived == LOAD(c->answered) + LOAD(c->handed) + c->passed &&
	       worker_queue_is_empty(skb);
}

/* Nothing can arrive while a local client is answered (local.bpf.h), unless
 * another process puts bytes into the stream. */
static __always_inline bool foreign(const struct bpfdb_connection *c)
{
	return LOAD(c->client) & BPFDB_CLIENT_RUNNING;
}

/*
 * Bytes at the beginning of a segment that came before. TCP queues a segment that was
 * sent again, together with new bytes, as it is, and its readers skip what they have;
 * but to this program the kernel (6.18) shows all of it.
 */
static __always_inline u32 repeated(struct __sk_buff *skb, const struct bpfdb_connection *c,
				    u64 arrived)
{
	struct sk_buff *segment = bpf_cast_to_kern_ctx(skb);
	u32 sequence = 0, ahead;

	if (bpf_probe_read_kernel(&sequence, sizeof(sequence), &segment->cb))
		return 0;
	ahead = c->client_first + (u32)arrived - sequence;
	return (int)ahead > 0 ? ahead : 0;
}

/* The helper takes this many bytes at a time. */
#define CUT_MAX 0xfff
#define CUTS_MAX 1024

struct cut {
	struct __sk_buff *skb;
	u32 bytes;
	u32 failed;
};

/* How much is left follows from the round: a count of it would have the verifier walk
 * all rounds. */
static long cut_some(u64 i, struct cut *cut)
{
	u64 done = i * CUT_MAX;
	u32 some;

	if (done >= cut->bytes)
		return 1;
	some = cut->bytes - done < CUT_MAX ? cut->bytes - done : CUT_MAX;
	if (bpf_skb_adjust_room(cut->skb, -(int)some, 0, 0) == 0)
		return 0;
	cut->failed = 1;
	return 1;
}

/* Cuts off the beginning of a segment: by its new length the kernel counts on. */
static __always_inline bool cut_off(struct __sk_buff *skb, u32 bytes)
{
	struct cut cut = {.skb = skb, .bytes = bytes > skb->len ? skb->len : bytes};

	bpf_loop(CUTS_MAX, cut_some, &cut, 0);
	return !cut.failed;
}

/* For each segment that arrives at a socket of ours. */
static __always_inline int net_verdict(struct __sk_buff *skb)
{
	u64 cookie = bpf_get_socket_cookie(skb), before, arrived;
	u32 known;
	u32 *index = bpf_map_lookup_elem(&cookies, &cookie);
	struct bpfdb_connection *c = index ? connection_at(*index) : NULL;

	/* A lone FIN comes here too. It must not be redirected: the worker takes
	 * a message of no bytes for an error. */
	if (!skb->len)
		return SK_DROP;
	if (!c)
		return SK_PASS;
	known = repeated(skb, c, LOAD(c->arrived) & BPFDB_CONNECTION_BYTES);
	if (unlikely(known)) {
		if (!cut_off(skb, known)) {
			connection_raise(c, *index, BPFDB_CONNECTION_BROKEN);
			return SK_DROP;
		}
		if (!skb->len)
			return SK_DROP;
	}
	before = FETCH_ADD(&c->arrived, skb->len);
	arrived = before & BPFDB_CONNECTION_BYTES;
	if (flooded(c, arrived) || foreign(c)) {
		connection_raise(c, *index, BPFDB_CONNECTION_BROKEN);
		return SK_DROP;
	}
	/* What is parked comes first: the daemon takes it, or waits for its reply. */
	if (unlikely(LOAD(c->parked)) && !(before & BPFDB_CONNECTION_DAEMON)) {
		connection_raise(c, *index, BPFDB_CONNECTION_DAEMON);
		before |= BPFDB_CONNECTION_DAEMON;
	}
	if (unlikely(LOAD(c->seat)) && !(before & ~BPFDB_CONNECTION_BYTES) &&
	    worker_is_idle(c, arrived, skb) && front_end_parks(skb))
		return SK_DROP;
	if (before & BPFDB_CONNECTION_DAEMON)
		front_end_arrives(skb);
	if ((before & BPFDB_CONNECTION_DAEMON) && worker_is_idle(c, arrived, skb)) {
		c->passed += skb->len;
		COUNT_NET_N(bytes_passed, skb->len);
		return SK_PASS;
	}
	return bpf_sk_redirect_hash(skb, &sockets, &cookie, 0);
}

#endif
