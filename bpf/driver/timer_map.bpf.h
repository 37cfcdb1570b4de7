/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Where the timer of maintenance lies. Of timer.bpf.h, for what stops it and does not need what it calls.
 */
#ifndef BPFDB_DRIVER_TIMER_MAP_BPF_H
#define BPFDB_DRIVER_TIMER_MAP_BPF_H

#include <bpfdb/types.bpf.h>

struct maintenance {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct maintenance);
} maintenance SEC(".maps");

#endif
