/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What no operator does in passing: versions, deleted and expired records
 * of keys that are not written again, idle transactions, sessions whose close
 * could not be finished. Small steps, from a timer in the kernel or from user
 * space.
 */
#ifndef BPFDB_MAINTENANCE_BPF_H
#define BPFDB_MAINTENANCE_BPF_H

#include "expire.bpf.h"

/* ---- The sweeper ----------------------------------------------------------- */

#define EVER (~0ULL)

/* What one tick, or one call, sweeps. */
struct sweep {
	u64 horizon;  /* what expired by then goes */
	u64 due;      /* when the first of those that stay expires */
	u64 deadline; /* of CLOCK_MONOTONIC */
	u32 page;
	u32 left; /* index pages to sweep at most */
	u32 expired; /* records removed because their time was over */
	u32 start;   /* cell of a page to begin at */
};

static __always_inline bool cell_is_locked(u64 header)
{
	return header & (BPFDB_CELL_LATCH | BPFDB_CELL_EXCLUSIVE | BPFDB_CELL_FIELD_MASK);
}

/* The sweeper has to come back when this record has expired. */
static __always_inline void sweep_leaves(struct sweep *sweep, u64 header, struct bpfdb_cell *cell)
{
	u64 expires = LOAD(cell->head.data[1]);

	if ((header & BPFDB_CELL_USED) && form_expires(version_form(&cell->head)) &&
	    expires < sweep->due)
		sweep->due = expires;
}

/* Removes the record in a cell if no session has it: one that was deleted, or has expired.
 * True if it had expired. */
static __always_inline bool sweep_record(struct sweep *sweep, struct bpfdb_cell *cell, u64 address)
{
	u64 header = LOAD_ACQUIRE(cell->header);

	if (!(header & BPFDB_CELL_USED) || (header & BPFDB_CELL_AUX) || cell_is_locked(header))
		return false;
	if (unlikely(version_form(&cell->head) == BPFDB_ABSENT)) {
		COUNT(records_swept);
		record_give_up(address);
		return false;
	}
	return unlikely(cell_has_expired(cell, sweep->horizon)) && record_expire(address, header);
}

/* Prunes the version array of a cell. False: there is no time left for that. */
static __always_inline bool sweep_versions(struct sweep *sweep, u64 address)
{
	if (bpf_ktime_get_ns() > sweep->deadline) {
		garbage_left();
		return false;
	}
	history_prune(address, 0);
	return true;
}

/* Pages begin at any cell: where many records have versions that are needed, there
 * is no time for all of them. */
static long sweep_cell(u64 i, struct sweep *sweep)
{
	void *memory = page_memory(sweep->page);
	u64 index = (i + sweep->start) % BPFDB_CELLS_PER_PAGE, header;
	u64 address = cell_address(sweep->page, index);
	struct bpfdb_cell *cell;

	if (!memory)
		return 1;
	cell = cell_in(memory, index);
	header = LOAD(cell->header);
	if ((header & BPFDB_CELL_AUX) && !sweep_versions(sweep, address))
		return 1;
	if (sweep_record(sweep, cell, address))
		sweep->expired++;
	else
		sweep_leaves(sweep, LOAD(cell->header), cell);
	return 0;
}

/* Records that a split brings to a page behind the sweeper are found in the
 * next round, which comes after this at the latest; milliseconds. */
#define SWEEP_ROUND_MAX 60000

/* The beginning of a round. What it cannot remove, and what comes to be behind
 * it, counts itself again. */
static __always_inline void sweep_round(void)
{
	(void)SWAP(&engine.garbage.value, 0);
	(void)SWAP(&engine.expiry_due.value, EVER);
	STORE(engine.snapshots.swept, LOAD(engine.snapshots.ended));
}

