// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
// refused: invalid mem access 'scalar'
/* Reads a slot without asking whether its address is good. */
#include <bpfdb/bpfdb.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("raw_tp")
int must_fail(struct bpf_raw_tracepoint_args *ctx)
{
	u64 *slot = bpfdb_at(ctx->args[0]);

	return LOAD(*slot);
}
