// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* values/siphash.bpf.h, for crates/bpfdb/tests/it/siphash.rs. */
#include "test.bpf.h"

#include "../values/siphash.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

static struct packed_key text;

/* ctx: number, length, shift. The hash of as many bytes, each of which is the number times one more than its
 * place, with the number and what it is times an odd constant as key. */
SEC("raw_tp")
int known_siphash(struct bpf_raw_tracepoint_args *ctx)
{
	u64 number = ctx->args[0];

	for (u32 i = UNKNOWN(0); i <= PACKED_BYTES_MAX && can_loop; i++) {
		u64 at = i;

		OPAQUE(at);
		text.bytes[at & PACKED_BYTES_MAX] = number * (at + 1);
	}
	return siphash(&text, ctx->args[1] & PACKED_BYTES_MAX, number,
		       number * 0x9e3779b97f4a7c15ULL) >>
	       (ctx->args[2] & 63);
}
