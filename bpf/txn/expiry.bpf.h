/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Expiry: a version may have a time from which on it counts as absent. It is a
 * property of the version, so SET, COMMIT, ROLLBACK, history and splits handle
 * it as they handle the value (docs/decisions/0006-expiry.md).
 *
 * Invariants
 *  1. What a version consists of is asked here, of its form: no other code
 *     compares lengths to distinguish an inline value from one in a slot.
 *  2. A transaction judges all versions by one time: a read-only one by that of
 *     its BEGIN, a read-write one by that of the first version that it had to
 *     judge. Without a transaction each operator has its own.
 *  3. A session publishes that time, TIME_STARTING before it reads the clock.
 *     So the oldest published time (engine.horizon) has no open transaction
 *     before it, and none will come: what expired by then is invisible to all.
 *  4. engine.expiring counts the versions with an expiry, wherever they are. It
 *     is raised before such a version is pending anywhere.
 */
#ifndef BPFDB_EXPIRY_BPF_H
#define BPFDB_EXPIRY_BPF_H

#include "session.bpf.h"

_Static_assert(BPFDB_VALUE_MAX < BPFDB_EXPIRES, "the flag is no length");
_Static_assert(BPFDB_VALUE_MAX <= BPFDB_FORM_LENGTH_MASK, "a length has room for any");

/* ---- Forms ---------------------------------------------------------------- */

static __always_inline bool form_expires(u32 form)
{
	return form >= BPFDB_EXPIRES && form != BPFDB_ABSENT;
}

/* Is the value a large one? Not if the form is ABSENT, which has all bits. */
static __always_inline bool form_is_large(u32 form)
{
	return (form & (BPFDB_LARGE | 1ULL << BPFDB_FORM_ZERO_BIT)) == BPFDB_LARGE;
}

/* The form without its time: the length of a string; or more than BPFDB_VALUE_MAX: length and type
 * of a value that is no string, BPFDB_LARGE and the type of a large one. The form is not ABSENT. */
static __always_inline u32 form_length(u32 form)
{
	return form & (BPFDB_EXPIRES - 1);
}

/* Bytes of a value that is not large. */
static __always_inline u32 form_bytes(u32 form)
{
	return form & BPFDB_FORM_LENGTH_MASK;
}

static __always_inline u32 form_type(u32 form)
{
	return form >> BPFDB_FORM_LENGTH_BITS & BPFDB_FORM_TYPE_MASK;
}

/* Is this the number of a type other than a string? */
static __always_inline bool type_is_known(u32 type)
{
	return (type >= BPFDB_TYPE_HASH && type < BPFDB_TYPE_COUNT) || type == BPFDB_TYPE_TEST;
}

/* Is this, without BPFDB_EXPIRES, the form of a value that is no string, be it large or not? */
static __always_inline bool form_is_typed(u32 form)
{
	return type_is_known(form_type(form)) && form < BPFDB_EXPIRES &&
	       !(form >> BPFDB_FORM_ZERO_BIT & 1);
}

static __always_inline u32 version_form(const struct bpfdb_version *v)
{
	return LOAD(v->meta) & BPFDB_FORM_MASK;
}

/* Gives up what a version of this form holds; data is its data[0]. */
static __always_inline void version_dispose(u32 form, u64 data)
{
	if (likely(form <= BPFDB_INLINE_MAX) || form == BPFDB_ABSENT)
		return;
	if (unlikely(form >= BPFDB_LARGE)) {
		if (form >= BPFDB_EXPIRES)
			ADD(&engine.expiring.value, -1);
		if (form_length(form) <= BPFDB_INLINE_EXPIRING_MAX)
			return;
		if (form_is_large(form)) {
			bpfdb_large_free(data);
			return;
		}
	}
	bpfdb_slot_free(data);
}

/* ---- Time ----------------------------------------------------------------- */

/* Published while a session is reading the clock: before any other time. */
#define TIME_STARTING 1

/*
 * UNIX time, milliseconds. CLOCK_BOOTTIME goes on at its rate, whatever is done to the
 * others: CLOCK_TAI is 37 s ahead at once when a time daemon sets the kernel's count of leap
 * seconds, CLOCK_REALTIME can be set. What is between it and UNIX time changes
 * only when user space says so.
 */
static __always_inline u64 time_now(void)
{
	u64 fixed = LOAD(engine.time.fixed);

	return fixed ?: (bpf_ktime_get_boot_ns() + LOAD(engine.time.offset)) / 1000000;
}

/* The time by which the session judges now. */
static __always_inline u64 session_time(struct bpfdb_session *s)
{
	if (s->state != BPFDB_TXN_WRITE && s->state != BPFDB_TXN_READ)
		return time_now();
	if (!s->time) {
		/* Atomic: it must be seen before the clock is read. */
		(void)SWAP(&s->time, TIME_STARTING);
		STORE(s->time, time_now());
	}
	return s->time;
}

/* Does a version of this form, with this data[1], count as absent? */
static __always_inline bool form_is_gone(struct bpfdb_session *s, u32 form, u64 expires)
{
	if (likely(form < BPFDB_EXPIRES))
		return false;
	return form == BPFDB_ABSENT || expires <= session_time(s);
}

/* The sweeper is to come by at this time. Unsuccessful, it comes too early. */
static __always_inline void expiry_due_at(u64 time)
{
	repeat(i, BPFDB_TRIES)
	{
		u64 due = LOAD(engine.expiry_due.value);

		if (due <= time || CAS(&engine.expiry_due.value, due, time) == due)
			return;
	}
	STORE(engine.expiry_due.value, 0);
}

#endif
