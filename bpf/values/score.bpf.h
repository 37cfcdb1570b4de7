/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Scores of sorted sets that are whole numbers. A run has a score as eight bytes in which the bits of a
 * double are changed so that they are ordered as scores are (sortable() in
 * crates/bpfdb-values/src/run.rs). eBPF has no floating point: here whole numbers below 2^53 become
 * doubles and back by shifts; any other score is left to user space.
 */
#ifndef BPFDB_VALUES_SCORE_BPF_H
#define BPFDB_VALUES_SCORE_BPF_H

#include "element.bpf.h"

/* Bits of a double's fraction, and what its exponent is counted from. */
#define DOUBLE_FRACTION 52
#define DOUBLE_BIAS 1023
#define DOUBLE_SIGN (1ULL << 63)
/* Whole numbers up to this are doubles, and print as integers. */
#define SCORE_WHOLE_MAX ((1LL << 53) - 1)
/* Minus zero. It is the number 0 in computing, and no whole number to be printed. */
#define SCORE_MINUS_ZERO (DOUBLE_SIGN - 1)

/* The place of the highest bit that is set; a number of up to 53 bits, not 0. */
static __always_inline u32 highest_bit(u64 number)
{
	u32 bit = 0;

	for (u32 step = 32; step; step /= 2) {
		if (number >> step) {
			number >>= step;
			bit += step;
		}
	}
	return bit;
}

/* A whole number as a sortable score. */
static __always_inline u64 score_of(s64 number)
{
	u64 magnitude = number < 0 ? -(u64)number : number, bits = 0;

	if (magnitude) {
		u32 high = highest_bit(magnitude) & 63;

		bits = magnitude << ((DOUBLE_FRACTION - high) & 63);
		bits &= (1ULL << DOUBLE_FRACTION) - 1;
		bits |= (u64)(high + DOUBLE_BIAS) << DOUBLE_FRACTION;
	}
	return number < 0 ? ~(bits | DOUBLE_SIGN) : bits | DOUBLE_SIGN;
}

/* The whole number that a sortable score is. False: it is none, or too large. */
static __always_inline bool score_whole(u64 sortable, s64 *number)
{
	bool negative = !(sortable & DOUBLE_SIGN);
	u64 bits = negative ? ~sortable : sortable, magnitude;
	u32 exponent = bits >> DOUBLE_FRACTION & 0x7ff, high = exponent - DOUBLE_BIAS;

	*number = 0;
	if (!(bits & ~DOUBLE_SIGN))
		return true;
	if (exponent < DOUBLE_BIAS || high > DOUBLE_FRACTION)
		return false;
	magnitude = (bits & ((1ULL << DOUBLE_FRACTION) - 1)) | 1ULL << DOUBLE_FRACTION;
	if (magnitude << ((12 + high) & 63) && high < DOUBLE_FRACTION)
		return false;
	magnitude >>= (DOUBLE_FRACTION - high) & 63;
	*number = negative ? -magnitude : magnitude;
	return true;
}

/* What a stored score is ordered by: minus zero as zero is. */
static __always_inline u64 score_order(u64 stored)
{
	return stored == SCORE_MINUS_ZERO ? SCORE_MINUS_ZERO + 1 : stored;
}

/* The score of the entry at *e of the run in the session, as it is stored. */
static __always_inline u64 entry_score(struct bpfdb_session *s, const struct packed_entry *e)
{
	const u8 *run = bpfdb_at(s->value[0]);

	return run ? load8(packed_bytes(run, packed_value_at(e))) : 0;
}

/*
 * The place of an entry with this score and key, of e->key_len bytes: *e is left at the first entry that
 * is not below it, or behind all. Its cut is 0.
 */
__noinline int packed_score_place(struct bpfdb_session *s NONNULL,
				  const struct packed_key *key NONNULL,
				  struct packed_entry *e NONNULL, u64 score)
{
	const struct packed *run = packed_header(s);

