// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Not a test by itself: programs that call procedures, for
 * crates/bpfdb-procedures/tests/embedded. One of them runs in timer interrupts.
 */
#include <bpfdb/procedure.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Functions, as the test publishes them. */
enum { ADD = 1, ECHO = 2 };

/* What the program in interrupts reads, and what it writes. */
struct tick {
	u64 thread; /* that it may interrupt; 0: none */
	u32 session, unused;
	u64 added;    /* calls that had a reply */
	u64 refused;  /* that had an Error of the engine */
	u64 other;    /* outcome of any other call */
	u64 within;   /* calls while another one was under way below */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tick);
} calls_tick SEC(".maps");

struct text {
	u8 bytes[64];
};

/* What calls_echo sends and gets. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct text);
} calls_text SEC(".maps");

/* Adds one to a key of the caller's, and to one that all have. */
static __always_inline u32 add(void *ctx, struct bpfdb_session *s, const char own[4])
{
	struct bpfdb_frame *f = bpfdb_call_begin();
	u32 outcome = BPFDB_DEOPTIMISATION_KEY;

	if (!f)
		return BPFDB_EXHAUSTED;
	if (bpfdb_call_key(f, own, 4) && bpfdb_call_key(f, "both", 4) &&
	    bpfdb_call_argument_number(f, 1))
		outcome = bpfdb_call(ctx, f, s, ADD);
	bpfdb_call_end(f);
	return outcome;
}

/* ctx: session. Outcome of one call. */
SEC("raw_tp")
int calls_add(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);

	return s ? add(ctx, s, "task") : BPFDB_BAD_REQUEST;
}

/* ctx: session, length. Sends a text, and stores the one that comes; its length. */
SEC("raw_tp")
int calls_echo(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);
	u32 zero = 0, one = 1, len = ctx->args[1];
	struct text *from = bpf_map_lookup_elem(&calls_text, &zero);
	struct text *to = bpf_map_lookup_elem(&calls_text, &one);
	struct bpfdb_frame *f = s && from && to ? bpfdb_call_begin() : NULL;
	const void *text;

	if (!f)
		return -1;
	/* If the first one has no room the second one must not take its place. */
	bpfdb_call_argument(f, from, len);
	bpfdb_call_argument_number(f, 7);
	if (bpfdb_call(ctx, f, s, ECHO)) {
		bpfdb_call_end(f);
		return -2;
	}
	text = bpfdb_reply_text(f, 0, &len);
	if (text)
		bpf_probe_read_kernel(to, sizeof(*to), text);
	bpfdb_call_end(f);
	return len;
}

/* ctx: session, function. Outcome of a call without arguments. */
SEC("raw_tp")
int calls_any(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);
	struct bpfdb_frame *f = s ? bpfdb_call_begin() : NULL;
	u32 outcome;

	if (!f)
		return -1;
	outcome = bpfdb_call(ctx, f, s, ctx->args[1]);
	bpfdb_call_end(f);
	return outcome;
}

/* ctx: session, the state of a frame, 1 if it is another task's. Enters by this frame; 1 if it
 * was executed. */
SEC("raw_tp")
int calls_enter(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);
	struct bpfdb_frame *f = s ? bpfdb_call_begin() : NULL;
	u32 function = ADD, *place = call_place_here(), state = ctx->args[1], executed;
	u64 *what = bpf_map_lookup_elem(&bpfdb_functions, &function);

	if (!f)
		return -1;
	if (!place || !what) {
		bpfdb_call_end(f);
		return -1;
	}
	bpfdb_call_key(f, "task", 4);
	bpfdb_call_key(f, "both", 4);
	bpfdb_call_argument_number(f, 1);
	f->heap_begin = f->heap_used;
	f->session = s->index;
	f->function = BPFDB_FUNCTION_BODY(*what);
	f->reads = 0;
	f->task = bpf_get_current_task() + (ctx->args[2] ? 64 : 0);
	f->busy = state;
	*place = f->number + 1;
	call_enter(ctx, BPFDB_FUNCTION_SLOT(*what));
	*place = 0;
	executed = f->outcome != BPFDB_DEOPTIMISATION_MISSED;
	/* A frame that is not entered stays as it is. */
	if (!executed && f->busy != state)
		executed = 2;
	bpfdb_call_end(f);
	return executed;
}

/* ctx: session. Enters it when a transaction is open there, as the reaper might; 1 if it did. */
SEC("raw_tp")
int calls_visit(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);

	repeat(i, 1 << 16)
	{
		if (s && txn_is_open(LOAD(s->state)) && session_enter_once(s))
			return 1;
	}
	return 0;
}

/* ctx: session. The visitor leaves; 1 if it had to roll back what the session's user could not. */
SEC("raw_tp")
int calls_leave(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);
	int undoes;

	if (!s)
		return -1;
	undoes = session_undoes(s);
	session_leave_as_guest(s, 0);
	return undoes;
}

/* A timer has interrupted something. */
SEC("raw_tp/hrtimer_expire_entry")
int calls_interrupt(struct bpf_raw_tracepoint_args *ctx)
{
	u32 zero = 0, *place = call_place_here(), outcome;
	struct tick *tick = bpf_map_lookup_elem(&calls_tick, &zero);
	struct bpfdb_session *s;

	if (!tick || !place || !tick->thread || tick->thread != (u32)bpf_get_current_pid_tgid())
		return 0;
	s = bpfdb_session(tick->session);
	if (!s)
		return 0;
	tick->within += *place != 0;
	outcome = add(ctx, s, "tick");
	if (!outcome)
		tick->added++;
	else if (outcome < BPFDB_DEOPTIMISATION_FIRST)
		tick->refused++;
	else
		tick->other = outcome;
	return 0;
}
