/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Clients on this machine: their requests are answered inside their send().
 *
 * The kernel has the client's end of such a connection too. net_local
 * (sockops) puts it into a map of sockets when it is established, and then
 * net_answer (sk_msg, answer.bpf.h) runs in every sendmsg() of the client,
 * before TCP sees the bytes. It overwrites the requests with the replies and
 * redirects the message to the ingress queue of the same socket:
 *
 *   client: send()                                             client: recv()
 *      │                                                             ▲  ▲
 *      ▼            QUIET                                            │  │
 *   net_answer ────────────► execute, replies ──► ingress queue ─────┘  │
 *      │                                          of the same socket    │
 *      │ else, or PASS_TO_DAEMON, or INCOMPLETE                         │
 *      └──► TCP ──► our end, as in connection.bpf.h  ──► TCP ─────────┘
 *
 * Which way is decided for each message anew:
 *
 *   ┌─────────┐ first message: flow and sequence       ┌───────┐
 *   │ UNKNOWN │ numbers are those of a connection ───► │ BOUND │
 *   └────┬────┘ of ours (local_bind)                   └───┬───┘
 *        │ not so, BPFDB_LOCAL_TRIES times                 │ QUIET (local_enter)
 *        ▼                                                 ▼
 *   left alone for good                     ┌──────► RUNNING: nothing else uses the
 *                                    every message   connection and its session
 *                                           └───────────── │ local_leave
 *
 * 1. Identity. Only an end whose other end is ours is ever answered. Ours
 *    records addresses, ports and both initial sequence numbers; the client's
 *    must be the same: that is what TCP itself knows a connection by, and 64
 *    random bits. Each connection has one such client, its first.
 *
 *    And only one that receives by recvmsg(): splice() looks for the bytes of TCP alone. So
 *    BPFDB_LOCAL_READS replies go through TCP, and must have been received in that way, before a
 *    client is answered here; one that was seen to splice never is. One that
 *    begins to splice later leaves the map, and if replies wait in its queue then, which it will
 *    never see, its connection is closed (net_adjusted).
 *
 * 2. Order. A connection is QUIET when no byte of it is under way:
 *      - all that the client gave to TCP has arrived at our end,
 *      - all of that was answered or consumed, and the daemon is not in charge,
 *      - the client's TCP has received every byte of those replies,
 *      - and the client has read them.
 *    Each is a comparison of two counters. All that may be left then are replies
 *    in the client's ingress queue, which recv() reads before what comes by TCP.
 *    So neither requests nor replies overtake each other, whichever way they go,
 *    and a connection returns here by itself. There is no mode to be in.
 *
 * 3. One user at a time. The flag RUNNING in c->client is held while a program
 *    uses the connection here. Our own end cannot: nothing arrives while a
 *    connection is quiet and its client is inside sendmsg(). (If something does,
 *    segments are forged, and verdict.bpf.h ends the connection.) The end
 *    of the connection is left to us then: connection_retire().
 *
 * 4. Memory. Up to BPFDB_LOCAL_UNREAD_MAX bytes of replies wait to be read, in
 *    BPFDB_LOCAL_MESSAGES_MAX messages; beyond, requests go through TCP, which
 *    makes the client wait. What is added is counted; what is read is not reported,
 *    so the queue is counted anew when the sum is too large. A client
 *    that reads what it asks for stays here therefore, though its queue may never
 *    be empty. One that was too slow comes back as 2. says: when it has read all,
 *    and waits for nothing.
 *
 * 5. The end. When our end is closed the connection is retired, at once, and not
 *    answered any more; the client's TCP passes what is sent then, and hears that
 *    its end is gone. When either end closes, the client's socket leaves the map
 *    (with unread replies, when the client closes it): it would keep the programs,
 *    and with them all memory of the engine, for as long as it is open.
 *
 * 6. Blocking readers. While a socket is in a map the kernel's recv() (6.18) ends
 *    with EAGAIN when it is woken up for anything but data: for room in the send
 *    buffer, or because of the other end's answer to a half-close. A client whose
 *    requests fill its send buffer leaves the map for good therefore, and one that
 *    closes its side too.
 *
 * A request that is not complete goes through TCP: a message that is kept back
 * (bpf_msg_cork_bytes) loses its rest when a part of it is redirected.
 *
 * Bytes of a message are always the kernel's copy, also those of sendfile() and
 * MSG_ZEROCOPY; a client that wants to know when they were sent (SO_ZEROCOPY)
 * goes through TCP, which reports it.
 */
