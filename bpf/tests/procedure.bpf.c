// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * One procedure, in continuation-passing style with every continuation a
 * program of the application, and again with every continuation inlined:
 *
 *   BEGIN ─► GET ─found─► value + 1 ─► SET ─► COMMIT ─► OK
 *             └─not found─► value = 1 ─┘
 *   Error of GET, SET ─► ROLLBACK ─► the Error
 *   Error of BEGIN, COMMIT: nothing is open any more ─► the Error
 *
 * Driven by crates/bpfdb/tests/continuation.rs, which swaps the operator
 * `count_set` for `count_set_marked` while it runs. ctx: session, key.
 */
#define BPFDB_CPS_SECTION "raw_tp"
#define BPFDB_CPS_CONTEXT struct bpf_raw_tracepoint_args
#define BPFDB_CPS_SESSION(ctx) bpfdb_session((ctx)->args[0])
#define BPFDB_CPS_END 99

#include <bpfdb/continuation.bpf.h>
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

typedef BPFDB_CPS_CONTEXT context;

enum slot {
	SLOT_NEVER_SET,
	BEGIN,
	BEGUN,
	GET,
	FOUND,
	NOT_FOUND,
	SET,
	WRITTEN,
	COMMIT,
	COMMITTED,
	FAILED,
	ROLLBACK,
	UNDONE,
	NOTHING_OPEN,
	INLINE_GET,
	INLINE_SET,
	INLINE_COMMIT,
	INLINE_ROLLBACK,
};

/* Room of the application in the session. */
#define FAILURE app[0]
#define MARKS app[1]

/* ---- Steps of the application, the same for both variants ---------------- */

static __always_inline int begun(context *ctx, struct bpfdb_session *s, u32 get)
{
	key_number(s, ctx->args[1]);
	return bpfdb_tail_call(ctx, s, get);
}

static __always_inline int write(context *ctx, struct bpfdb_session *s, u64 value, u32 set)
{
	value_number(s, value);
	return bpfdb_tail_call(ctx, s, set);
}

static __always_inline int failed(context *ctx, struct bpfdb_session *s, u32 rollback)
{
	s->FAILURE = s->status;
	return bpfdb_tail_call(ctx, s, rollback);
}

/* ---- Continuations that are programs -------------------------------------- */

#define STEP(name, body)                                                                           \
	SEC("raw_tp")                                                                              \
	int name(context *ctx)                                                                     \
	{                                                                                          \
		struct bpfdb_session *s = BPFDB_CPS_SESSION(ctx);                                  \
                                                                                                   \
		if (!s)                                                                            \
			return BPFDB_NO_SESSION;                                                   \
		body;                                                                              \
	}

BPFDB_DEFINE_BEGIN(count_begin, bpfdb_then_ok, bpfdb_then_error)
BPFDB_DEFINE_GET(count_get, bpfdb_then_found, bpfdb_then_not_found, bpfdb_then_error)
BPFDB_DEFINE_SET(count_set, bpfdb_then_ok, bpfdb_then_error)
BPFDB_DEFINE_COMMIT(count_commit, bpfdb_then_ok, bpfdb_then_error)
BPFDB_DEFINE_ROLLBACK(count_rollback, bpfdb_then_ok)

STEP(count_begun, s->on_found = FOUND; s->on_not_found = NOT_FOUND; s->on_error = FAILED;
     return begun(ctx, s, GET))
STEP(count_found, s->on_ok = WRITTEN; return write(ctx, s, s->value[0] + 1, SET))
STEP(count_not_found, s->on_ok = WRITTEN; return write(ctx, s, 1, SET))
STEP(count_written, s->on_ok = COMMITTED; s->on_error = NOTHING_OPEN;
     return bpfdb_tail_call(ctx, s, COMMIT))
STEP(count_committed, return BPFDB_OK)
STEP(count_failed, s->on_ok = UNDONE; return failed(ctx, s, ROLLBACK))
STEP(count_undone, return s->FAILURE)
STEP(count_nothing_open, return s->status)

/* Where the procedure begins. */
STEP(count_by_tail_calls, s->on_ok = BEGUN; s->on_error = NOTHING_OPEN;
     return bpfdb_tail_call(ctx, s, BEGIN))

/* Takes the place of count_set while the procedure runs. */
static __always_inline int marked(context *ctx, struct bpfdb_session *s)
{
	s->MARKS++;
	return bpfdb_then_ok(ctx, s);
}

BPFDB_DEFINE_SET(count_set_marked, marked, bpfdb_then_error)

STEP(count_marks, return s->MARKS)

/* ---- Continuations inlined into the operators ----------------------------- */

static __always_inline int inline_begun(context *ctx, struct bpfdb_session *s)
{
	return begun(ctx, s, INLINE_GET);
}

static __always_inline int inline_found(context *ctx, struct bpfdb_session *s)
{
	return write(ctx, s, s->value[0] + 1, INLINE_SET);
}

static __always_inline int inline_not_found(context *ctx, struct bpfdb_session *s)
{
	return write(ctx, s, 1, INLINE_SET);
}

static __always_inline int inline_written(context *ctx, struct bpfdb_session *s)
{
	return bpfdb_tail_call(ctx, s, INLINE_COMMIT);
}

static __always_inline int inline_committed(context *ctx, struct bpfdb_session *s)
{
	return BPFDB_OK;
}

static __always_inline int inline_failed(context *ctx, struct bpfdb_session *s)
{
	return failed(ctx, s, INLINE_ROLLBACK);
}

static __always_inline int inline_undone(context *ctx, struct bpfdb_session *s)
{
	return s->FAILURE;
}

static __always_inline int inline_nothing_open(context *ctx, struct bpfdb_session *s)
{
	return s->status;
}

BPFDB_DEFINE_BEGIN(count_inlined, inline_begun, inline_nothing_open)
BPFDB_DEFINE_GET(inline_get, inline_found, inline_not_found, inline_failed)
BPFDB_DEFINE_SET(inline_set, inline_written, inline_failed)
BPFDB_DEFINE_COMMIT(inline_commit, inline_committed, inline_nothing_open)
BPFDB_DEFINE_ROLLBACK(inline_rollback, inline_undone)

BPFDB_PROGRAMS([BEGIN] = BPFDB_PROGRAM(count_begin), [BEGUN] = BPFDB_PROGRAM(count_begun),
	       [GET] = BPFDB_PROGRAM(count_get), [FOUND] = BPFDB_PROGRAM(count_found),
	       [NOT_FOUND] = BPFDB_PROGRAM(count_not_found), [SET] = BPFDB_PROGRAM(count_set),
	       [WRITTEN] = BPFDB_PROGRAM(count_written), [COMMIT] = BPFDB_PROGRAM(count_commit),
	       [COMMITTED] = BPFDB_PROGRAM(count_committed), [FAILED] = BPFDB_PROGRAM(count_failed),
	       [ROLLBACK] = BPFDB_PROGRAM(count_rollback), [UNDONE] = BPFDB_PROGRAM(count_undone),
	       [NOTHING_OPEN] = BPFDB_PROGRAM(count_nothing_open),
	       [INLINE_GET] = BPFDB_PROGRAM(inline_get), [INLINE_SET] = BPFDB_PROGRAM(inline_set),
	       [INLINE_COMMIT] = BPFDB_PROGRAM(inline_commit),
	       [INLINE_ROLLBACK] = BPFDB_PROGRAM(inline_rollback));
