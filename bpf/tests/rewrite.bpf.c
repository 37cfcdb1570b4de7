// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* A writer that replaces one long value as fast as it can, for
 * crates/bpfdb/tests/busy_writer.rs. */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define ROUNDS (1 << 23) /* the most that bpf_loop does */
/* So long that it is replaced while a reader copies it. */
#define REWRITTEN_LEN 20000
#define LAST_WORD (REWRITTEN_LEN / 8 - 1)

struct rewrite {
	u64 end;
	u32 session;
	u32 refused; /* the last Error, but for MEMORY_PENDING: a latch was held; with the cause */
	u32 done;
};

/* The first and the last word are the same number, which shows a reader whether it
 * copied one value or parts of two. */
static long rewrite_once(u64 i, struct rewrite *rewrite)
{
	struct bpfdb_session *s = bpfdb_session(rewrite->session);
	u64 *slot;
	int status;

	if (!s || bpf_ktime_get_ns() >= rewrite->end)
		return 1;
	key_number(s, 1);
	status = bpfdb_value_alloc(s, REWRITTEN_LEN);
	slot = status == BPFDB_OK ? bpfdb_at(s->value[0]) : NULL;
	if (slot) {
		slot[0] = slot[LAST_WORD] = i;
		status = bpfdb_set(s);
	}
	if (status == BPFDB_OK)
		rewrite->done++;
	/* Busy: the reaper finishes what a snapshot kept from being finished. */
	else if (status != BPFDB_MEMORY_PENDING && status != BPFDB_SESSION_BUSY)
		rewrite->refused = status | s->conflict << 8;
	return 0;
}

/* ctx: nanoseconds, and the session. The same one in every turn: one that is closed while
 * its last SET is unfinished keeps its lock until the reaper comes. How many values it wrote,
 * or minus the Error that one of them had, with the cause of a CONFLICT in its second byte. */
SEC("raw_tp")
int rewrite_for(struct bpf_raw_tracepoint_args *ctx)
{
	struct rewrite rewrite = {.end = bpf_ktime_get_ns() + ctx->args[0],
				  .session = ctx->args[1]};

	bpf_loop(ROUNDS, rewrite_once, &rewrite, 0);
	return rewrite.refused ? -(int)rewrite.refused : (int)rewrite.done;
}
