// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Voter in C by hand, for `make bench`: what examples/procedures/voter.lua does, with the same
 * checks, keys and writes, called in the same way (struct bpfdb_calls). Nothing of the compiler's
 * runtime is in it: keys and arguments are read where they lie in the io buffer.
 *
 * Of texts that the benchmark does not have it is simpler: a state and a choice have 16 bytes
 * together at most, numbers no sign. A call with others is given up, as a compiled one would be
 * whose texts are too long.
 */
#include <bpfdb/bpfdb.bpf.h>
#include <bpfdb/procedure.h>

#include "driver/io.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum { ACCEPTED, NO_CONTESTANT, OVER_LIMIT };

/* Keys, and behind them arguments. */
enum { AREA, CONTESTANT, PHONE, NUMBER, CHOICE, LIMIT, WORDS };

#define DIGITS_MAX 16

/* A text in the io buffer. */
struct word {
	u32 at, len;
};

/* ---- Texts: functions that the verifier walks once ----------------------------- */

/* Adds a word at this place of the key; where it ends. */
__noinline int key_add(struct bpfdb_session *s NONNULL, u32 place, u32 buffer, u32 at, u32 len)
{
	const void *from = io_at(buffer, at);

	if (!from)
		return 0;
	for (u32 i = 0; i < BPFDB_KEY_MAX / 8; i++) {
		u64 to = place + i * 8;

		OPAQUE(to);
		if (i * 8 >= len || to > BPFDB_KEY_MAX - 8)
			break;
		*(u64 *)((u8 *)s->key + to) = *(u64 *)(from + i * 8);
	}
	return place + len;
}

static __always_inline u32 digits_of(u64 n)
{
	u32 digits = 1;

	for (u64 power = 10; digits < DIGITS_MAX && n >= power; power *= 10)
		digits++;
	return digits;
}

static __always_inline u32 digits_write(u8 *to, u32 room, u32 place, u64 n)
{
	u32 digits = digits_of(n);

	for (u32 i = 0; i < DIGITS_MAX; i++) {
		u64 at = place + digits - 1 - i;

		if (i >= digits)
			break;
		OPAQUE(at);
		to[at & (room - 1)] = '0' + n % 10;
		n /= 10;
	}
	return place + digits;
}

/* Adds a number at this place of the key; where it ends. */
__noinline int key_add_number(struct bpfdb_session *s NONNULL, u32 place, u64 n)
{
	return digits_write((u8 *)s->key, BPFDB_KEY_MAX, place, n);
}

/* A number becomes the value. */
__noinline int value_number(struct bpfdb_session *s NONNULL, u64 n)
{
	s->value_len = digits_write((u8 *)s->value, BPFDB_INLINE_MAX, 0, n);
	return 0;
}

#define NO_NUMBER (~0ULL)

static __always_inline u64 number_of(const u8 *text, u32 len)
{
	u64 n = 0;

	if (!len || len > DIGITS_MAX)
		return NO_NUMBER;
	for (u32 i = 0; i < DIGITS_MAX; i++) {
		u32 digit;

		if (i >= len)
			break;
		digit = text[i] - '0';
		if (digit > 9)
			return NO_NUMBER;
		n = n * 10 + digit;
	}
	return n;
}

/* The number that a word is. */
__noinline u64 word_number(u32 buffer, u32 at, u32 len)
{
	const u8 *text = io_at(buffer, at);

	return text ? number_of(text, len) : NO_NUMBER;
}

/* What GET found as a number, 0 if it found none. */
__noinline u64 found_number(struct bpfdb_session *s NONNULL, u32 status)
{
	return status == BPFDB_NOT_FOUND ? 0 : number_of((u8 *)s->value, s->value_len);
}

