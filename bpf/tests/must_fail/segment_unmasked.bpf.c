// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
// refused: register with unbounded min value is not allowed
/* Uses an offset into a segment that nobody has bounded. */
#include <bpfdb/bpfdb.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("raw_tp")
int must_fail(struct bpf_raw_tracepoint_args *ctx)
{
	u64 address = ctx->args[0];
	char *segment = segment_of(address);

	return segment ? segment[address] : 0;
}
