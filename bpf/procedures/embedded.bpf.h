/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Calls by programs that run the engine themselves (bpf/api/bpfdb/procedure.bpf.h): how the
 * caller and the program that it enters agree on a frame.
 *
 * A procedure is entered by a tail call, which hands over nothing but the context of the
 * caller's own type. So the frame is named by a place of the processor, `call_place`.
 *
 *   FREE ──frame_claim──► CLAIMED ──bpfdb_call──► READY ──frame_entered──► RUNNING
 *    ▲                    │    ▲                    │ not entered             │
 *    └──bpfdb_call_end────┘    └────────────────────┴─────────────────────────┘ bpfdb_call
 *
 * Invariants
 *  1. A program that makes a frame READY runs with migration off, as all programs do, and stores the
 *     frame's number in the place of its processor before it enters. Afterwards it puts back
 *     what it found there.
 *  2. On one processor, what interrupts a program ends before the program goes on. So an
 *     interrupt finds the place as it likes, and leaves it as it was.
 *  3. Tasks do not: on a kernel that preempts, a task may lose the processor between storing
 *     and entering, another one may store there, and they may end in any order. Then one of them
 *     enters with the number of the other's frame, or with an old one. So a frame that is READY
 *     names the task that made it so, and it is not run for another task: a program that finds such
 *     a frame leaves it alone. Before and after a call it names none, so that no task ever finds
 *     itself in a frame that another one is about to make READY. Its caller sees that its own frame was not entered, and tries
 *     again.
 *  4. A frame is entered once: READY becomes RUNNING by one compare-and-swap. Whatever the
 *     place says, no call is executed twice.
 */
#ifndef BPFDB_PROCEDURES_EMBEDDED_BPF_H
#define BPFDB_PROCEDURES_EMBEDDED_BPF_H

#include "frame.bpf.h"

/* Number of the frame that is to be entered, + 1. Caller and procedure share it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} call_place SEC(".maps");

static __always_inline u32 *call_place_here(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&call_place, &zero);
}

/* The frame that this program was entered for, which is its own from here on; NULL if there is
 * none. */
static __always_inline struct bpfdb_frame *frame_entered(void)
{
	u32 *place = call_place_here();
	struct bpfdb_frame *f = place ? frame_at(LOAD(*place) - 1) : NULL;

	if (!f || LOAD(f->task) != bpf_get_current_task())
		return NULL;
	if (CAS(&f->busy, BPFDB_FRAME_READY, BPFDB_FRAME_RUNNING) != BPFDB_FRAME_READY)
		return NULL;
	return f;
}

#endif
