// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
// refused: max value is outside of the allowed memory range
/* Writes so far behind the key of a session that it may be another session. */
#include <bpfdb/bpfdb.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("raw_tp")
int must_fail(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);
	u64 word = ctx->args[1] & 255;

	OPAQUE(word);
	if (!s)
		return 0;
	s->key[word & 255] = 1;
	return bpfdb_get(s);
}
