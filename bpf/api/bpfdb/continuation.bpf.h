/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Continuation-passing style: an operator is a program of its own, reached by
 * tail call, and each of its outcomes names what runs next.
 *
 *   application ──tail call──► operator ──on_ok──► application ──► ...
 *                                       └─on_error──► application
 *
 * The bodies are the direct-style operators: this file only adds how they are
 * reached and left. Before including it an application says what its programs
 * are, since programs that tail call each other must be of one kind:
 *
 *   #define BPFDB_CPS_SECTION "xdp"
 *   #define BPFDB_CPS_CONTEXT struct xdp_md
 *   #define BPFDB_CPS_SESSION(ctx) my_session(ctx)   NULL: there is none
 *
 * Then it instantiates the operators that it uses, each with a continuation
 * for every outcome that the operator has, and no other: leaving one out does
 * not compile.
 *
 *   BPFDB_DEFINE_BEGIN(name, on_ok, on_error)
 *   BPFDB_DEFINE_BEGIN_READ_ONLY(name, on_ok)
 *   BPFDB_DEFINE_GET(name, on_found, on_not_found, on_error)
 *   BPFDB_DEFINE_GET_FOR_UPDATE(name, on_found, on_not_found, on_error)
 *   BPFDB_DEFINE_GET_READ_ONLY(name, on_found, on_not_found)
 *   BPFDB_DEFINE_GET_AUTO_COMMIT(name, on_found, on_not_found)
 *   BPFDB_DEFINE_SET(name, on_ok, on_error)          auto-commit too
 *   BPFDB_DEFINE_DELETE(name, on_found, on_not_found, on_error)
 *   BPFDB_DEFINE_COMMIT(name, on_ok, on_error)
 *   BPFDB_DEFINE_COMMIT_READ_ONLY(name, on_ok)
 *   BPFDB_DEFINE_ROLLBACK(name, on_ok)
 *
 * A continuation is a function `int f(BPFDB_CPS_CONTEXT *, struct bpfdb_session *)`
 * whose result the program returns. Declared always_inline it is inlined
 * into the operator. bpfdb_then_ok, bpfdb_then_error, bpfdb_then_found and
 * bpfdb_then_not_found go on by tail call to the program whose slot of
 * bpfdb_programs is in session->on_ok and so on.
 *
 * Slots are numbered by the application. Leave slot 0 empty: a continuation that
 * was not set is missed then, and not another session's. An operator is swapped
 * while it runs by updating its slot: a run goes to the old program or
 * to the new one, and either finishes.
 */
#ifndef BPFDB_CONTINUATION_BPF_H
#define BPFDB_CONTINUATION_BPF_H

#include "bpfdb.bpf.h"

#if !defined(BPFDB_CPS_SECTION) || !defined(BPFDB_CPS_CONTEXT) || !defined(BPFDB_CPS_SESSION)
#error "define BPFDB_CPS_SECTION, BPFDB_CPS_CONTEXT and BPFDB_CPS_SESSION first"
#endif

/* What a program returns whose chain ends before its time. */
#ifndef BPFDB_CPS_END
#define BPFDB_CPS_END 0
#endif

/* Slots: the application's programs and the operators it uses. */
#ifndef BPFDB_PROGRAMS_MAX
#define BPFDB_PROGRAMS_MAX 64
#endif

struct bpfdb_program_map {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, BPFDB_PROGRAMS_MAX);
	__uint(key_size, sizeof(u32));
	__array(values, int(void *));
};

extern struct bpfdb_program_map bpfdb_programs SEC(".maps");

/* Once per application: BPFDB_PROGRAMS([SLOT] = program, ...). */
#define BPFDB_PROGRAMS(...)                                                                        \
	struct bpfdb_program_map bpfdb_programs SEC(".maps") = {.values = {__VA_ARGS__}}
#define BPFDB_PROGRAM(name) (void *)&name

static __always_inline void bpfdb_count_status(u32 status)
{
	if (status < BPFDB_STATUS_COUNT)
		COUNT(statuses[status]);
}

/*
 * All tail calls are made here. It returns only if the call did not happen
 * (an empty slot, or more than 33 in a row): counted, and a read-write
 * transaction fails, because a procedure that lost a step must not commit.
 */
static __always_inline int bpfdb_tail_call(void *ctx, struct bpfdb_session *s, u32 slot)
{
	bpf_tail_call(ctx, &bpfdb_programs, slot);
	s->status = txn_result(s, BPFDB_MISSED_TAIL_CALL);
	bpfdb_count_status(BPFDB_MISSED_TAIL_CALL);
	return BPFDB_CPS_END;
}

/* Continuations by tail call. */
static __always_inline int bpfdb_then_ok(void *ctx, struct bpfdb_session *s)
{
	return bpfdb_tail_call(ctx, s, s->on_ok);
}

