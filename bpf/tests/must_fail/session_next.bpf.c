// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
// refused: invalid access to map value
/* Walks from a session to the next one. */
#include <bpfdb/bpfdb.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("raw_tp")
int must_fail(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);

	return s ? s[1].state : 0;
}
