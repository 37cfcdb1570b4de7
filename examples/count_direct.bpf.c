// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Direct style: an XDP program that counts packets per source and in all, both
 * in one transaction, so that a reader of a snapshot finds that the counts
 * of the sources add up to the total. See docs/embedding.md.
 */
#include "packets.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Adds one to the value of the session's key. */
static __always_inline int count_key(struct bpfdb_session *s)
{
	int status = bpfdb_get_for_update(s);

	if (status >= BPFDB_FIRST_ERROR)
		return status;
	value_counted(s, status == BPFDB_FOUND);
	return bpfdb_set(s);
}

static __always_inline int count_packet(struct bpfdb_session *s, u32 source)
{
	int status = bpfdb_begin(s);

	if (status != BPFDB_OK)
		return status;
	key_source(s, source);
	status = count_key(s);
	if (status == BPFDB_OK) {
		key_total(s);
		status = count_key(s);
	}
	if (status == BPFDB_OK) {
		status = bpfdb_commit(s);
		/* Then it is still open. */
		if (!BPFDB_REFUSED_BY_LOG(status))
			return status;
	}
	bpfdb_rollback(s);
	return status;
}

SEC("xdp")
int count_direct(struct xdp_md *ctx)
{
	u32 source = packet_source(ctx);
	struct bpfdb_session *s = source ? packet_session() : NULL;

	if (!s)
		return XDP_PASS;
	/* A conflict is over when the other transaction ends: on another processor,
	 * or in the program that this one interrupted, in which case the packet is
	 * not counted. The engine counts both. */
	repeat(i, PACKET_TRIES)
	{
		if (count_packet(s, source) != BPFDB_CONFLICT)
			break;
	}
	return XDP_PASS;
}
