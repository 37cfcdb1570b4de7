/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * A connection, and which side answers it: kernel or daemon.
 *
 *   client ──TCP──► verdict.bpf.h ──(worker)──► answer.bpf.h ──TCP──► client
 *                        │                          │
 *                        │ DAEMON: pass             │ DAEMON: to the socket's ingress
 *                        ▼                          ▼
 *                   receive queue of the socket: the daemon reads, answers with send()
 *
 * A client on this machine usually is answered before its bytes reach TCP:
 * local.bpf.h. This page is about the others, and about what that path leaves.
 *
 * Three programs. accept.bpf.h (sockops) gives a new connection a session.
 * verdict.bpf.h (sk_skb) sees what arrives and redirects it, unchanged, to the
 * same socket's egress. There, in the kernel worker that sends it,
 * answer.bpf.h (sk_msg) sees it as a message to be sent: it executes the
 * requests, overwrites them with the replies, and lets TCP send those.
 *
 * Why not answer in the sk_skb program? The kernel advances the socket's
 * copied_seq by the length of a redirected skb *after* the program: an skb that
 * became longer than what arrived makes TCP believe that everything was read
 * already, and it does not call the program for the next request. (With a
 * stream parser the kernel sends as many bytes as the parser said, whatever the
 * program made of them.) An sk_msg may change its length freely.
 *
 * Which side answers is one bit, DAEMON, in the word `arrived` that also counts what
 * arrived from the client:
 *
 *   KERNEL ──fetch_or(DAEMON), in answer.bpf.h, at the first byte of a request
 *   │ ▲    that the kernel cannot answer──► DAEMON
 *   │ └──compare_exchange(DAEMON | n, n) by the daemon, when it has consumed ──┘
 *   │    all n bytes that the kernel has not answered
 *   └── verdict.bpf.h adds to `arrived` and looks at the old DAEMON bit, in one
 *       instruction: so either the hand-back fails, or the bytes are answered
 *       by the kernel.
 *
 * Order of requests: everything redirected passes the socket's ingress_skb
 * queue, and SK_PASS queues behind it while it is not empty. The worker handles
 * one skb after the other, under the socket's lock; what it finds in DAEMON mode
 * goes to the receive queue. So bytes reach the daemon in order.
 *
 * Backpressure: what is passed counts against TCP's receive window, so that a
 * client waits for the daemon, which does not read while the client does not.
 * What is redirected does not count; verdict.bpf.h bounds it.
 *
 * Order of replies: the worker sends synchronously, so all replies of the
 * kernel are in TCP's queue when the first byte that follows reaches the
 * daemon, and no worker sends for this socket until the daemon hands back.
 *
 * One request may wait for its value without being the daemon's: park.bpf.h.
 *
 * What the kernel sent must be in TCP's queue when the next message comes; a
 * send that failed half way (no memory) would else be taken up again by the
 * worker, and requests be executed twice. TCP's write_seq shows it; if it is not
 * what it must be, the connection is BROKEN and closed.
 */
#ifndef BPFDB_CONNECTION_BPF_H
#define BPFDB_CONNECTION_BPF_H

#include "counters.bpf.h"
#include <bpfdb/connection.h>

/* TCP port of the listener, host order; set before the programs are loaded. */
const volatile u32 port SEC(".rodata.net") = 0;

/* What the daemon says to all connections, and changes while they are served; so
 * each must be read once. */
struct bpfdb_gate gate SEC(".data.net");

/* Bytes that may wait beyond BPFDB_UNANSWERED_MAX, of all connections together. */
struct bpfdb_line granted SEC(".data.granted");

/* Parallel to `sessions`: a connection has the index of its session. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, struct bpfdb_connection);
} connections SEC(".maps");

/* Socket cookie -> index: an sk_skb program cannot use socket storage. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u64);
	__type(value, u32);
} cookies SEC(".maps");

/* Socket cookie -> socket. Not index -> socket: an index has its next connection while the socket of the
 * one before may be about to be closed. If that closed socket lost its entry to the next one on another
 * processor just then, the kernel (6.18, sock_map_destroy) would not destroy what TCP has of it. So only its
 * own end takes a socket out. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 64);
	__type(key, u64);
	__type(value, u64);
} sockets SEC(".maps");

/* What is known of a socket: one of ours, or the client's end of a connection
 * that may be ours. */