static __always_inline int bpfdb_then_error(void *ctx, struct bpfdb_session *s)
{
	return bpfdb_tail_call(ctx, s, s->on_error);
}

static __always_inline int bpfdb_then_found(void *ctx, struct bpfdb_session *s)
{
	return bpfdb_tail_call(ctx, s, s->on_found);
}

static __always_inline int bpfdb_then_not_found(void *ctx, struct bpfdb_session *s)
{
	return bpfdb_tail_call(ctx, s, s->on_not_found);
}

/*
 * The outcome is in session->status before the continuation runs. One that the
 * operator does not have (ROLLBACK without a transaction, a read-only GET with
 * a key that is too long) is a mistake of the application: the chain ends, the
 * Error is in session->status and counted.
 */
#define BPFDB_DEFINE_OPERATOR(name, operator, outcomes)                                            \
	SEC(BPFDB_CPS_SECTION)                                                                     \
	int name(BPFDB_CPS_CONTEXT *ctx)                                                           \
	{                                                                                          \
		struct bpfdb_session *s = BPFDB_CPS_SESSION(ctx);                                  \
		int status;                                                                        \
                                                                                                   \
		if (!s) {                                                                          \
			bpfdb_count_status(BPFDB_NO_SESSION);                                      \
			return BPFDB_CPS_END;                                                      \
		}                                                                                  \
		status = operator(s);                                                              \
		s->status = status;                                                                \
		outcomes;                                                                          \
		return BPFDB_CPS_END;                                                              \
	}

#define BPFDB_ON(condition, continuation)                                                          \
	if (condition)                                                                             \
	return continuation(ctx, s)
#define BPFDB_ON_OK(continuation) BPFDB_ON(status == BPFDB_OK, continuation)
#define BPFDB_ON_FOUND(found, not_found)                                                           \
	BPFDB_ON(status == BPFDB_FOUND, found);                                                    \
	BPFDB_ON(status == BPFDB_NOT_FOUND, not_found)
#define BPFDB_ON_ERROR(continuation) BPFDB_ON(status >= BPFDB_FIRST_ERROR, continuation)

#define BPFDB_DEFINE_BEGIN(name, on_ok, on_error)                                                  \
	BPFDB_DEFINE_OPERATOR(name, bpfdb_begin, BPFDB_ON_OK(on_ok); BPFDB_ON_ERROR(on_error))
#define BPFDB_DEFINE_BEGIN_READ_ONLY(name, on_ok)                                                  \
	BPFDB_DEFINE_OPERATOR(name, bpfdb_begin_read_only, BPFDB_ON_OK(on_ok))
#define BPFDB_DEFINE_GET(name, on_found, on_not_found, on_error)                                   \
	BPFDB_DEFINE_OPERATOR(name, bpfdb_get, BPFDB_ON_FOUND(on_found, on_not_found);             \
			      BPFDB_ON_ERROR(on_error))
#define BPFDB_DEFINE_GET_FOR_UPDATE(name, on_found, on_not_found, on_error)                        \
	BPFDB_DEFINE_OPERATOR(name, bpfdb_get_for_update, BPFDB_ON_FOUND(on_found, on_not_found);  \
			      BPFDB_ON_ERROR(on_error))
#define BPFDB_DEFINE_GET_READ_ONLY(name, on_found, on_not_found)                                   \
	BPFDB_DEFINE_OPERATOR(name, bpfdb_get, BPFDB_ON_FOUND(on_found, on_not_found))
#define BPFDB_DEFINE_GET_AUTO_COMMIT(name, on_found, on_not_found)                                 \
	BPFDB_DEFINE_OPERATOR(name, bpfdb_get, BPFDB_ON_FOUND(on_found, on_not_found))
#define BPFDB_DEFINE_SET(name, on_ok, on_error)                                                    \
	BPFDB_DEFINE_OPERATOR(name, bpfdb_set, BPFDB_ON_OK(on_ok); BPFDB_ON_ERROR(on_error))
#define BPFDB_DEFINE_DELETE(name, on_found, on_not_found, on_error)                                \
	BPFDB_DEFINE_OPERATOR(name, bpfdb_delete, BPFDB_ON_FOUND(on_found, on_not_found);          \
			      BPFDB_ON_ERROR(on_error))
#define BPFDB_DEFINE_COMMIT(name, on_ok, on_error)                                                 \
	BPFDB_DEFINE_OPERATOR(name, bpfdb_commit, BPFDB_ON_OK(on_ok); BPFDB_ON_ERROR(on_error))
#define BPFDB_DEFINE_COMMIT_READ_ONLY(name, on_ok)                                                 \
	BPFDB_DEFINE_OPERATOR(name, bpfdb_commit, BPFDB_ON_OK(on_ok))
#define BPFDB_DEFINE_ROLLBACK(name, on_ok)                                                         \
	BPFDB_DEFINE_OPERATOR(name, bpfdb_rollback, BPFDB_ON_OK(on_ok))

#endif
