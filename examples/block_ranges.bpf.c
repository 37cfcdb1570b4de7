// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Scan of an ordered table: an XDP program that drops packets whose source is in a blocked range of addresses.
 * A row of table 0 is a range: its key is the last address, its value the first one, both as on the wire, so
 * that the order of the keys is that of the addresses. Ranges do not overlap, so the first row that is not before
 * an address has the only range in which it can be. User space changes ranges in transactions, and each packet
 * reads one snapshot: it never meets a range that is half replaced. See docs/ordered-tables.md.
 */
#include "packets.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Leaves that are looked at: empty ones may be in between. */
#define LEAVES_MAX 4

/* One for each processor: see packet_session(). */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpfdb_ordered_scan);
} range_scans SEC(".maps");

/* The first row that is not before the beginning of the scan, with its value: FOUND, NOT_FOUND, or an Error. */
static __always_inline int first_row(struct bpfdb_session *s, struct bpfdb_ordered_scan *scan)
{
	int status = BPFDB_NOT_FOUND;

	repeat(i, LEAVES_MAX)
	{
		status = bpfdb_ordered_scan(s, scan);
		if (status != BPFDB_OK)
			return status;
		status = bpfdb_ordered_next(s, scan);
		if (status == BPFDB_FOUND)
			return bpfdb_get(s);
		if (!scan->more)
			break;
	}
	return status;
}

static __always_inline bool is_blocked(struct bpfdb_session *s, struct bpfdb_ordered_scan *scan,
				       u32 source)
{
	bool blocked;

	if (bpfdb_begin_read_only(s) != BPFDB_OK)
		return false;
	scan->table = 0;
	scan->has_end = 0;
	scan->from.len = sizeof(source);
	__builtin_memcpy(scan->from.bytes, &source, sizeof(source));
	blocked = first_row(s, scan) == BPFDB_FOUND && s->value_len == sizeof(source) &&
		  bpf_ntohl((u32)s->value[0]) <= bpf_ntohl(source);
	bpfdb_commit(s);
	return blocked;
}

SEC("xdp")
int block_ranges(struct xdp_md *ctx)
{
	u32 zero = 0, source = packet_source(ctx);
	struct bpfdb_ordered_scan *scan = bpf_map_lookup_elem(&range_scans, &zero);
	struct bpfdb_session *s = source ? packet_session() : NULL;

	if (!s || !scan)
		return XDP_PASS;
	return is_blocked(s, scan, source) ? XDP_DROP : XDP_PASS;
}
