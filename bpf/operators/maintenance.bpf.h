/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What nobody's operator does in passing: versions and deleted records of keys
 * that are not written again, idle transactions, sessions whose close could not
 * be finished. Small steps, from a timer in the kernel or from user space.
 */
#ifndef BPFDB_MAINTENANCE_BPF_H
#define BPFDB_MAINTENANCE_BPF_H

#include "transaction.bpf.h"

/* A cell that may hold versions or a deletion that nobody needs any more. */
static __always_inline bool cell_wants_sweep(u64 header, const struct bpfdb_cell *cell)
{
	if ((header & (BPFDB_CELL_USED | BPFDB_CELL_LATCH | BPFDB_CELL_EXCLUSIVE)) !=
		    BPFDB_CELL_USED ||
	    (header & BPFDB_CELL_FIELD_MASK))
		return false;
	return (header & BPFDB_CELL_AUX) || version_len(&cell->head) == BPFDB_ABSENT;
}

static long sweep_cell(u64 index, u32 *page)
{
	void *memory = page_memory(*page);
	u64 address = cell_address(*page, index), header;
	struct bpfdb_cell *cell;
	u32 head_needed = 0;

	if (!memory)
		return 1;
	cell = cell_in(memory, index);
	header = LOAD(cell->header);
	if (likely(!cell_wants_sweep(header, cell)))
		return 0;
	if (CAS(&cell->header, header, header | BPFDB_CELL_LATCH) != header)
		return 0;
	history_prune(address, &head_needed);
	cell_aux_drop_empty(cell);
	COUNT(records_swept);
	cell_settle(cell, address, cell_hash(cell));
	return 0;
}

/* Sweeps the next page. False at the end of a round. */
static __always_inline bool sweep_page(void)
{
	u64 cursor = FETCH_ADD(&engine.sweep_cursor.value, 1), taken = engine.pages_taken.value;
	struct bpfdb_slab *slab;
	u32 page;

	if (cursor >= taken) {
		STORE(engine.sweep_cursor.value, 0);
		return 0;
	}
	/* Page 0 is no page: the round begins. What it cannot remove, and what is
	 * left behind it meanwhile, counts itself again. */
	if (!cursor)
		(void)SWAP(&engine.garbage.value, 0);
	page = cursor;
	slab = slab_of_page(page);
	if (slab && LOAD(slab->class_) == BPFDB_PAGE_INDEX && LOAD(slab->word))
		bpf_loop(BPFDB_CELLS_PER_PAGE, sweep_cell, &page, 0);
	return 1;
}

static __always_inline bool sweep_wanted(void)
{
	return LOAD(engine.versions.value) || LOAD(engine.garbage.value);
}

static long sweep_step(u64 i, void *unused)
{
	return !sweep_page();
}

/* ---- Sessions ------------------------------------------------------------ */

static __always_inline bool session_idle(const struct bpfdb_session *s, u64 now)
{
	u8 state = LOAD(s->state);

	if (state != BPFDB_TXN_WRITE && state != BPFDB_TXN_READ && state != BPFDB_TXN_FAILED)
		return false;
	return config.idle_limit && now > s->last_active &&
	       now - s->last_active > config.idle_limit;
}

static __always_inline void session_reap(struct bpfdb_session *s, bool closing, u64 now)
{
	if (!session_enter(s))
		return;
	/* It may have ended its transaction, or begun another, since. */
	if (!closing && !session_idle(s, now)) {
		session_leave(s, 0);
		return;
	}
	abandon(s);
	if (!closing && s->state == BPFDB_TXN_NONE)
		s->state = BPFDB_TXN_EXPIRED;
	COUNT(sessions_reaped);
	session_leave(s, 0);
	if (closing && s->state == BPFDB_TXN_NONE)
		STORE(s->in_use, 0);
}

struct reap {
	u64 now;
	u32 first;
};

static long reap_session(u64 i, struct reap *reap)
{
	struct bpfdb_session *s = bpfdb_session((reap->first + i) % config.sessions);
	u32 in_use = s ? LOAD(s->in_use) : 0;

	if (!in_use)
		return 0;
	if (in_use == BPFDB_SESSION_CLOSING)
		session_reap(s, true, reap->now);
	else if (session_idle(s, reap->now))
		session_reap(s, false, reap->now);
	else if (LOAD(s->state) == BPFDB_TXN_FINISHING && session_enter(s)) {
		txn_finish(s);
		session_leave(s, 0);
	}
	return 0;
}

#define REAP_STEP 256

static __always_inline void reap_some(u64 now)
{
	struct reap reap = {
		.now = now,
		.first = FETCH_ADD(&engine.reap_cursor.value, REAP_STEP) % config.sessions,
	};

	bpf_loop(config.sessions < REAP_STEP ? config.sessions : REAP_STEP, reap_session, &reap, 0);
}

/* ---- The timer ------------------------------------------------------------ */

#define MAINTENANCE_PERIOD 10000000ULL /* 10 ms */
#define SWEEP_PAGES_PER_TICK 16

static __always_inline void maintenance_step(void)
{
	u64 now = bpf_ktime_get_ns();

	STORE(engine.now.value, now);
	reap_some(now);
	if (sweep_wanted())
		bpf_loop(SWEEP_PAGES_PER_TICK, sweep_step, NULL, 0);
}

#endif
