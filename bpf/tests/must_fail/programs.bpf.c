/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Programs that the verifier must refuse, each by itself. One object, because to compile the
 * engine takes seconds; a line "NAME is refused: MESSAGE" says what the verifier is to complain
 * about.
 */
#include <bpfdb/bpfdb.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Changes a constant that other programs were verified with. */
// config_written is refused: write into map forbidden
SEC("raw_tp")
int config_written(void *ctx)
{
	*(volatile u32 *)&config.versions = 9;
	return 0;
}

/* Waits for a lock: nothing here may wait without bound. */
// endless is refused: infinite loop detected
SEC("raw_tp")
int endless(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);

	if (!s)
		return 0;
	while (LOAD(s->busy))
		;
	return bpfdb_get(s);
}

/* Writes so far behind the key of a session that it may be another session. */
// key_overrun is refused: max value is outside of the allowed memory range
SEC("raw_tp")
int key_overrun(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);
	u64 word = ctx->args[1] & 255;

	OPAQUE(word);
	if (!s)
		return 0;
	s->key[word & 255] = 1;
	return bpfdb_get(s);
}

/* Uses a lock by a number without a bound. */
// lock_number_unbounded is refused: unbounded memory access, make sure to bounds check any such access
SEC("raw_tp")
int lock_number_unbounded(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);

	return s ? s->locks[s->lock_count].mode : 0;
}

/* Something smaller than a session is given to an operator. */
// not_a_session is refused: Caller passes invalid args into func#1 ('bpfdb_get')
SEC("raw_tp")
int not_a_session(void *ctx)
{
	u32 zero = 0, *entry = bpf_map_lookup_elem(&directory, &zero);

	return entry ? bpfdb_get((struct bpfdb_session *)entry) : 0;
}

/* Uses an offset into a segment without a bound. */
// segment_unmasked is refused: register with unbounded min value is not allowed
SEC("raw_tp")
int segment_unmasked(struct bpf_raw_tracepoint_args *ctx)
{
	u64 address = ctx->args[0];
	char *segment = segment_of(address);

	return segment ? segment[address] : 0;
}

/* Walks from a session to the next one. */
// session_next is refused: invalid access to map value
SEC("raw_tp")
int session_next(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);

	return s ? s[1].state : 0;
}

/* A session that may be NULL is given to an operator. */
// session_unchecked is refused: arg#0 is expected to be non-NULL
SEC("raw_tp")
int session_unchecked(struct bpf_raw_tracepoint_args *ctx)
{
	return bpfdb_get(bpfdb_session(ctx->args[0]));
}

/* Stores behind the longest slot. */
// slot_overrun is refused: invalid access to map value
SEC("raw_tp")
int slot_overrun(struct bpf_raw_tracepoint_args *ctx)
{
	u64 *slot = bpfdb_at(ctx->args[0]);

	if (slot)
		slot[BPFDB_PAGE_SIZE / 8 + 2] = 1;
	return 0;
}

/* Reads a slot without asking whether its address is good. */
// slot_unchecked is refused: invalid mem access 'scalar'
SEC("raw_tp")
int slot_unchecked(struct bpf_raw_tracepoint_args *ctx)
{
	u64 *slot = bpfdb_at(ctx->args[0]);

	return LOAD(*slot);
}

/* Copies a value by a length that is only believed to be small. */
// value_length_unbounded is refused: R2 unbounded memory access
char buffer[1024];

SEC("raw_tp")
int value_length_unbounded(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);
	void *slot = s && bpfdb_get(s) == BPFDB_FOUND ? bpfdb_at(s->value[0]) : NULL;

	if (slot)
		bpf_probe_read_kernel(buffer, s->value_len, slot);
	return 0;
}