/* The end of it. Two at the same time count as one. */
static __always_inline void sweep_round_ends(void)
{
	u64 rounds = LOAD(engine.snapshots.sweeping);

	STORE(engine.sweep_cursor.value, 0);
	expiry_due_at(time_now() + SWEEP_ROUND_MAX);
	if (rounds)
		CAS(&engine.snapshots.sweeping, rounds, rounds - 1);
}

/* False: this is no page of the index, or one without records. */
static __always_inline bool sweep_index_page(struct sweep *sweep)
{
	struct bpfdb_slab *slab = slab_of_page(sweep->page);

	if (!slab || LOAD_ACQUIRE(slab->class_) != BPFDB_PAGE_INDEX || !LOAD(slab->word))
		return false;
	sweep->start = bpf_get_prandom_u32() % BPFDB_CELLS_PER_PAGE;
	bpf_loop(BPFDB_CELLS_PER_PAGE, sweep_cell, sweep, 0);
	return true;
}

/* Sweeps the next page. False at the end of a round. */
static __always_inline bool sweep_page(struct sweep *sweep)
{
	u64 cursor = FETCH_ADD(&engine.sweep_cursor.value, 1), taken = engine.pages_taken.value;

	if (cursor >= taken) {
		sweep_round_ends();
		return 0;
	}
	/* Page 0 is no page. */
	if (!cursor)
		sweep_round();
	sweep->page = cursor;
	if (sweep_index_page(sweep))
		sweep->left--;
	return 1;
}

static long sweep_step(u64 i, struct sweep *sweep)
{
	u32 left = sweep->left;

	if (!sweep_page(sweep))
		return 1;
	return sweep->left != left && (!sweep->left || bpf_ktime_get_ns() > sweep->deadline);
}

/* Sweeps up to `pages` pages. */
static __always_inline void sweep_some(struct sweep *sweep, u32 pages)
{
	sweep->due = EVER;
	/* Unknown to the verifier, which would count it up. */
	sweep->expired = LOAD(engine.zero);
	bpf_loop(pages, sweep_step, sweep, 0);
	if (sweep->due != EVER)
		expiry_due_at(sweep->due);
}

static long sweep_one(u64 i, struct sweep *sweep)
{
	sweep->page++;
	sweep_index_page(sweep);
	return 0;
}

/* Sweeps `count` pages from `first` on, besides the rounds of the timer. */
static __always_inline void sweep_pages(struct sweep *sweep, u32 first, u32 count)
{
	sweep->due = EVER;
	sweep->deadline = EVER;
	sweep->page = first - 1;
	sweep->expired = LOAD(engine.zero);
	bpf_loop(count, sweep_one, sweep, 0);
	if (sweep->due != EVER)
		expiry_due_at(sweep->due);
}

/* Can versions be pruned that could not when the last round began? Or does it go on? */
static __always_inline bool versions_want_sweep(void)
{
	return LOAD(engine.versions.value) &&
	       (LOAD(engine.sweep_cursor.value) || snapshots_none() ||
		LOAD(engine.snapshots.ended) != LOAD(engine.snapshots.swept));
}

static __always_inline bool sweep_wanted(u64 horizon)
{
	if (LOAD(engine.garbage.value) || LOAD(engine.snapshots.sweeping) || versions_want_sweep())
		return true;
	/* A round that has begun must end: only then is it known what is due. */
	return LOAD(engine.expiring.value) &&
	       (LOAD(engine.sweep_cursor.value) || LOAD(engine.expiry_due.value) <= horizon);
}

/* ---- Sessions ------------------------------------------------------------ */

static __always_inline bool session_idle(const struct bpfdb_session *s, u64 now)
{
	if (!txn_is_open(LOAD(s->state)))
		return false;
	return config.idle_limit && now > s->last_active &&
	       now - s->last_active > config.idle_limit;
}

/* Asked again inside the session: it may have ended its transaction or begun another
 * since it was looked at, or have been freed and opened by another user. */