#ifndef BPFDB_LOCAL_BPF_H
#define BPFDB_LOCAL_BPF_H

#include <bpf/bpf_endian.h>

#include "handover.bpf.h"
#include "socket.bpf.h"

#define AF_INET 2
#define MSG_PEEK 2
#define PORTS 65536

/* The clients' ends, by their cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 64);
	__type(key, u64);
	__type(value, u64);
} clients SEC(".maps");

/* Port of a client -> when a SYN came from it to our listener, and HANDSHAKE_FOREIGN, once its
 * end could not be taken into the map. An end that connects to our port number anywhere
 * is looked at only if a SYN came. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PORTS);
	__type(key, u32);
	__type(value, u64);
} handshakes SEC(".maps");

/*
 * Copies an address of a context, `remote` or `local`, in the form of IPv6.
 * OPAQUE: clang 22 would else choose between the fields first and load then,
 * from a place in the context that the verifier (6.18) does not accept.
 */
#define COPY_ADDRESS(to, context, side)                                                            \
	({                                                                                         \
		u32 ip4_ = (context)->side##_ip4, last_ = (context)->side##_ip6[3];                \
		bool short_ = (context)->family == AF_INET;                                        \
		OPAQUE(ip4_);                                                                      \
		OPAQUE(last_);                                                                     \
		(to)[0] = short_ ? 0 : (context)->side##_ip6[0];                                   \
		(to)[1] = short_ ? 0 : (context)->side##_ip6[1];                                   \
		(to)[2] = short_ ? bpf_htonl(0xffff) : (context)->side##_ip6[2];                   \
		(to)[3] = short_ ? ip4_ : last_;                                                   \
	})

static __always_inline void flow_of_server(struct bpf_sock_ops *ops, struct bpfdb_flow *flow)
{
	COPY_ADDRESS(flow->client, ops, remote);
	COPY_ADDRESS(flow->server, ops, local);
	flow->client_port = bpf_ntohl(ops->remote_port);
	flow->server_port = ops->local_port;
}

/* ---- Which sockets ------------------------------------------------------- */

/* Of the times in `handshakes`. The client's end is established before ours: so ours finds it. */
#define HANDSHAKE_FOREIGN (1ULL << 63)

/* A SYN has come to our listener. */
static __always_inline void handshake_seen(struct bpf_sock_ops *ops)
{
	u32 from = bpf_ntohl(ops->remote_port) % PORTS;
	u64 *when = bpf_map_lookup_elem(&handshakes, &from);

	if (when)
		STORE(*when, bpf_ktime_get_ns());
}

static __always_inline bool handshake_is_ours(struct bpf_sock_ops *ops)
{
	u32 from = ops->local_port % PORTS;
	u64 *when = bpf_map_lookup_elem(&handshakes, &from);

	return when && LOAD(*when) && bpf_ktime_get_ns() - LOAD(*when) < BPFDB_LOCAL_HANDSHAKE_MAX;
}

/* The client's end is in use by programs of others, or in another way that a map of sockets
 * cannot be: by TLS in the kernel, for instance. */
static __always_inline void handshake_refused(struct bpf_sock_ops *ops)
{
	u32 from = ops->local_port % PORTS;
	u64 *when = bpf_map_lookup_elem(&handshakes, &from);

	if (when)
		FETCH_OR(when, HANDSHAKE_FOREIGN);
}

/* On our end. */
static __always_inline bool client_is_foreign(struct bpf_sock_ops *ops)
{
	u32 from = bpf_ntohl(ops->remote_port) % PORTS;
	u64 *when = bpf_map_lookup_elem(&handshakes, &from);

	return when && LOAD(*when) & HANDSHAKE_FOREIGN;
}

