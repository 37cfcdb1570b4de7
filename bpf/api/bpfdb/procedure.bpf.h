/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Calls of compiled procedures by a program that embeds bpfdb: XDP, tc, sk_msg, sk_skb, kprobes,
 * tracepoints, perf events. (Not fentry and LSM, which belong to one function of the kernel.)
 * User space publishes functions of Lua by number (bpfdb_procedures::embedded), and replaces
 * them while they are called.
 *
 *   struct bpfdb_frame *f = bpfdb_call_begin();
 *
 *   if (!f)
 *           return XDP_PASS;                       all frames are taken
 *   bpfdb_call_key(f, &source, sizeof(source));
 *   bpfdb_call_argument_number(f, LIMIT);
 *   if (bpfdb_call(ctx, f, session, ALLOW) == 0 && bpfdb_reply_number(f, 0, 1) == 0)
 *           action = XDP_DROP;
 *   bpfdb_call_end(f);
 *
 * A call is a transaction of its own in the caller's session, which has none open. With an
 * outcome that is not 0 it has left nothing.
 *
 * Rules
 *  1. bpfdb_call() makes up to BPFDB_CALL_TRIES tail calls, of the 33 that the kernel allows a
 *     program. It is called from the program itself or from one subprogram: all callers together
 *     have 256 bytes of stack.
 *  2. Not within bpf_preempt_disable(), a lock, or bpf_rcu_read_lock(): the verifier refuses
 *     tail calls there.
 *  3. A program that may interrupt another one has a session of its own (docs/embedding.md); it
 *     gets a frame of its own by bpfdb_call_begin().
 *  4. Every frame that was begun is ended, on each path: nothing else gives it back.
 */
#ifndef BPFDB_PROCEDURE_BPF_H
#define BPFDB_PROCEDURE_BPF_H

#include "bpfdb.bpf.h"
#include "../../procedures/embedded.bpf.h"
#include "../../procedures/number.bpf.h"

/* Tail calls of one call: after the first one only if the function was replaced at that moment,
 * or the task was preempted. */
#define BPFDB_CALL_TRIES 4

/* The programs, by slot. Slot 0 is empty. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, BPFDB_PROCEDURE_SLOTS);
	__type(key, u32);
	__type(value, u32);
} bpfdb_procedures SEC(".maps");

/* What the application's numbers stand for: see BPFDB_FUNCTION. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BPFDB_FUNCTIONS_MAX);
	__type(key, u32);
	__type(value, u64);
} bpfdb_functions SEC(".maps");

/* ---- Before the call -------------------------------------------------------- */

/* A frame without keys and arguments, to be ended by bpfdb_call_end(); NULL if all are taken. */
static __always_inline struct bpfdb_frame *bpfdb_call_begin(void)
{
	u32 number;
	struct bpfdb_frame *f = frame_claim(&number);

	if (!f)
		return NULL;
	f->number = number;
	f->keys = 0;
	f->arguments = 0;
	f->heap_begin = BPFDB_CALL_LITERALS;
	f->lacks_words = 0;
	f->outcome = BPFDB_DEOPTIMISATION_MISSED;
	return f;
}

static __always_inline void bpfdb_call_end(struct bpfdb_frame *f)
{
	frame_release(f);
}

/* Room for a key or an argument, behind those that there are. The place in the heap, or
 * HEAP_FULL. */
static __always_inline u32 call_room(struct bpfdb_frame *f, u32 len)
{
	u32 place;

	/* What an earlier call with this frame has made is given up. */
	f->heap_used = f->heap_begin;
	place = heap_take(f, len);
	if (place == HEAP_FULL || place + len > BPFDB_CALL_LITERALS + BPFDB_CALL_WORDS_BYTES)
		return HEAP_FULL;
	return place;
}

/* Copies up to 28 KiB from any memory of the kernel that the caller may read: its stack, a map,
 * a packet. The place in the heap, or HEAP_FULL. */
static __always_inline u32 call_copy(struct bpfdb_frame *f, const void *from, u32 len)
{
	u32 place = call_room(f, len);

	OPAQUE(len);
	if (place == HEAP_FULL || len > BPFDB_CALL_TEXT_MAX ||
	    bpf_probe_read_kernel(heap_at(f, place), len, from))
		return HEAP_FULL;
	return place;
}

/* One that is missing would let those behind it take its place: the call is not made. */
static __always_inline bool call_lacks_word(struct bpfdb_frame *f)
{
	f->lacks_words = 1;
	return false;
}

static __always_inline bool call_key_add(struct bpfdb_frame *f, u32 place, u32 len)
{
	u64 at = f->keys;

	if (place == HEAP_FULL || at >= BPFDB_CALL_WORDS)
		return call_lacks_word(f);
	OPAQUE(at);
	f->key_words[at & (BPFDB_CALL_WORDS - 1)] = text_of(place, len);
	f->keys++;
	f->heap_begin = f->heap_used;
	return true;
}

static __always_inline bool call_argument_add(struct bpfdb_frame *f, u32 place, u32 len)
{
	u64 at = f->arguments;

	if (place == HEAP_FULL || at >= BPFDB_CALL_WORDS)
		return call_lacks_word(f);
	OPAQUE(at);
	f->argument_words[at & (BPFDB_CALL_WORDS - 1)] = text_of(place, len);
	f->arguments++;
	f->heap_begin = f->heap_used;
	return true;
}

