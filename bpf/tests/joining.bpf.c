// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Programs of crates/bpfdb/tests/it/joining.rs, which lets this object join an engine, rightly or
 * not, and runs them.
 */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define KEY 7
/* What docs/embedding.md leaves to a program that calls an operator. */
#define FRAME 104

/* The Error of opening a session; with a session, the outcome of a SET. */
SEC("raw_tp")
int open_and_set(void *ctx)
{
	int index = bpfdb_session_open(BPFDB_SESSION_EMBEDDED), status;
	struct bpfdb_session *s = index < 0 ? NULL : bpfdb_session(index);

	if (!s)
		return -index;
	status = set_number(s, KEY, 1);
	bpfdb_session_close(s);
	return status;
}

/* Calls every operator from a frame of its own. */
SEC("raw_tp")
int from_a_frame(void *ctx)
{
	struct bpfdb_session *s = test_session();
	volatile u64 frame[FRAME / 8];

	if (!s)
		return BPFDB_NO_SESSION;
	for (u32 i = 0; i < sizeof(frame) / 8; i++)
		frame[i] = i;
	bpfdb_begin(s);
	key_number(s, frame[1]);
	bpfdb_get(s);
	bpfdb_get_for_update(s);
	bpfdb_value_alloc(s, 100);
	bpfdb_set(s);
	bpfdb_delete(s);
	bpfdb_commit(s);
	bpfdb_begin_read_only(s);
	bpfdb_get(s);
	bpfdb_rollback(s);
	bpfdb_session_close(s);
	return frame[0];
}
