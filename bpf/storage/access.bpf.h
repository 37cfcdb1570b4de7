/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * When a record was used, or how often: the access word in the head of a record without aux
 * block (include/bpfdb/abi.h). It serves to choose victims when memory is full, and OBJECT.
 *
 * Invariants
 *  1. An operator that notes an access changes the whole of `meta` by one CAS, and only if what stands
 *     there is an access word, or no word. A link has bit 63 clear and is not zero. So a link
 *     that another session has put there meanwhile stays, and so does the form.
 *  2. The word is a hint. It gets lost when a record gets an aux block.
 *  3. While the engine notes nothing (BPFDB_TRACKING_OFF), nothing is written: an operator
 *     compares one word that it has in its cache. With LRU it compares that word with the record's
 *     too, and writes only if they differ: a record that is used often is written every 17 ms.
 */
#ifndef BPFDB_ACCESS_BPF_H
#define BPFDB_ACCESS_BPF_H

#include "engine_state.bpf.h"

static __always_inline bool access_is_lfu(u64 word)
{
	u64 kind = BPFDB_ACCESS_WORD | BPFDB_ACCESS_LFU;

	return (word & kind) == kind;
}

/* Minutes since the machine was booted. */
static __always_inline u64 access_minute(void)
{
	return LOAD(engine.now.value) / BPFDB_ACCESS_MINUTE & BPFDB_ACCESS_MINUTE_MASK;
}

/* Redis's counter: it goes up with a probability that is the smaller, the greater it is. */
static __always_inline u64 counter_after(u64 counter)
{
	u64 above =
		counter > BPFDB_ACCESS_FREQUENCY_FIRST ? counter - BPFDB_ACCESS_FREQUENCY_FIRST : 0;
	u64 odds = above * LOAD(engine.lfu_log_factor) + 1;

	if (counter >= BPFDB_ACCESS_COUNTER_MASK || odds >> 32 ||
	    (bpf_get_prandom_u32() & 0xffffffffULL) * odds >> 32)
		return counter;
	return counter + 1;
}

/* And loses one for each period of minutes in which the record was not used. */
static __always_inline u64 counter_decayed(u64 counter, u64 minutes)
{
	u32 decay = LOAD(engine.lfu_decay);
	u64 lost = decay ? minutes / decay : 0;

	return lost < counter ? counter - lost : 0;
}

static __always_inline u64 access_word_lfu(u64 word)
{
	u64 counter = BPFDB_ACCESS_FREQUENCY_FIRST, now = access_minute(), then;

	if (access_is_lfu(word)) {
		then = word >> BPFDB_ACCESS_MINUTE_SHIFT & BPFDB_ACCESS_MINUTE_MASK;
		counter = word >> BPFDB_FORM_BITS & BPFDB_ACCESS_COUNTER_MASK;
		counter = counter_decayed(counter, (now - then) & BPFDB_ACCESS_MINUTE_MASK);
		counter = counter_after(counter);
	}
	return BPFDB_ACCESS_WORD | BPFDB_ACCESS_LFU | now << BPFDB_ACCESS_MINUTE_SHIFT |
	       counter << BPFDB_FORM_BITS;
}

/* What engine.access_now is to be: the timer keeps it so. */
static __always_inline u64 access_word_now(void)
{
	u64 now = LOAD(engine.now.value) >> BPFDB_ACCESS_UNIT_BITS & BPFDB_ACCESS_TIME_MASK;

	switch (LOAD(engine.tracking)) {
	case BPFDB_TRACKING_LRU: return BPFDB_ACCESS_WORD | now << BPFDB_FORM_BITS;
	case BPFDB_TRACKING_LFU: return BPFDB_ACCESS_COUNTED;
	default: return 0;
	}
}

static __always_inline void access_tick(void)
{
	u64 word = access_word_now();

	if (LOAD(engine.access_now) != word)
		STORE(engine.access_now, word);
}

/* The word of a record that is used now, `now` being engine.access_now, and had this word, or none (0).
 * Static: it is called in latched sections too. */
static __noinline u64 access_word_next(u64 now, u64 word)
{
	return now == BPFDB_ACCESS_COUNTED ? access_word_lfu(word) : now;
}

/* The word of a record that is made now: 0 if nothing is noted. */
static __always_inline u64 access_word_first(void)
{
	u64 now = LOAD(engine.access_now);

	return unlikely(now) ? access_word_next(now, 0) : 0;
}

/* What `meta` is, without the form, to a head that replaces it: a word stays. `is_link`: it is a
 * link, which stays too. */
static __always_inline u64 meta_kept(u64 meta, bool is_link)
{
	return is_link || (meta & BPFDB_ACCESS_WORD) ? meta & ~BPFDB_FORM_MASK : 0;
}

static __noinline int access_update(struct bpfdb_cell *cell)
{
	u64 meta = LOAD(cell->head.meta), now = LOAD(engine.access_now), next;

	if (!now || (!(meta & BPFDB_ACCESS_WORD) && meta >> BPFDB_FORM_BITS))
		return 0;
	next = access_word_next(now, meta) | (meta & BPFDB_FORM_MASK);
	if (next != meta)
		CAS(&cell->head.meta, meta, next);
	return 0;
}

/* The session looks the record in `cell` up. */
static __always_inline void access_note(const struct bpfdb_session *s, struct bpfdb_cell *cell)
{
	u64 now = LOAD(engine.access_now);

	if (likely(!now) || (LOAD(cell->head.meta) & ~BPFDB_FORM_MASK) == now || s->untracked)
		return;
	access_update(cell);
}

#endif
