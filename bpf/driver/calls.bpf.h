/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Calls of compiled procedures from user space: BPF_PROG_RUN executes those in an io buffer
 * (struct bpfdb_calls), one or a batch.
 *
 * Invariants
 *  1. Each call is a transaction of its own. One whose reply has the outcome 0 has committed,
 *     any other has left nothing.
 *  2. `at` is the first call without a reply: user space goes on there. Nothing is executed
 *     twice.
 *  3. A call is executed only if the longest reply has room.
 *  4. A run ends: its calls take fuel that all of them share, and their number is bounded.
 *
 * The verifier allows eight frames, and a procedure needs seven below the program. So the loop
 * stands in the program, and what it has to remember in the buffer: the stack is short.
 */
#ifndef BPFDB_DRIVER_CALLS_BPF_H
#define BPFDB_DRIVER_CALLS_BPF_H

#include "../operators/depends.bpf.h"
#include "../procedures/body.bpf.h"
#include "io.bpf.h"

/* Fuel that a call takes from the run besides its own: for being there. */
#define CALL_FUEL_LEAST 20

/* ---- From the buffer into the frame --------------------------------------- */

/* Keys and arguments become texts, one behind the other from the literals on, by their
 * lengths. False: they are not what the call says. */
static __always_inline bool words_place(struct bpfdb_frame *f, const u32 *lengths, u32 all,
					u32 bytes)
{
	f->heap_used = BPFDB_CALL_LITERALS;
	f->place = 0;
	repeat(i, 2 * BPFDB_CALL_WORDS)
	{
		u64 at = f->place;
		u32 len;

		if (at >= all)
			break;
		f->place = at + 1;
		OPAQUE(at);
		at &= 2 * BPFDB_CALL_WORDS - 1;
		len = lengths[at];
		if (len > BPFDB_CALL_WORDS_BYTES)
			return false;
		if (at < f->keys) {
			f->key_words[at & (BPFDB_CALL_WORDS - 1)] = text_of(f->heap_used, len);
		} else {
			at -= f->keys;
			OPAQUE(at);
			f->argument_words[at & (BPFDB_CALL_WORDS - 1)] = text_of(f->heap_used, len);
		}
		f->heap_used += (len + 7) & ~7u;
	}
	f->heap_begin = f->heap_used;
	return f->heap_used == BPFDB_CALL_LITERALS + bytes;
}

/* The call at this offset of the buffer. False: it is none. */
static __always_inline bool call_load(struct bpfdb_frame *f, u32 buffer, u32 offset)
{
	struct bpfdb_call *call = io_at(buffer, offset);
	u32 all, bytes;
	void *words;

	if (!call || call->keys > BPFDB_CALL_WORDS || call->arguments > BPFDB_CALL_WORDS)
		return false;
	f->function = call->function;
	f->reads = call->reads;
	f->keys = call->keys;
	f->arguments = call->arguments;
	all = call->keys + call->arguments;
	bytes = call->bytes;
	if (!words_place(f, (u32 *)(call + 1), all, bytes))
		return false;
	words = io_at(buffer, offset + sizeof(*call) + ((all * sizeof(u32) + 7) & ~7u));
	OPAQUE(bytes);
	if (!words || bytes > BPFDB_CALL_WORDS_BYTES)
		return false;
	bpf_probe_read_kernel(f->heap + BPFDB_CALL_LITERALS, bytes, words);
	return true;
}

/* The next call goes into the frame. 0: the run ends. */
__noinline int call_next(struct bpfdb_frame *f NONNULL, u32 buffer)
{
	struct bpfdb_calls *run = io_at(buffer, 0);

	if (!run || run->status || run->at >= run->end || !run->fuel)
		return 0;
	if (run->to > BPFDB_IO_SIZE - BPFDB_CALL_REPLY_MAX)
		return 0;
	if (call_load(f, buffer, run->at))
		return 1;
	run->status = BPFDB_BAD_REQUEST;
	return 0;
}

/* ---- From the frame into the buffer --------------------------------------- */

