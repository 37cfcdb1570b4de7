/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* When values expire, as commands say it and as replies have it. */
#ifndef BPFDB_VALUES_EXPIRY_BPF_H
#define BPFDB_VALUES_EXPIRY_BPF_H

#include "../operators/common.bpf.h"

/* Times of commands from here on are left to user space: some are no 64-bit number in
 * milliseconds. */
#define TIME_LIMIT (1LL << 50)

/* What a time counts, in milliseconds. */
enum { TIME_SECONDS = 1000, TIME_MILLISECONDS = 1 };

/* Can the kernel work with this time of a command? */
static __always_inline bool time_fits(s64 time)
{
	return time > 0 && time < TIME_LIMIT;
}

/* When a value expires whose time, one that fits, is counted from `now`, or from 0. */
static __always_inline u64 time_to_expiry(s64 time, u32 unit, u64 now)
{
	return time * unit + now;
}

/* TTL and its kin, if GET has found nothing. */
#define TIME_OF_NOTHING -2

/* The same if GET has found something: its time, in units, counted from `now`, or from 0; -1 if
 * it does not expire. */
static __always_inline s64 expiry_to_time(const struct bpfdb_session *s, u32 unit, u64 now)
{
	u64 expires = s->found_expires, left;

	if (!expires)
		return -1;
	left = expires > now ? expires - now : 0;
	/* Rounded, as Redis does. */
	return unit == TIME_SECONDS ? (left + 500) / 1000 : left;
}

#endif
