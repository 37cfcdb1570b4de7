// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Transaction pooling for PostgreSQL in the kernel. Start reading at pg/state.bpf.h.
 */
#include "pg/server.bpf.h"

/* What the ends send. */
SEC("sk_msg")
int pg_send(struct sk_msg_md *m)
{
	struct bpf_sock *sk = m->sk;
	struct pg_socket *data = sk ? bpf_sk_storage_get(&socket_storage, sk, NULL, 0) : NULL;

	if (!data || !end_is_placed(data))
		return SK_PASS;
	if (data->end.role == BPFDB_PROXY_CLIENT)
		return from_client(m, data);
	return from_backend(m, data);
}

/* Connections of the cgroup that it is attached to. */
SEC("sockops")
int pg_connections(struct bpf_sock_ops *ops)
{
	if (ops->family != AF_INET && ops->family != AF_INET6)
		return 1;
	if (ops->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB)
		client_connects(ops);
	else if (ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		backend_accepts(ops);
	return 1;
}

/* BPF_PROG_RUN by the process: a free server of the pool. ctx: pool; the number of the server that it is
 * to be, plus 1, or 0. */
SEC("raw_tp")
int pg_take(struct bpf_raw_tracepoint_args *ctx)
{
	if (ctx->args[1])
		return server_take_this(ctx->args[0], ctx->args[1] - 1, BPFDB_PROXY_PROCESS);
	return server_take(ctx->args[0], BPFDB_PROXY_PROCESS);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
