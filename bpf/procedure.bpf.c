// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The template of compiled procedures that the Redis front end calls by tail call
 * (bpf/redis/commands/call.bpf.h). It is never attached: user space takes its instructions,
 * replaces body() by what it has compiled, and loads the result
 * (crates/bpfdb-procedures/src/load).
 */
#include <bpfdb/bpfdb.bpf.h>

#include "redis/context.bpf.h"
#include "net/connection.bpf.h"
#include "net/context.bpf.h"
#include "procedures/body.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The context of the message that is being answered names the frame: its number, and the index
 * of the session above. A subprogram, since all frames together have 512 bytes of stack, and what
 * follows needs nearly all of them. */
__noinline u64 call_of(struct sk_msg_md *m)
{
	struct bpf_sock *sk = m->sk;
	struct socket_data *data = sk ? bpf_sk_storage_get(&socket_storage, sk, NULL, 0) : NULL;
	struct context *c = data ? context_at(data->context) : NULL;

	return c ? c->frame | (u64)data->index << 32 : ~0ULL;
}

SEC("sk_msg")
int redis_procedure(struct sk_msg_md *m)
{
	u64 call = call_of(m);
	struct bpfdb_session *s = bpfdb_session(call >> 32);
	struct bpfdb_frame *f = frame_at((u32)call);

	if (f && s)
		call_run(f, s);
	return 0;
}
