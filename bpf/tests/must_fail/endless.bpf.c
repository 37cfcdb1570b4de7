// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
// refused: infinite loop detected
/* Waits for a lock: nothing here may wait without bound. */
#include <bpfdb/bpfdb.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("raw_tp")
int must_fail(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);

	if (!s)
		return 0;
	while (LOAD(s->busy))
		;
	return bpfdb_get(s);
}
