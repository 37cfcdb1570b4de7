// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
// refused: arg#0 is expected to be non-NULL
/* A session that may be NULL is given to an operator. */
#include <bpfdb/bpfdb.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("raw_tp")
int must_fail(struct bpf_raw_tracepoint_args *ctx)
{
	return bpfdb_get(bpfdb_session(ctx->args[0]));
}
