// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Continuation-passing style: the transaction of count_direct.bpf.c as a chain
 * of tail calls. See docs/embedding.md.
 *
 *   packet ─► BEGIN ─► GET source ─► SET ─► GET total ─► SET ─► COMMIT ─► pass
 *                        any Error ─► ROLLBACK ─► pass
 *
 * The continuations are inlined into the operators, which are the programs.
 */
#include "packets.bpf.h"

#define BPFDB_CPS_SECTION "xdp"
#define BPFDB_CPS_CONTEXT struct xdp_md
#define BPFDB_CPS_SESSION(ctx) packet_session()
#define BPFDB_CPS_END XDP_PASS
#include <bpfdb/continuation.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum slot { SLOT_NONE, BEGIN, GET, SET, COMMIT, ROLLBACK };

/* The application's room in the session: is the total being counted? */
#define AT_TOTAL app[0]

static __always_inline int begun(struct xdp_md *ctx, struct bpfdb_session *s)
{
	s->AT_TOTAL = 0;
	key_source(s, packet_source(ctx));
	return bpfdb_tail_call(ctx, s, GET);
}

static __always_inline int found(struct xdp_md *ctx, struct bpfdb_session *s)
{
	value_counted(s, true);
	return bpfdb_tail_call(ctx, s, SET);
}

static __always_inline int not_found(struct xdp_md *ctx, struct bpfdb_session *s)
{
	value_counted(s, false);
	return bpfdb_tail_call(ctx, s, SET);
}

static __always_inline int written(struct xdp_md *ctx, struct bpfdb_session *s)
{
	if (s->AT_TOTAL)
		return bpfdb_tail_call(ctx, s, COMMIT);
	s->AT_TOTAL = 1;
	key_total(s);
	return bpfdb_tail_call(ctx, s, GET);
}

static __always_inline int failed(struct xdp_md *ctx, struct bpfdb_session *s)
{
	return bpfdb_tail_call(ctx, s, ROLLBACK);
}

/* The log has no room for the transaction, or takes none: it is still open. Else it is over. */
static __always_inline int refused(struct xdp_md *ctx, struct bpfdb_session *s)
{
	return BPFDB_REFUSED_BY_LOG(s->status) ? bpfdb_tail_call(ctx, s, ROLLBACK) : XDP_PASS;
}

static __always_inline int pass(struct xdp_md *ctx, struct bpfdb_session *s)
{
	return XDP_PASS;
}

BPFDB_DEFINE_BEGIN(packet_begin, begun, pass)
BPFDB_DEFINE_GET_FOR_UPDATE(packet_get, found, not_found, failed)
BPFDB_DEFINE_SET(packet_set, written, failed)
BPFDB_DEFINE_COMMIT(packet_commit, pass, refused)
BPFDB_DEFINE_ROLLBACK(packet_rollback, pass)

BPFDB_PROGRAMS([BEGIN] = BPFDB_PROGRAM(packet_begin), [GET] = BPFDB_PROGRAM(packet_get),
	       [SET] = BPFDB_PROGRAM(packet_set), [COMMIT] = BPFDB_PROGRAM(packet_commit),
	       [ROLLBACK] = BPFDB_PROGRAM(packet_rollback));

SEC("xdp")
int count_chain(struct xdp_md *ctx)
{
	struct bpfdb_session *s = packet_source(ctx) ? packet_session() : NULL;

	return s ? bpfdb_tail_call(ctx, s, BEGIN) : XDP_PASS;
}
