/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Beginning and end of a connection. A connection that finds no session, or no
 * room, is left to the daemon, which knows it by having no entry in `cookies`.
 *
 * The end is when TCP leaves the states in which data may be exchanged,
 * whatever caused it. While the daemon may be at work for the connection (it is
 * DAEMON and the client reset it), its transaction only expires, so that statements
 * of it that the daemon has yet to execute do nothing. If the daemon is inside an
 * operator, the transaction stays until it closes the socket, which it does before
 * the next request: it sees CLOSED. Freeing the session is left to it, so that it
 * cannot touch the session of a successor.
 */
#ifndef BPFDB_ACCEPT_BPF_H
#define BPFDB_ACCEPT_BPF_H

#include "local.bpf.h"

/* Kernel or daemon: which of them answers a new connection. */
static __always_inline u64 connection_beginning(void)
{
	if (LOAD(gate.plain))
		return BPFDB_CONNECTION_DAEMON | BPFDB_CONNECTION_PLAIN;
	return LOAD(gate.closed) ? BPFDB_CONNECTION_DAEMON : 0;
}

/* The cookie last: by it a program knows that the rest is this connection's. */
static __always_inline void connection_reset(struct bpfdb_connection *c, struct bpf_sock_ops *ops,
					     u64 cookie)
{
	STORE(c->arrived, connection_beginning());
	STORE(c->client, 0);
	c->answered = 0;
	c->handed = 0;
	c->passed = 0;
	c->consumed = 0;
	c->replied = 0;
	c->sent = 0;
	c->local = 0;
	c->patient = 1;
	grant_release(c);
	c->sequence = ops->snd_nxt;
	c->rebase = 0;
	c->corked = 0;
	c->parts = 0;
	c->seat = 0;
	STORE(c->parked, 0);
	front_end_opened(c);
	c->client_first = ops->rcv_nxt;
	c->server_first = ops->snd_nxt;
	STORE(c->way, client_is_foreign(ops) ? BPFDB_WAY_FOREIGN : BPFDB_WAY_REMOTE);
	flow_of_server(ops, &c->flow);
	STORE_RELEASE(c->cookie, cookie);
}

/* The socket's entries in all maps; 0, or what failed. */
static __always_inline int connection_register(struct bpf_sock_ops *ops, struct bpfdb_connection *c,
					       u32 index, u64 cookie)
{
	struct socket_data data = {.cookie = cookie, .peer = cookie, .index = index};
	struct bpf_sock *sk = ops->sk;

	if (!sk || !bpf_sk_storage_get(&socket_storage, sk, &data, BPF_SK_STORAGE_GET_F_CREATE))
		return -1;
	if (bpf_map_update_elem(&cookies, &cookie, &index, BPF_ANY))
		return -1;
	if (bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG))
		return -1;
	if (LOAD(c->arrived) & BPFDB_CONNECTION_PLAIN)
		return 0;
	/* Without it a local client is answered as a remote one. */
	bpf_map_update_elem(&flows, &c->flow, &index, BPF_ANY);
	return bpf_sock_hash_update(ops, &sockets, &cookie, BPF_NOEXIST);
}

static __always_inline void connection_open(struct bpf_sock_ops *ops)
{
	u64 cookie = bpf_get_socket_cookie(ops);
	int index = bpfdb_session_open(front_end_sessions());
	struct bpfdb_connection *c = index >= 0 ? connection_at(index) : NULL;

	if (!c)
		return;
	connection_reset(c, ops, cookie);
	if (connection_register(ops, c, index, cookie))
		connection_retire(c, index, cookie);
}

static __always_inline void connection_end(u64 cookie, bool by_us)
{
	u32 *index = bpf_map_lookup_elem(&cookies, &cookie);
	struct bpfdb_connection *c = index ? connection_at(*index) : NULL;
	struct bpfdb_session *s;
	u64 before;

	if (!c || c->cookie != cookie)
		return;
	before = FETCH_OR(&c->arrived, BPFDB_CONNECTION_CLOSED);
	s = bpfdb_session(*index);
	/* What is parked may be the daemon's at any moment. */
	if (by_us || !(before & BPFDB_CONNECTION_DAEMON || LOAD(c->parked)))
		connection_retire(c, *index, cookie);
	else if (s)
		bpfdb_expire(s);
}

/* For each socket of the listener, from its cgroup. */
static __always_inline int net_accept(struct bpf_sock_ops *ops)
{
	u32 state = ops->args[1];

	if (ops->op == BPF_SOCK_OPS_RWND_INIT) {
		if (ops->local_port == port)
			handshake_seen(ops);
	} else if (ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB) {
		if (ops->local_port == port)
			connection_open(ops);
	} else if (ops->op == BPF_SOCK_OPS_STATE_CB) {
		/* The daemon, or the kernel for a daemon that died, closed it:
		 * no operator is executed for it any more. */
		bool by_us = state == BPF_TCP_FIN_WAIT1 || state == BPF_TCP_LAST_ACK;

		if (by_us || state == BPF_TCP_CLOSE)
			connection_end(bpf_get_socket_cookie(ops), by_us);
	}
	return 1;
}

/* BPF_PROG_RUN by the daemon, before it closes a socket. ctx: index, cookie. */
static __always_inline int net_release(struct bpf_raw_tracepoint_args *ctx)
{
	u32 index = ctx->args[0];
	struct bpfdb_connection *c = connection_at(index);

	if (c && ctx->args[1])
		connection_retire(c, index, ctx->args[1]);
	return 0;
}

#endif