static __always_inline void client_open(struct bpf_sock_ops *ops)
{
	struct socket_data data = {
		.cookie = bpf_get_socket_cookie(ops),
		.is_client = 1,
		.client_first = ops->snd_nxt,
		.server_first = ops->rcv_nxt,
		.adjusted = ops->rcv_nxt,
	};
	struct bpf_sock *sk = ops->sk;

	if (!handshake_is_ours(ops) || !sk)
		return;
	if (!bpf_sk_storage_get(&socket_storage, sk, &data, BPF_SK_STORAGE_GET_F_CREATE))
		return;
	/* If this fails, it is a client like a remote one. */
	if (bpf_sock_hash_update(ops, &clients, &data.cookie, BPF_NOEXIST) == 0)
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags |
						       BPF_SOCK_OPS_STATE_CB_FLAG |
						       BPF_SOCK_OPS_RTT_CB_FLAG);
	else
		handshake_refused(ops);
}

/* Takes the socket out of the map: it is plain TCP from now on. What is in its
 * queue would be lost, so not before that was read. */
static __always_inline void client_leave(struct bpf_sock_ops *ops, bool only_if_leaving)
{
	struct bpf_sock *sk = ops->sk;
	struct socket_data *data = sk ? bpf_sk_storage_get(&socket_storage, sk, NULL, 0) : NULL;
	struct tcp_sock *tcp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;

	if (!data || !data->is_client || !tcp || !ingress_is_empty(tcp))
		return;
	if (data->leaving || !only_if_leaving)
		bpf_map_delete_elem(&clients, &data->cookie);
}

/* Either end has begun to close. */
static __always_inline bool is_closing(u32 state)
{
	return state == BPF_TCP_FIN_WAIT1 || state == BPF_TCP_CLOSE_WAIT || state == BPF_TCP_CLOSE;
}

/* For every socket below the cgroup that it is attached to. */
static __always_inline int net_local(struct bpf_sock_ops *ops)
{
	if (bpf_ntohl(ops->remote_port) != port)
		return 1;
	if (ops->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB)
		client_open(ops);
	else if (ops->op == BPF_SOCK_OPS_STATE_CB && is_closing(ops->args[1]))
		client_leave(ops, false);
	/* TCP has learned that something sent by it has arrived. */
	else if (ops->op == BPF_SOCK_OPS_RTT_CB)
		client_leave(ops, true);
	return 1;
}

/* ---- Which connection ---------------------------------------------------- */

/* Finds the connection of a client's end: its index is in `data` then. Our end
 * may be established a moment later than the client's. */
__noinline int local_bind(struct sk_msg_md *m, struct socket_data *data NONNULL)
{
	struct bpfdb_connection *c;
	struct bpfdb_flow flow;
	u32 *index;
	u64 peer;

	if (data->tries++ >= BPFDB_LOCAL_TRIES)
		data->leaving = 1;
	if (data->leaving)
		return 0;
	COPY_ADDRESS(flow.client, m, local);
	COPY_ADDRESS(flow.server, m, remote);
	flow.client_port = m->local_port;
	flow.server_port = bpf_ntohl(m->remote_port);
	index = bpf_map_lookup_elem(&flows, &flow);
	c = index ? connection_at(*index) : NULL;
	if (!c)
		return 0;
	peer = LOAD_ACQUIRE(c->cookie);
	if (c->client_first != data->client_first || c->server_first != data->server_first)
		return 0;
	if (CAS(&c->client, 0, data->cookie))
		return 0;
	/* Not the end of a connection that has just taken the place of that one. */
	if (!peer || LOAD(c->cookie) != peer) {
		CAS(&c->client, data->cookie, 0);
		return 0;
	}
	data->index = *index;
	data->peer = peer;
	STORE(c->way, BPFDB_WAY_UNDECIDED);
	return 1;
}

/* ---- How the client reads ------------------------------------------------ */

/* It reads in another way than by recvmsg(). Replies in its queue are for that alone. */
static __always_inline void client_splices(struct socket_data *data, const struct tcp_sock *tcp)
{
	struct bpfdb_connection *c = data->peer ? connection_at(data->index) : NULL;

	data->leaving = 1;
	if (!c || LOAD(c->cookie) != data->peer)
		return;
	STORE(c->way, BPFDB_WAY_SPLICED);
	if (ingress_holds_some(tcp))
		connection_raise(c, data->index, BPFDB_CONNECTION_BROKEN);
}

/* recvmsg() of any socket has ended: socket, bytes or an error, flags. */
static __always_inline int net_received(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct socket_data *data = bpf_sk_storage_get(&socket_storage, sk, NULL, 0);
	int got = ctx[1];

	if (!data || !data->is_client || data->receives || got <= 0 || ctx[2] & MSG_PEEK)
		return 0;
	data->received += got;
	data->reads++;
	return 0;
}

