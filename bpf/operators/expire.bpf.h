/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Memory of what has expired comes back, also if it is not asked for again. The
 * sweeper (maintenance.bpf.h) removes a record when
 *
 *   - its time is not after the horizon: the oldest time by which an open
 *     transaction judges, or will (txn/expiry.bpf.h). So it is absent for
 *     every reader, whichever version its snapshot sees;
 *   - it has no history: a snapshot before the expired version still sees an
 *     older one, and one behind it would, if the newer one were gone;
 *   - it is not locked, and it is latched now.
 *
 * No reader can distinguish the record from its absence then, so its removal needs no
 * timestamp and no commit word.
 */
#ifndef BPFDB_EXPIRE_BPF_H
#define BPFDB_EXPIRE_BPF_H

#include "transaction.bpf.h"

/* ---- The horizon ----------------------------------------------------------- */

struct horizon {
	u64 oldest;
	u32 first; /* session */
};

static long horizon_session(u64 i, struct horizon *h)
{
	struct bpfdb_session *s = bpfdb_session(h->first + i);
	u64 time = s ? LOAD(s->time) : 0;

	if (time && time < h->oldest)
		h->oldest = time;
	return !s;
}

/* Of all sessions, at once. */
static __always_inline u64 horizon_now(void)
{
	struct horizon h = {.oldest = time_now()};

	bpf_loop(config.sessions, horizon_session, &h, 0);
	return h.oldest;
}

#define HORIZON_STEP 256

/* The same for the timer: some sessions per tick, then a new horizon. A session
 * that takes its time after it was looked at takes a later one than the clock
 * had at the beginning of the round. */
static __always_inline void horizon_advance(void)
{
	struct bpfdb_horizon *horizon = &engine.horizon;
	struct horizon h = {};
	u64 now = time_now();

	/* The clock was set back: what is alive by it may be over by the horizon. */
	if (now < horizon->oldest || now < horizon->value) {
		horizon->next = 0;
		STORE(horizon->value, 0);
	}
	h.oldest = horizon->oldest;
	h.first = horizon->next;
	if (!h.first)
		h.oldest = time_now();
	bpf_loop(HORIZON_STEP, horizon_session, &h, 0);
	horizon->oldest = h.oldest;
	horizon->next = h.first + HORIZON_STEP;
	if (horizon->next < config.sessions)
		return;
	horizon->next = 0;
	STORE(horizon->value, h.oldest);
}

/* For the timer. While a test has stopped the clock, it says when to sweep. */
static __always_inline u64 horizon_known(void)
{
	if (LOAD(engine.time.fixed))
		return 0;
	/* Nothing expires, and what begins to is judged by the next horizon: this one may be of
	 * a clock that was set back since. */
	if (!LOAD(engine.expiring.value))
		return 0;
	horizon_advance();
	return LOAD(engine.horizon.value);
}

/* ---- Removal ---------------------------------------------------------------- */

static __always_inline bool cell_has_expired(const struct bpfdb_cell *cell, u64 horizon)
{
	return form_expires(version_form(&cell->head)) && LOAD(cell->head.data[1]) <= horizon;
}

/*
 * Removes the record at `address` with this header, which has expired, if no session has
 * come to it since. 1 if it is gone.
 */
__noinline int record_expire(u64 address, u64 header)
{
	struct bpfdb_cell *cell = bpfdb_at(address);
	u64 data;
	u32 form;

	if (!cell)
		return 0;
	form = version_form(&cell->head);
	data = cell->head.data[0];
	if (!record_take_out(cell, address, header))
		return 0;
	version_dispose(form, data);
	COUNT(records_expired);
	return 1;
}

#endif