static __always_inline bool session_wants_reap(struct bpfdb_session *s, bool closing, u64 now)
{
	u32 in_use = LOAD_ACQUIRE(s->in_use);

	return closing ? session_use(in_use) == BPFDB_SESSION_CLOSING
		       : in_use && session_idle(s, now);
}

static __always_inline void session_reap(struct bpfdb_session *s, bool closing, u64 now)
{
	/* It is in use; there will be another round. */
	if (!session_enter_once(s))
		return;
	if (!session_wants_reap(s, closing, now)) {
		session_leave_as_guest(s, 0);
		return;
	}
	COUNT(sessions_reaped);
	if (closing) {
		session_end(s);
		return;
	}
	abandon_and_tell(s);
	session_leave_as_guest(s, 0);
}

struct reap {
	u64 now;
	u32 first;
	u32 stopped; /* 1: a session has a long list of locks, of which one step was made */
};

/* A list of locks that is released in steps, and is in the middle of that. The next tick goes on
 * with it. */
static __always_inline bool reap_goes_on(struct bpfdb_session *s, u32 number)
{
	if (!txn_is_unfinished(LOAD(s->state)) || !LOAD(s->release_next))
		return false;
	STORE(engine.reap_cursor.value, number);
	return true;
}

static long reap_session(u64 i, struct reap *reap)
{
	struct bpfdb_session *s = bpfdb_session((reap->first + i) % config.sessions);
	u32 in_use = s ? LOAD_ACQUIRE(s->in_use) : 0;

	if (!in_use)
		return 0;
	if (session_use(in_use) == BPFDB_SESSION_CLOSING)
		session_reap(s, true, reap->now);
	else if (session_idle(s, reap->now))
		session_reap(s, false, reap->now);
	else if (txn_is_unfinished(LOAD(s->state)))
		bpfdb_settle(s);
	else
		return 0;
	reap->stopped = reap_goes_on(s, reap->first + i);
	return reap->stopped;
}

#define REAP_STEP 256

/* True: the next tick is to come soon. */
static __always_inline bool reap_some(u64 now)
{
	struct reap reap = {
		.now = now,
		.first = FETCH_ADD(&engine.reap_cursor.value, REAP_STEP) % config.sessions,
	};

	bpf_loop(config.sessions < REAP_STEP ? config.sessions : REAP_STEP, reap_session, &reap, 0);
	return reap.stopped;
}

/* ---- The timer ------------------------------------------------------------ */

#define MAINTENANCE_PERIOD 10000000ULL /* 10 ms */
/* Of a tick: index pages swept, pages looked at, nanoseconds after which no
 * further page is begun. */
#define SWEEP_PAGES_PER_TICK 16
#define SWEEP_LOOKS_PER_TICK 1024
#define SWEEP_TIME_PER_TICK 300000ULL
/* A tick that removed more expired records than this is followed by the next one
 * sooner: the sweeper must keep up with clients that set them, and may take a
 * quarter of a core for it. */
#define SWEEP_MANY 256
#define MAINTENANCE_PERIOD_BUSY 1000000ULL /* 1 ms */

/* One tick; nanoseconds until the next one. */
static __always_inline u64 maintenance_step(void)
{
	u64 now = bpf_ktime_get_ns();
	struct sweep sweep = {
		.deadline = now + SWEEP_TIME_PER_TICK,
		.left = SWEEP_PAGES_PER_TICK,
	};

	bool reaps;

	STORE(engine.now.value, now);
	access_tick();
	reaps = reap_some(now);
	large_collect(COLLECT_SOME);
	sweep.horizon = horizon_known();
	if (sweep_wanted(sweep.horizon))
		sweep_some(&sweep, SWEEP_LOOKS_PER_TICK);
	return reaps || sweep.expired > SWEEP_MANY || LOAD(engine.large_garbage.value)
		       ? MAINTENANCE_PERIOD_BUSY
		       : MAINTENANCE_PERIOD;
}

#endif