/* The next key: `len` bytes, of any kernel memory. False: keys and arguments have more than
 * 28 KiB together, or there are 64 keys already, or the memory cannot be read; then the frame's
 * calls are given up (HEAP), whether the caller looks at this or not. */
static __always_inline bool bpfdb_call_key(struct bpfdb_frame *f, const void *from, u32 len)
{
	return call_key_add(f, call_copy(f, from, len), len);
}

/* The next argument; likewise. */
static __always_inline bool bpfdb_call_argument(struct bpfdb_frame *f, const void *from, u32 len)
{
	return call_argument_add(f, call_copy(f, from, len), len);
}

/* The next argument: a number in digits. */
static __always_inline bool bpfdb_call_argument_number(struct bpfdb_frame *f, s64 number)
{
	u32 place = call_room(f, 24);

	if (place == HEAP_FULL)
		return call_lacks_word(f);
	return call_argument_add(f, place, number_to_heap(f, place, number));
}

/* ---- The call --------------------------------------------------------------- */

/* Returns when the procedure has ended, or at once if there is none in this slot. */
static __noinline int call_enter(void *ctx, u32 slot)
{
	int missed = 1;

	bpf_tail_call(ctx, &bpfdb_procedures, slot);
	/* Else clang would have the callers take it for a constant. */
	OPAQUE(missed);
	return missed;
}

/* Enters the function once. True: it was executed, and the outcome is that. */
static __always_inline bool call_once_entered(void *ctx, struct bpfdb_frame *f, u64 what)
{
	u32 *place = call_place_here(), before;

	if (!place)
		return false;
	f->function = BPFDB_FUNCTION_BODY(what);
	f->reads = BPFDB_FUNCTION_READS(what);
	/* All of the call before the program that enters for it. */
	STORE_RELEASE(f->busy, BPFDB_FRAME_READY);
	before = LOAD(*place);
	STORE(*place, f->number + 1);
	call_enter(ctx, BPFDB_FUNCTION_SLOT(what));
	STORE(*place, before);
	return SWAP(&f->busy, BPFDB_FRAME_CLAIMED) == BPFDB_FRAME_RUNNING;
}

/*
 * Calls the function that user space has published by this number, with the keys and arguments of
 * the frame, in the caller's session. 0: the reply is in the frame, and all is committed. Else an
 * Error of the engine (enum bpfdb_status; CONFLICT after 64 attempts; SESSION_BUSY if the reaper
 * stayed in the session, as every operator says until it has left), or why the call was given up
 * (enum bpfdb_deoptimisation): MISSED if there is no such function, or if it was replaced, or the
 * task preempted, at the moment of each of BPFDB_CALL_TRIES entries. A frame may be used for
 * several calls, with the same keys and arguments and more; each makes the reply of the one before
 * it invalid, and so does adding a key or an argument.
 */
static __always_inline u32 bpfdb_call(void *ctx, struct bpfdb_frame *f, struct bpfdb_session *s,
				      u32 function)
{
	f->session = s->index;
	f->conflicts = 0;
	f->outcome = f->lacks_words ? BPFDB_DEOPTIMISATION_HEAP : BPFDB_DEOPTIMISATION_MISSED;
	if (f->lacks_words)
		return f->outcome;
	f->task = bpf_get_current_task();
	for (u32 i = 0; i < BPFDB_CALL_TRIES; i++) {
		/* Anew for each: it may have been replaced. */
		u64 *what = bpf_map_lookup_elem(&bpfdb_functions, &function);

		if (!what || !LOAD(*what) || call_once_entered(ctx, f, LOAD(*what)))
			break;
	}
	/* The next one to have the frame is another task, perhaps, and this one might find it. */
	STORE(f->task, 0);
	return f->outcome;
}

/* ---- The reply, after outcome 0 ---------------------------------------------- */

/* How many values it has; a list ends at its first nil all the same. */
static __always_inline u32 bpfdb_reply_count(struct bpfdb_frame *f)
{
	return f->replies;
}

/* What the value number `i` is: enum bpfdb_tag. BPFDB_TAG_NIL if there is none. */
static __always_inline u32 bpfdb_reply_tag(struct bpfdb_frame *f, u64 i)
{
	if (i >= f->replies)
		return BPFDB_TAG_NIL;
	OPAQUE(i);
	return f->reply_tags[i & (BPFDB_CALL_REPLIES - 1)];
}

/* It as a number: 1 if it is true, `otherwise` if it is neither that nor a number. */
static __always_inline s64 bpfdb_reply_number(struct bpfdb_frame *f, u64 i, s64 otherwise)
{
	u32 tag = bpfdb_reply_tag(f, i);

	OPAQUE(i);
	if (tag == BPFDB_TAG_INTEGER)
		return f->reply_values[i & (BPFDB_CALL_REPLIES - 1)];
	return tag == BPFDB_TAG_TRUE ? 1 : otherwise;
}

/* The bytes of a text, a status or an error, and how many they are; NULL if it is none. 28 KiB
 * may be read there. */
static __always_inline const void *bpfdb_reply_text(struct bpfdb_frame *f, u64 i, u32 *len)
{
	u64 value;

	*len = 0;
	if (bpfdb_reply_tag(f, i) < BPFDB_TAG_TEXT)
		return NULL;
	OPAQUE(i);
	value = f->reply_values[i & (BPFDB_CALL_REPLIES - 1)];
	*len = text_len(value);
	return heap_at(f, (u32)value);
}

#endif
