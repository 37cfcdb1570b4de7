// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
// refused: invalid access to map value
/* Stores behind the longest slot. */
#include <bpfdb/bpfdb.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("raw_tp")
int must_fail(struct bpf_raw_tracepoint_args *ctx)
{
	u64 *slot = bpfdb_at(ctx->args[0]);

	if (slot)
		slot[BPFDB_PAGE_SIZE / 8 + 2] = 1;
	return 0;
}
