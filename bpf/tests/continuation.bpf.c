// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Continuation-passing style, outcome by outcome: each operator twice, with
 * its continuations tail called and with them inlined. Driven by
 * crates/bpfdb/tests/continuation.rs. ctx: session, number.
 *
 * What a continuation returns shows which one ran: OK, FOUND, NOT_FOUND, or
 * the Error that it found in the session.
 */
#define BPFDB_CPS_SECTION "raw_tp"
#define BPFDB_CPS_CONTEXT struct bpf_raw_tracepoint_args
#define BPFDB_CPS_SESSION(ctx) bpfdb_session((ctx)->args[0])
/* No status: a chain that ended early shows. */
#define BPFDB_CPS_END 99

#include <bpfdb/continuation.bpf.h>
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

typedef BPFDB_CPS_CONTEXT context;

enum slot { SLOT_NEVER_SET, SLOT_OK, SLOT_FOUND, SLOT_NOT_FOUND, SLOT_ERROR, SLOT_FOR_EVER };

#define CONTINUATION(name, result)                                                                 \
	static __always_inline int name##_inline(context * ctx, struct bpfdb_session * s)          \
	{                                                                                          \
		return result;                                                                     \
	}                                                                                          \
                                                                                                   \
	SEC("raw_tp")                                                                              \
	int name(context *ctx)                                                                     \
	{                                                                                          \
		struct bpfdb_session *s = BPFDB_CPS_SESSION(ctx);                                  \
                                                                                                   \
		return s ? name##_inline(ctx, s) : BPFDB_NO_SESSION;                               \
	}

CONTINUATION(ran_ok, BPFDB_OK)
CONTINUATION(ran_found, BPFDB_FOUND)
CONTINUATION(ran_not_found, BPFDB_NOT_FOUND)
CONTINUATION(ran_error, s->status)

BPFDB_DEFINE_BEGIN(tail_begin, bpfdb_then_ok, bpfdb_then_error)
BPFDB_DEFINE_BEGIN_READ_ONLY(tail_begin_read_only, bpfdb_then_ok)
BPFDB_DEFINE_GET(tail_get, bpfdb_then_found, bpfdb_then_not_found, bpfdb_then_error)
BPFDB_DEFINE_GET_FOR_UPDATE(tail_get_for_update, bpfdb_then_found, bpfdb_then_not_found,
			    bpfdb_then_error)
BPFDB_DEFINE_GET_READ_ONLY(tail_get_read_only, bpfdb_then_found, bpfdb_then_not_found)
BPFDB_DEFINE_GET_AUTO_COMMIT(tail_get_auto_commit, bpfdb_then_found, bpfdb_then_not_found)
BPFDB_DEFINE_SET(tail_set, bpfdb_then_ok, bpfdb_then_error)
BPFDB_DEFINE_DELETE(tail_delete, bpfdb_then_found, bpfdb_then_not_found, bpfdb_then_error)
BPFDB_DEFINE_COMMIT(tail_commit, bpfdb_then_ok, bpfdb_then_error)
BPFDB_DEFINE_COMMIT_READ_ONLY(tail_commit_read_only, bpfdb_then_ok)
BPFDB_DEFINE_ROLLBACK(tail_rollback, bpfdb_then_ok)

BPFDB_DEFINE_BEGIN(inline_begin, ran_ok_inline, ran_error_inline)
BPFDB_DEFINE_BEGIN_READ_ONLY(inline_begin_read_only, ran_ok_inline)
BPFDB_DEFINE_GET(inline_get, ran_found_inline, ran_not_found_inline, ran_error_inline)
BPFDB_DEFINE_GET_FOR_UPDATE(inline_get_for_update, ran_found_inline, ran_not_found_inline,
			    ran_error_inline)
BPFDB_DEFINE_GET_READ_ONLY(inline_get_read_only, ran_found_inline, ran_not_found_inline)
BPFDB_DEFINE_GET_AUTO_COMMIT(inline_get_auto_commit, ran_found_inline, ran_not_found_inline)
BPFDB_DEFINE_SET(inline_set, ran_ok_inline, ran_error_inline)
BPFDB_DEFINE_DELETE(inline_delete, ran_found_inline, ran_not_found_inline, ran_error_inline)
BPFDB_DEFINE_COMMIT(inline_commit, ran_ok_inline, ran_error_inline)
BPFDB_DEFINE_COMMIT_READ_ONLY(inline_commit_read_only, ran_ok_inline)
BPFDB_DEFINE_ROLLBACK(inline_rollback, ran_ok_inline)

/* Operands of the next operator: key and value are args[1]. */
SEC("raw_tp")
int operands(context *ctx)
{
	struct bpfdb_session *s = BPFDB_CPS_SESSION(ctx);

	if (!s)
		return BPFDB_NO_SESSION;
	key_number(s, ctx->args[1]);
	value_number(s, ctx->args[1]);
	s->status = BPFDB_STATUS_COUNT;
	s->on_ok = SLOT_OK;
	s->on_found = SLOT_FOUND;
	s->on_not_found = SLOT_NOT_FOUND;
	s->on_error = SLOT_ERROR;
	return BPFDB_OK;
}

/* Takes the session's continuations away. */
SEC("raw_tp")
int forget(context *ctx)
{
	struct bpfdb_session *s = BPFDB_CPS_SESSION(ctx);

	if (!s)
		return BPFDB_NO_SESSION;
	s->on_ok = s->on_found = s->on_not_found = s->on_error = SLOT_NEVER_SET;
	return BPFDB_OK;
}

SEC("raw_tp")
int status_of(context *ctx)
{
	struct bpfdb_session *s = BPFDB_CPS_SESSION(ctx);

	return s ? s->status : BPFDB_NO_SESSION;
}

/* Calls itself until the kernel's limit of tail calls stops it. */
SEC("raw_tp")
int for_ever(context *ctx)
{
	struct bpfdb_session *s = BPFDB_CPS_SESSION(ctx);

	return s ? bpfdb_tail_call(ctx, s, SLOT_FOR_EVER) : BPFDB_NO_SESSION;
}

BPFDB_PROGRAMS([SLOT_OK] = BPFDB_PROGRAM(ran_ok), [SLOT_FOUND] = BPFDB_PROGRAM(ran_found),
	       [SLOT_NOT_FOUND] = BPFDB_PROGRAM(ran_not_found),
	       [SLOT_ERROR] = BPFDB_PROGRAM(ran_error), [SLOT_FOR_EVER] = BPFDB_PROGRAM(for_ever));
