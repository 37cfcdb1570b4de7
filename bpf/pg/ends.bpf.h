/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Connections begin: the ends on this machine that may be ours.
 *
 * The client's own end of a connection to the proxy, and the database's end of a connection to a
 * database, enter a map by the address of the side that connected. The process, which has the other
 * end, finds them by that address, and says whose they are. Both addresses of such a connection are
 * of this machine, and the network namespace is the proxy's: so the address means one connection.
 */
#ifndef BPFDB_PG_ENDS_BPF_H
#define BPFDB_PG_ENDS_BPF_H

#include <bpf/bpf_endian.h>

#include "state.bpf.h"

#define AF_INET 2
#define AF_INET6 10

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

static __always_inline void end_enters(struct bpf_sock_ops *ops, struct pg_socket *data)
{
	struct bpf_sock *sk = ops->sk;

	data->first_sent = ops->snd_nxt;
	data->first_received = ops->rcv_nxt;
	if (!sk || !bpf_sk_storage_get(&socket_storage, sk, data, BPF_SK_STORAGE_GET_F_CREATE))
		return;
	/* If this fails, the process serves it. */
	bpf_sock_hash_update(ops, &ends, &data->end, BPF_ANY);
}

/* Do both ends have the same address? Then neither is elsewhere. */
static __always_inline bool is_local(struct bpf_sock_ops *ops)
{
	u32 local[4], remote[4];

	COPY_ADDRESS(local, ops, local);
	COPY_ADDRESS(remote, ops, remote);
	return local[0] == remote[0] && local[1] == remote[1] && local[2] == remote[2] &&
	       local[3] == remote[3] && bpf_get_netns_cookie(ops) == constants.network;
}

/* The client's end: established before ours. */
static __always_inline void client_connects(struct bpf_sock_ops *ops)
{
	struct pg_socket data = {.end.role = BPFDB_PROXY_CLIENT};

	if (bpf_ntohl(ops->remote_port) != constants.port || !is_local(ops))
		return;
	COPY_ADDRESS(data.end.address, ops, local);
	data.end.port = ops->local_port;
	end_enters(ops, &data);
}

/* The database's end. */
static __always_inline void backend_accepts(struct bpf_sock_ops *ops)
{
	struct pg_socket data = {.end.role = BPFDB_PROXY_BACKEND};
	u32 port = ops->local_port;

	if (!bpf_map_lookup_elem(&database_ports, &port) || !is_local(ops))
		return;
	COPY_ADDRESS(data.end.address, ops, remote);
	data.end.port = bpf_ntohl(ops->remote_port);
	end_enters(ops, &data);
}

/* Whose an end is, once the process has said so. */
static __always_inline bool end_is_placed(struct pg_socket *data)
{
	struct bpfdb_proxy_place *place;

	if (likely(data->is_placed))
		return true;
	place = bpf_map_lookup_elem(&places, &data->end);
	if (!place)
		return false;
	data->place = *place;
	data->is_placed = 1;
	return true;
}

#endif
