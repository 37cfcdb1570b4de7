// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
// refused: R2 unbounded memory access
/* Copies a value by a length that is only believed to be small. */
#include <bpfdb/bpfdb.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

char buffer[1024];

SEC("raw_tp")
int must_fail(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);
	void *slot = s && bpfdb_get(s) == BPFDB_FOUND ? bpfdb_at(s->value[0]) : NULL;

	if (slot)
		bpf_probe_read_kernel(buffer, s->value_len, slot);
	return 0;
}