/*
 * Bytes of TCP were read from any socket, or splice() found none: recvmsg() says this only when
 * it has copied some. So what moves nothing, where there is nothing, is a splice().
 */
static __always_inline int net_adjusted(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct socket_data *data = bpf_sk_storage_get(&socket_storage, sk, NULL, 0);
	struct tcp_sock *tcp = data && data->is_client ? bpf_skc_to_tcp_sock(sk) : NULL;
	u32 copied;

	if (!tcp)
		return 0;
	copied = tcp->copied_seq;
	if (copied == data->adjusted && copied == tcp->rcv_nxt)
		client_splices(data, tcp);
	data->adjusted = copied;
	return 0;
}

/*
 * Has it read enough to know how it does? What had been read when it sent last must have been
 * reported by recvmsg() since: what was read a moment ago by another thread may not have been.
 */
static __always_inline bool client_receives(struct socket_data *data, const struct tcp_sock *tcp)
{
	if (likely(data->receives))
		return true;
	if ((int)(data->received - data->copied) < 0) {
		client_splices(data, tcp);
		return false;
	}
	data->copied = tcp->copied_seq - data->server_first;
	data->receives = data->reads >= BPFDB_LOCAL_READS && data->received == data->copied;
	return data->receives;
}

/* ---- Whether now --------------------------------------------------------- */

/* Can this socket be answered at all, as its owner set it up? */
static __always_inline bool socket_is_plain(const struct tcp_sock *tcp)
{
	const struct sock *sk = sock_of(tcp);
	u64 zero_copy = bpf_core_enum_value(enum sock_flags, SOCK_ZEROCOPY);

	return sk->__sk_common.skc_state == BPF_TCP_ESTABLISHED && !sk->sk_shutdown &&
	       !sk->sk_err && sk->sk_rcvlowat <= 1 &&
	       !(sk->__sk_common.skc_flags & 1UL << (zero_copy & 63));
}

/*
 * No byte under way (2. above): *arrived counts all that came to our end. Our end
 * counts replies before it counts their requests as answered, and the daemon
 * what it sent before it gives the connection back; so they are read in the
 * opposite order.
 */
static __always_inline bool is_quiet(struct bpfdb_connection *c, const struct socket_data *data,
				     const struct tcp_sock *tcp, u64 *arrived)
{
	u64 done;

	*arrived = LOAD_ACQUIRE(c->arrived);
	if (*arrived & ~BPFDB_CONNECTION_BYTES ||
	    (u32)*arrived != tcp->write_seq - data->client_first)
		return false;
	done = LOAD_ACQUIRE(c->answered);
	done += LOAD_ACQUIRE(c->consumed);
	if (done != *arrived)
		return false;
	done = LOAD(c->replied);
	done += LOAD(c->sent);
	return tcp->rcv_nxt - data->server_first == (u32)done && tcp->copied_seq == tcp->rcv_nxt;
}

/*
 * Counts what waits in the client's queue, whose list begins at this address. The
 * socket is locked: nothing else adds or takes away. Zero if it is as much as may
 * wait, or cannot be read.
 */
__noinline int unread_count(u64 head, struct socket_data *data NONNULL)
{
	const u64 link = bpf_core_field_offset(struct sk_msg, list);
	const u64 size = bpf_core_field_offset(struct sk_msg, sg.size);
	u32 sum = 0, bytes = 0;
	u64 at = head;

	repeat(messages, BPFDB_LOCAL_MESSAGES_MAX)
	{
		if (bpf_probe_read_kernel(&at, sizeof(at), (void *)at))
			return 0;
		if (at == head) {
			data->unread = sum;
			data->unread_messages = messages;
			return sum <= BPFDB_LOCAL_UNREAD_MAX;
		}
		if (bpf_probe_read_kernel(&bytes, sizeof(bytes), (void *)(at - link + size)))
			return 0;
		sum += bytes;
	}
	return 0;
}

static __always_inline bool client_reads(struct socket_data *data, const struct tcp_sock *tcp)
{
	u64 head;

	if (likely(data->unread <= BPFDB_LOCAL_UNREAD_MAX &&
		   data->unread_messages < BPFDB_LOCAL_MESSAGES_MAX))
		return true;
	head = ingress_of(tcp);
	return head && unread_count(head, data);
}