/* <state> <choice> becomes the value, of whose state the session has the length. */
__noinline int value_add(struct bpfdb_session *s NONNULL, u32 buffer, u32 from, u32 len)
{
	const u8 *name = io_at(buffer, from);
	u8 *to = (u8 *)s->value;
	u64 place = s->value_len;

	OPAQUE(place);
	if (!name || place + 1 + len > BPFDB_INLINE_MAX)
		return BPFDB_DEOPTIMISATION_VALUE;
	s->value_len = place + 1 + len;
	to[place & (BPFDB_INLINE_MAX - 1)] = ' ';
	for (u32 i = 0; i < BPFDB_INLINE_MAX; i++) {
		u64 at = place + 1 + i;

		if (i >= len)
			break;
		OPAQUE(at);
		to[at & (BPFDB_INLINE_MAX - 1)] = name[i];
	}
	return 0;
}

/* A word becomes the key. */
static __always_inline int key_take(struct bpfdb_session *s, u32 buffer, struct word word)
{
	if (!word.len || word.len > BPFDB_KEY_MAX)
		return BPFDB_DEOPTIMISATION_KEY;
	s->key_len = key_add(s, 0, buffer, word.at, word.len);
	return s->key[0] == BPFDB_RESERVED_KEYS ? BPFDB_DEOPTIMISATION_KEY : 0;
}

/* ---- The procedure -------------------------------------------------------- */

/* The state of an area becomes the session's value, up to 16 bytes; `XX` of one that no call
 * knows. */
static __always_inline int state_find(struct bpfdb_session *s, u32 buffer, struct word area)
{
	int status = key_take(s, buffer, area);

	if (status)
		return status;
	status = bpfdb_get(s);
	if (status >= BPFDB_FIRST_ERROR)
		return status;
	if (status == BPFDB_NOT_FOUND) {
		s->value_len = 2;
		s->value[0] = 'X' | 'X' << 8;
	}
	return s->value_len > BPFDB_INLINE_MAX ? BPFDB_DEOPTIMISATION_VALUE : 0;
}

/* voter:vote:<number>:<votes> becomes <state> <choice>, of which the session has the state. */
static __always_inline int vote_record(struct bpfdb_session *s, u32 buffer, struct word number,
				       struct word choice, u64 votes)
{
	u64 place;
	int status;

	__builtin_memcpy(s->key, "voter:vote:", 11);
	place = key_add(s, 11, buffer, number.at, number.len);
	if (place > BPFDB_KEY_MAX - DIGITS_MAX - 1)
		return BPFDB_DEOPTIMISATION_KEY;
	((u8 *)s->key)[place] = ':';
	s->key_len = key_add_number(s, place + 1, votes);
	status = value_add(s, buffer, choice.at, choice.len);
	return status ?: (int)bpfdb_set(s);
}

/* One more vote for a choice. */
static __always_inline int choice_count(struct bpfdb_session *s, u32 buffer, struct word choice)
{
	u64 votes;
	int status;

	__builtin_memcpy(s->key, "voter:votes:", 12);
	s->key_len = key_add(s, 12, buffer, choice.at, choice.len);
	status = bpfdb_get_for_update(s);
	if (status >= BPFDB_FIRST_ERROR)
		return status;
	votes = found_number(s, status);
	if (votes == NO_NUMBER)
		return BPFDB_DEOPTIMISATION_COUNTER;
	value_number(s, votes + 1);
	return bpfdb_set(s);
}