	e->cut = 0;
	e->at = PACKED_HEADER;
	if (!run)
		return 0;
	e->left = LOAD(run->count);
	repeat(i, PACKED_WALK_MAX)
	{
		u32 header;
		u64 other;

		if (!e->left)
			break;
		header = load4(packed_bytes((void *)run, e->at));
		other = score_order(load8(packed_bytes(
			(void *)run, e->at + PACKED_ENTRY + (header & PACKED_BYTES_MAX))));
		if (other > score ||
		    (other == score && !packed_key_below(s, key, e->at, e->key_len)))
			break;
		e->at += packed_size(header & PACKED_BYTES_MAX, header >> 16);
		e->left--;
	}
	return 0;
}

/* ---- Writing ------------------------------------------------------------- */

/* Map memory in which a score lies while its entry is written. */
struct scored {
	u64 score; /* sortable */
};

/* *e becomes what is written with this score. */
static __always_inline void scored_fill(struct packed_entry *e, struct scored *to, u64 score)
{
	to->score = score;
	e->value = (u64)&to->score;
	e->value_len = sizeof(to->score);
}

/* The same, and *e is left where an entry with this score and key is to stand among the others. */
static __always_inline void member_place(struct bpfdb_session *s, struct packed_entry *e,
					 const struct packed_key *key, struct scored *to, s64 score)
{
	u64 sortable = score_of(score);

	packed_score_place(s, key, e, sortable);
	scored_fill(e, to, sortable);
}

/*
 * What becomes of a member that gets the score *score, or with `adds` that much more, which then is
 * *score: OK, *e is to be put into the run; NOT_FOUND, the member stands elsewhere with its new score: *e
 * is to be taken out, and *moved is set; FOUND: nothing changes; or an Error. A new one is counted in
 * *added. What is no whole number, or too large, is LEFT_TO_USER_SPACE.
 */
static __always_inline enum bpfdb_status
member_step(struct bpfdb_session *s, struct packed_entry *e, const struct packed_key *key,
	    bool found, bool adds, struct scored *to, s64 *score, u32 *added, u32 *moved)
{
	enum bpfdb_status status = entry_place(s, key, e, found);
	u32 at, cut;
	s64 old;

	if (status >= BPFDB_FIRST_ERROR)
		return status;
	if (status == BPFDB_NOT_FOUND) {
		*added += 1;
		if (found)
			member_place(s, e, key, to, *score);
		else
			scored_fill(e, to, score_of(*score));
		return BPFDB_OK;
	}
	if (!score_whole(entry_score(s, e), &old))
		return LEFT_TO_USER_SPACE;
	if (adds)
		*score += old;
	if (*score > SCORE_WHOLE_MAX || *score < -SCORE_WHOLE_MAX)
		return LEFT_TO_USER_SPACE;
	if (*score == old)
		return BPFDB_FOUND;
	at = e->at;
	cut = e->cut;
	member_place(s, e, key, to, *score);
	*moved = e->at != at && e->at != at + cut;
	e->at = at;
	e->cut = cut;
	return *moved ? BPFDB_NOT_FOUND : BPFDB_OK;
}

/* Writes what member_step() came to: as in element.bpf.h. One that has moved is only taken out: the same
 * steps once more, without `adds`, put it in. */
static __always_inline enum bpfdb_status member_write(struct bpfdb_session *s,
						      const struct packed_entry *e, bool found,
						      enum bpfdb_status step)
{
	enum bpfdb_status status;

	if (step == BPFDB_OK)
		return packed_put(s, e, BPFDB_TYPE_SORTED_SET, found, false);
	if (step != BPFDB_NOT_FOUND)
		return step;
	status = packed_take(s, e, BPFDB_TYPE_SORTED_SET);
	/* The only member stands nowhere else. */
	return status == BPFDB_NOT_FOUND ? BPFDB_CORRUPT : status;
}

#endif
