// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The template of compiled procedures that the Redis front end calls by tail call
 * (bpf/net/commands/call.bpf.h). Nobody attaches it: user space takes its instructions,
 * replaces body() by what it has compiled, and loads the result
 * (crates/bpfdb-procedures/src/load).
 */
#include <bpfdb/bpfdb.bpf.h>

#include "net/connection.bpf.h"
#include "procedures/body.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The frame is that of the connection whose message is being answered. */
SEC("sk_msg")
int redis_procedure(struct sk_msg_md *m)
{
	struct bpf_sock *sk = m->sk;
	struct socket_data *data = sk ? bpf_sk_storage_get(&socket_storage, sk, NULL, 0) : NULL;
	struct bpfdb_connection *c = data ? connection_at(data->index) : NULL;
	struct bpfdb_session *s = data ? bpfdb_session(data->index) : NULL;
	struct bpfdb_frame *f = c ? frame_at(c->frame) : NULL;

	if (f && s)
		call_run(f, s);
	return 0;
}