/* Within a transaction. 0, with the result; or why it has none. */
static __always_inline int vote(struct bpfdb_session *s, u32 buffer, struct word words[WORDS],
				u64 *result)
{
	u64 limit = word_number(buffer, words[LIMIT].at, words[LIMIT].len), votes;
	int status;

	if (limit == NO_NUMBER)
		return BPFDB_DEOPTIMISATION_TEXT_IS_NO_NUMBER;
	status = key_take(s, buffer, words[CONTESTANT]) ?: (int)bpfdb_get(s);
	if (status >= BPFDB_FIRST_ERROR)
		return status;
	*result = NO_CONTESTANT;
	if (status == BPFDB_NOT_FOUND)
		return 0;
	status = key_take(s, buffer, words[PHONE]) ?: (int)bpfdb_get_for_update(s);
	if (status >= BPFDB_FIRST_ERROR)
		return status;
	votes = found_number(s, status);
	if (votes == NO_NUMBER)
		return BPFDB_DEOPTIMISATION_TEXT_IS_NO_NUMBER;
	*result = OVER_LIMIT;
	if (votes >= limit)
		return 0;
	*result = ACCEPTED;
	votes++;
	value_number(s, votes);
	status = key_take(s, buffer, words[PHONE]) ?: (int)bpfdb_set(s);
	/* Last before the record, as the session has what was found. (No area is a phone.) */
	status = status ?: state_find(s, buffer, words[AREA]);
	if (status)
		return status;
	status = vote_record(s, buffer, words[NUMBER], words[CHOICE], votes);
	return status ?: choice_count(s, buffer, words[CHOICE]);
}

/* ---- The calls ------------------------------------------------------------ */

/* Where the words of the call at `at` lie; where it ends, 0 if it is no vote. */
static __always_inline u32 words_find(u32 buffer, u32 at, struct word words[WORDS])
{
	struct bpfdb_call *call = io_at(buffer, at);
	const u32 *lengths;

	if (!call || call->keys != 3 || call->arguments != 3)
		return 0;
	lengths = (u32 *)(call + 1);
	at += sizeof(*call) + WORDS * sizeof(u32);
	for (u32 i = 0; i < WORDS; i++) {
		words[i].at = at;
		words[i].len = lengths[i];
		at += (lengths[i] + 7) & ~7u;
	}
	return at;
}

/* The next call: 0 if the run ends. */
__noinline int vote_call(struct bpfdb_session *s NONNULL, u32 buffer)
{
	struct bpfdb_calls *run = io_at(buffer, 0);
	struct bpfdb_call_reply *reply = run ? io_at(buffer, run->to) : NULL;
	struct word words[WORDS];
	u64 result = 0;
	int status;

	if (!run || !reply || run->at >= run->end || run->to >= BPFDB_IO_SIZE - 64)
		return 0;
	if (!words_find(buffer, run->at, words)) {
		run->status = BPFDB_BAD_REQUEST;
		return 0;
	}
	status = bpfdb_begin(s);
	if (status == BPFDB_OK) {
		status = vote(s, buffer, words, &result);
		if (status)
			TXN_END_OWN(s, bpfdb_rollback);
		else
			status = TXN_END_OWN(s, bpfdb_commit);
		/* It would stay open. */
		if (BPFDB_REFUSED_BY_LOG(status))
			TXN_END_OWN(s, bpfdb_rollback);
	}
	if (status == BPFDB_CONFLICT && ++run->status < BPFDB_COMMAND_TRIES)
		return 1;
	reply->conflicts = run->status;
	run->status = 0;
	if (status == BPFDB_MEMORY_PENDING || status == BPFDB_SESSION_BUSY) {
		run->status = status;
		return 0;
	}
	reply->outcome = status;
	reply->values = !status;
	reply->is_array = 0;
	run->to += sizeof(*reply);
	if (!status) {
		struct bpfdb_call_value *value = (void *)(reply + 1);

		value->tag = BPFDB_TAG_INTEGER;
		value->len = 0;
		value->number = result;
		run->to += sizeof(*value);
	}
	run->done++;
	run->at = words_find(buffer, run->at, words);
	return 1;
}

/* ctx: session, io buffer. */
SEC("raw_tp")
int voter_by_hand(struct bpf_raw_tracepoint_args *ctx)
{
	repeat(i, BPFDB_CALLS_MAX)
	{
		struct bpfdb_session *s = bpfdb_session(ctx->args[0]);

		if (!s || !vote_call(s, ctx->args[1]))
			break;
	}
	return BPFDB_OK;
}