/* Errors that may pass: user space waits, and has the same call executed again. */
static __always_inline bool may_pass(u32 outcome)
{
	return outcome == BPFDB_MEMORY_PENDING || BPFDB_REFUSED_BY_LOG(outcome) ||
	       outcome == BPFDB_SESSION_BUSY;
}

/* The value of this number, the text of which begins at run->to. */
static __always_inline bool value_tell(struct bpfdb_frame *f, struct bpfdb_calls *run, u32 buffer,
				       struct bpfdb_call_value *to, u64 at)
{
	u64 value;
	u32 len;
	u8 tag;

	OPAQUE(at);
	at &= BPFDB_CALL_REPLIES - 1;
	value = f->reply_values[at];
	tag = f->reply_tags[at];
	len = tag >= BPFDB_TAG_TEXT ? text_len(value) : 0;
	to[at].tag = tag;
	to[at].len = len;
	to[at].number = value;
	if (len) {
		void *text = io_at(buffer, run->to);

		OPAQUE(len);
		if (!text || len > BPFDB_CALL_TEXT_MAX)
			return false;
		bpf_probe_read_kernel(text, len, heap_at(f, (u32)value));
		run->to += (len + 7) & ~7u;
	}
	return true;
}

/* Values of the reply, and behind them their texts. */
static __always_inline bool values_tell(struct bpfdb_frame *f, struct bpfdb_calls *run, u32 buffer)
{
	struct bpfdb_call_value *to = io_at(buffer, run->to);
	u32 values = f->replies;

	if (!to || values > BPFDB_CALL_REPLIES)
		return false;
	run->to += values * sizeof(*to);
	f->place = 0;
	repeat(i, BPFDB_CALL_REPLIES)
	{
		u64 at = f->place;

		if (at >= values)
			break;
		f->place = at + 1;
		if (!value_tell(f, run, buffer, to, at))
			return false;
	}
	return true;
}

/* What has become of the call in the frame. 0: the run ends. */
__noinline int call_tell(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL, u32 buffer)
{
	struct bpfdb_calls *run = io_at(buffer, 0);
	struct bpfdb_call *call = run ? io_at(buffer, run->at) : NULL;
	struct bpfdb_call_reply *reply = run ? io_at(buffer, run->to) : NULL;
	u32 spent = BPFDB_CALL_FUEL - f->fuel + CALL_FUEL_LEAST;

	if (!run || !call || !reply)
		return 0;
	run->fuel -= spent < run->fuel ? spent : run->fuel;
	if (may_pass(f->outcome)) {
		run->status = f->outcome;
		return 0;
	}
	if (config.log_ring && unlikely(s->keeps_depends))
		depend_on_all(s);
	reply->outcome = f->outcome;
	reply->conflicts = f->conflicts;
	reply->values = f->outcome ? 0 : f->replies;
	reply->is_array = f->outcome ? 0 : f->is_array;
	run->to += sizeof(*reply);
	run->done++;
	run->at += sizeof(*call) + ((call->keys + call->arguments) * sizeof(u32) + 7 & ~7u) +
		   call->bytes;
	if (!f->outcome && !values_tell(f, run, buffer)) {
		reply->outcome = BPFDB_CORRUPT;
		return 0;
	}
	return 1;
}

/* ---- The program ---------------------------------------------------------- */

/* ctx: session, io buffer. Returns BPFDB_OK; or SESSION_BUSY if all frames were taken, and
 * nothing was executed. */
static __always_inline int calls_run(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_frame *f;
	u32 number;

	f = frame_claim(&number);
	if (!f)
		return BPFDB_SESSION_BUSY;
	repeat(i, BPFDB_CALLS_MAX)
	{
		struct bpfdb_session *s = bpfdb_session(ctx->args[0]);

		if (!s || !call_next(f, ctx->args[1]))
			break;
		call_run(f, s);
		if (!call_tell(f, s, ctx->args[1]))
			break;
	}
	frame_release(f);
	return BPFDB_OK;
}

#endif
