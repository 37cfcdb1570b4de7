// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
// refused: unbounded memory access, make sure to bounds check any such access
/* Uses a lock by a number that nobody has bounded. */
#include <bpfdb/bpfdb.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("raw_tp")
int must_fail(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);

	return s ? s->locks[s->lock_count].mode : 0;
}
