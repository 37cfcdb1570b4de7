// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * A procedure in Lua, called by an XDP program: each source may send so many packets at once,
 * and one more every minute. The others are dropped. The function is limit_bucket of
 * examples/procedures/rate_limiter.lua, which user space publishes and may replace while packets
 * come. See docs/procedures.md, "From inside".
 */
#include "packets.bpf.h"

#include <bpfdb/procedure.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Numbers of the functions that this program calls. */
enum { LIMIT_BUCKET = 0 };

#define CAPACITY 10
#define INTERVAL 60000 /* milliseconds */

/* {1, tokens that are left}, or {0, milliseconds until there is one}. */
static __always_inline bool bucket_is_empty(struct xdp_md *ctx, struct bpfdb_frame *f,
					    struct bpfdb_session *s, u32 source)
{
	u64 now = bpf_ktime_get_boot_ns() / 1000000;

	if (!bpfdb_call_key(f, &source, sizeof(source)) ||
	    !bpfdb_call_argument_number(f, CAPACITY) || !bpfdb_call_argument_number(f, INTERVAL) ||
	    !bpfdb_call_argument_number(f, now) || !bpfdb_call_argument_number(f, 1))
		return false;
	return bpfdb_call(ctx, f, s, LIMIT_BUCKET) == 0 && bpfdb_reply_number(f, 0, 1) == 0;
}

/* Whoever cannot be judged passes. */
SEC("xdp")
int limit_packets(struct xdp_md *ctx)
{
	u32 source = packet_source(ctx);
	struct bpfdb_session *s = source ? packet_session() : NULL;
	struct bpfdb_frame *f = s ? bpfdb_call_begin() : NULL;
	bool drop;

	if (!f)
		return XDP_PASS;
	drop = bucket_is_empty(ctx, f, s, source);
	bpfdb_call_end(f);
	return drop ? XDP_DROP : XDP_PASS;
}
