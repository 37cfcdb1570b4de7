/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What the programs read of kernel structures besides what net/socket.bpf.h has.
 *
 * An sk_msg program may look a socket up in a map, but not release it (6.18). So the address of
 * a database's end is noted when it sends. What is read through it is used only while the process keeps
 * the connection, and only as a limit or as a question that may be asked again.
 */
#ifndef BPFDB_PG_SOCKET_BPF_H
#define BPFDB_PG_SOCKET_BPF_H

#include "state.bpf.h"
#include "../net/socket.bpf.h"

/* Flavours of the kernel's structures, which net/socket.bpf.h has other fields of. */
struct sk_psock___pg {
	struct {
		struct {
			int counter;
		} refs;
	} refcnt;
} KERNEL_TYPE;

struct sock___pg {
	struct {
		struct {
			int counter;
		} rmem_alloc;
	} sk_backlog;
} KERNEL_TYPE;

static __always_inline struct tcp_sock *own_tcp(struct sk_msg_md *m)
{
	struct bpf_sock *sk = m->sk;

	return sk ? bpf_skc_to_tcp_sock(sk) : NULL;
}

/* Is the database within a send()? That has a reference to the socket's psock; without one there
 * is only the map's. */
static __always_inline bool is_sending(const struct bpfdb_proxy_server *server)
{
	struct sock *sk = (void *)LOAD(server->socket);
	u64 psock = (u64)BPF_CORE_READ(sk, sk_user_data) & ~USER_DATA_FLAGS;
	struct sk_psock___pg *p = (void *)psock;

	return psock && BPF_CORE_READ(p, refcnt.refs.counter) != 1;
}

/* Bytes that an end has not read. */
static __always_inline u32 unread_of(u64 socket)
{
	struct sock___pg *sk = (void *)socket;

	return BPF_CORE_READ(sk, sk_backlog.rmem_alloc.counter);
}

#endif