/* Will the client have to wait until TCP has room? See 6. above. */
static __always_inline bool fills_send_buffer(const struct tcp_sock *tcp, u32 more)
{
	const struct sock *sk = sock_of(tcp);

	return (u32)sk->sk_wmem_queued + more > (u32)sk->sk_sndbuf / 2;
}

/* What local_enter() found. */
enum {
	LOCAL_PASS = 0, /* through TCP */
	LOCAL_RUN = 1,
	LOCAL_LEAVE = 2, /* through TCP, after local_leave() */
};

__noinline int local_enter(struct sk_msg_md *m, struct socket_data *data NONNULL,
			   struct bpfdb_connection *c NONNULL)
{
	struct bpf_sock *sk = m->sk;
	struct tcp_sock *tcp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;
	u64 arrived;

	if (!tcp || data->leaving)
		return LOCAL_PASS;
	if (!client_receives(data, tcp) || m->size > BPFDB_LOCAL_MESSAGE_MAX ||
	    !socket_is_plain(tcp) || !is_quiet(c, data, tcp, &arrived) ||
	    !client_reads(data, tcp)) {
		/* Also before it is known how it reads, as 6 says; it may be leaving since a moment. */
		if (!data->leaving && fills_send_buffer(tcp, m->size)) {
			data->leaving = 1;
			STORE(c->way, BPFDB_WAY_LEFT);
		}
		return LOCAL_PASS;
	}
	if (CAS(&c->client, data->cookie, data->cookie | BPFDB_CLIENT_RUNNING) != data->cookie)
		return LOCAL_PASS;
	/* In this order: what `arrived` said was this connection's then. */
	if (LOAD(c->arrived) != arrived || LOAD(c->cookie) != data->peer)
		return LOCAL_LEAVE;
	if (unlikely(LOAD(c->way) != BPFDB_WAY_LOCAL))
		STORE(c->way, BPFDB_WAY_LOCAL);
	return LOCAL_RUN;
}

/* The connection may be used by others again, and is freed if it ended. */
__noinline int local_leave(struct bpfdb_connection *c NONNULL, struct socket_data *data NONNULL)
{
	u64 peer = data->peer;

	CAS(&c->client, data->cookie | BPFDB_CLIENT_RUNNING, data->cookie);
	if (LOAD(c->cookie) == (peer | BPFDB_COOKIE_RETIRED))
		connection_free(c, data->index, peer);
	return 0;
}

/* ---- Where to ------------------------------------------------------------ */

/* To the client. */
static __always_inline int local_reply(struct sk_msg_md *m, struct socket_data *data, u32 bytes)
{
	data->unread += bytes;
	data->unread_messages++;
	return bpf_msg_redirect_hash(m, &clients, &data->cookie, BPF_F_INGRESS);
}

/* Through TCP. A message of which a part was redirected cannot be passed: the
 * kernel would redirect it again (6.18). Redirecting it to the own egress is the
 * same as passing it. */
static __always_inline int local_pass(struct sk_msg_md *m, struct socket_data *data)
{
	const struct sk_msg *message = bpf_cast_to_kern_ctx(m);

	if (message->sk_redir)
		return bpf_msg_redirect_hash(m, &clients, &data->cookie, 0);
	return SK_PASS;
}

/* ---- A message ----------------------------------------------------------- */

static __always_inline bool local_begin(struct sk_msg_md *m, struct socket_data *data,
					struct bpfdb_connection *c)
{
	int found = LOAD(gate.paused) ? LOCAL_PASS : local_enter(m, data, c);

	if (found == LOCAL_LEAVE)
		local_leave(c, data);
	return found == LOCAL_RUN;
}

static __always_inline int local_finish(struct sk_msg_md *m, struct bpfdb_connection *c,
					struct socket_data *data, const struct context *context,
					enum result result)
{
	u32 answers = context->answers, out = context->out;

	if (result == NO_ROOM || (answers && !message_join(m, context))) {
		give_up(c, data->index);
		local_leave(c, data);
		return SK_DROP;
	}
	STORE(c->local, c->local + answers);
	local_leave(c, data);
	if (!answers)
		return local_pass(m, data);
	COUNT_NET_N(requests_local, answers);
	return local_reply(m, data, out);
}

#endif