struct socket_data {
	u64 cookie; /* the socket's own */
	/* Cookie of our end; its own, if it is ours; 0: not known. It shows whether
	 * the index still is this connection's. */
	u64 peer;
	u32 index;
	u32 context; /* number of the one in which its message is being answered */
	/* Of a client's end only: see local.bpf.h. */
	u32 is_client;
	u32 client_first; /* sequence number of the first byte that it sends */
	u32 server_first; /* and that it receives */
	u32 tries; /* to find the connection */
	u32 leaving; /* it is to leave the map of sockets */
	u32 reads; /* by recvmsg(), until it `receives`, */
	u32 received; /* and their bytes */
	u32 receives; /* all that it read was read in this way */
	u32 copied; /* bytes that had been read, in whatever way, when it sent last */
	u32 adjusted; /* copied_seq when TCP said last that something was read */
	/* What its queue held when it was counted, and what was put there since:
	 * not less than it holds. */
	u32 unread; /* bytes */
	u32 unread_messages;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct socket_data);
} socket_storage SEC(".maps");

/* To the daemon. Two records for each connection fit: one when it becomes
 * DAEMON, one when it becomes BROKEN, and then the daemon must have seen them. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} handovers SEC(".maps");

static __always_inline struct bpfdb_connection *connection_at(u32 index)
{
	return bpf_map_lookup_elem(&connections, &index);
}

/* Of so many bytes that have arrived, those that are not taken in. */
static __always_inline u64 bytes_waiting(const struct bpfdb_connection *c, u64 arrived)
{
	return arrived - (LOAD(c->answered) + LOAD(c->consumed));
}

/* Raises a flag; the first to raise it notifies the daemon. */
__noinline int connection_raise(struct bpfdb_connection *c NONNULL, u32 index, u64 flag)
{
	struct bpfdb_handover h = {.cookie = c->cookie, .connection = index};

	if (FETCH_OR(&c->arrived, flag) & flag)
		return 0;
	COUNT_NET(connections_passed);
	return bpf_ringbuf_output(&handovers, &h, sizeof(h), 0);
}

/* Both ends of a connection -> index, for the client's end to find ours. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct bpfdb_flow);
	__type(value, u32);
} flows SEC(".maps");

/* Nothing, or little, waits any more. */
static __always_inline void grant_release(struct bpfdb_connection *c)
{
	u64 had = SWAP(&c->granted, 0);

	if (had)
		ADD(&granted.value, -had);
}

/* Gives back what a retired connection holds; only the first caller does. */
static __always_inline void connection_free(struct bpfdb_connection *c, u32 index, u64 cookie)
{
	u64 retired = cookie | BPFDB_COOKIE_RETIRED;
	struct bpfdb_session *s = bpfdb_session(index);
	u32 *of_flow;

	if (!s || CAS(&c->cookie, retired, 0) != retired)
		return;
	bpf_map_delete_elem(&cookies, &cookie);
	grant_release(c);
	of_flow = bpf_map_lookup_elem(&flows, &c->flow);
	if (of_flow && *of_flow == index)
		bpf_map_delete_elem(&flows, &c->flow);
	bpfdb_session_close(s);
}

/*
 * Ends a connection that only a local client's program may be using; only
 * the first caller does. If that program is running, it frees the connection:
 * it takes its flag away, then looks whether the connection was retired, and
 * this function does the same things in the opposite order.
 */
static __always_inline void connection_retire(struct bpfdb_connection *c, u32 index, u64 cookie)
{
	if (CAS(&c->cookie, cookie, cookie | BPFDB_COOKIE_RETIRED) != cookie)
		return;
	if (!(LOAD(c->client) & BPFDB_CLIENT_RUNNING))
		connection_free(c, index, cookie);
}

#endif
