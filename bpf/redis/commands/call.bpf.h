/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * EVALSHA and FCALL of procedures that are compiled. A compiled procedure is a program of its
 * own (bpf/procedures/frame.bpf.h). It is entered by a tail call out of a subprogram: when it
 * ends, the kernel returns to the caller of that. So a procedure can be replaced while it runs.
 *
 * The daemon says which procedures there are (`procedure_names`), and takes a name away before
 * what it stands for changes. Whatever a procedure gives up is the daemon's: it has undone all
 * that it did.
 */
#ifndef BPFDB_COMMANDS_CALL_BPF_H
#define BPFDB_COMMANDS_CALL_BPF_H

#include "../../procedures/frame.bpf.h"
#include "counter.bpf.h"

/* The programs, by slot. Slot 0 is empty. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, BPFDB_PROCEDURE_SLOTS);
	__type(key, u32);
	__type(value, u32);
} procedures SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BPFDB_PROCEDURE_NAMES);
	__type(key, struct bpfdb_procedure_name);
	__type(value, struct bpfdb_procedure);
} procedure_names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BPFDB_PROCEDURE_NAMES);
	__type(key, u32);
	__type(value, struct bpfdb_procedure_counters);
} procedure_counters SEC(".maps");

/* One of so many calls is timed. A power of two. */
#define CALLS_TIMED 16

/* ---- The call ------------------------------------------------------------ */

/* The procedure whose name is the argument parsed last. */
static __always_inline struct bpfdb_procedure *procedure_find(struct context *c, u32 kind)
{
	struct bpfdb_procedure_name name = {.kind = kind, .len = c->arg_len};
	u32 len = c->arg_len;
	const u8 *from;

	if (!len || len > BPFDB_CALL_NAME_MAX)
		return NULL;
	from = window_at(c, c->arg, BPFDB_CALL_NAME_MAX);
	for (u32 i = 0; i < BPFDB_CALL_NAME_MAX / 8; i++) {
		if (i * 8 >= len)
			break;
		name.words[i] = low_bytes(load8(from + i * 8), len - i * 8);
	}
	return bpf_map_lookup_elem(&procedure_names, &name);
}

/* The argument parsed last is the key or the argument of this number. */
__noinline enum result word_take(struct context *c NONNULL, struct bpfdb_frame *f NONNULL,
				 u32 number)
{
	u32 len = c->arg_len, place = heap_take(f, len);
	bool is_key = number < f->keys;
	u64 at = is_key ? number : number - f->keys;
	u8 *to;

	if (place == HEAP_FULL || place + len > BPFDB_CALL_LITERALS + BPFDB_CALL_WORDS_BYTES)
		return PASS_TO_DAEMON;
	if (is_key && arg_is_reserved(c))
		return PASS_TO_DAEMON;
	OPAQUE(at);
	at &= BPFDB_CALL_WORDS - 1;
	if (is_key)
		f->key_words[at] = text_of(place, len);
	else
		f->argument_words[at] = text_of(place, len);
	to = heap_at(f, place);
	if (len <= BPFDB_INLINE_MAX) {
		const u8 *from = window_at(c, c->arg, BPFDB_INLINE_MAX);

		*(u64 *)to = load8(from);
		*(u64 *)(to + 8) = load8(from + 8);
		return DONE;
	}
	OPAQUE(len);
	if (len <= BPFDB_VALUE_MAX)
		arg_copy(c, to, len);
	return DONE;
}

/* Keys and arguments, of which c->number are keys. */
static __always_inline enum result words_take(struct context *c, struct bpfdb_frame *f)
{
	u32 all = c->argc - 2;
	s64 keys = c->number;

	if (keys < 0 || keys > all || keys > BPFDB_CALL_WORDS || all - keys > BPFDB_CALL_WORDS)
		return PASS_TO_DAEMON;
	f->keys = keys;
	f->arguments = all - keys;
	f->database = c->own.database;
	f->heap_used = BPFDB_CALL_LITERALS;
	repeat(i, all)
	{
		enum result result = arg_next(c);

		if (result == DONE)
			result = word_take(c, f, i);
		if (result != DONE)
			return result;
	}
	f->heap_begin = f->heap_used;
	return DONE;
}

/* Returns when the procedure has ended, or at once if there is none in this slot. */
__noinline int procedure_enter(struct sk_msg_md *m, u32 slot)
{
	int missed = 1;

	bpf_tail_call(m, &procedures, slot);
	/* Else clang would have the callers take it for a constant. */
	OPAQUE(missed);
	return missed;
}

static __always_inline void call_count(struct bpfdb_frame *f, u32 number, u64 begun)
{
	struct bpfdb_procedure_counters *counts = bpf_map_lookup_elem(&procedure_counters, &number);
	u32 why = f->outcome - BPFDB_DEOPTIMISATION_FIRST;

	if (!counts)
		return;
	if (f->conflicts)
		ADD(&counts->conflicts, f->conflicts);
	if (!f->outcome)
		ADD(&counts->calls, 1);
	else if (f->outcome < BPFDB_DEOPTIMISATION_FIRST)
		ADD(&counts->errors, 1);
	else if (why < BPFDB_DEOPTIMISATION_COUNT)
		ADD(&counts->deoptimisations[why], 1);
	/* Not of a call that ended early: it says nothing about how long one takes. */
	if (begun && !f->outcome) {
		u64 time = bpf_ktime_get_ns() - begun;

		ADD(&counts->measured, 1);
		ADD(&counts->time, time);
		if (time > LOAD(counts->longest))
			STORE(counts->longest, time);
	}
}

/* When the call began, if it is one of those that are timed; else 0. */
static __always_inline u64 call_begin(u32 number)
{
	struct bpfdb_procedure_counters *counts = bpf_map_lookup_elem(&procedure_counters, &number);

	return counts && LOAD(counts->calls) % CALLS_TIMED == 0 ? bpf_ktime_get_ns() : 0;
}

/* ---- The reply ----------------------------------------------------------- */

/* `<marker><text>\r\n`. */
static __always_inline enum result reply_line(struct sk_msg_md *m, struct context *c, u8 marker,
					      const u8 *from, u32 len)
{
	u64 tail = len;
	u8 *p;

	if (len > BPFDB_CALL_LINE_MAX || !room_make(m, c, 1 + len + 2 + REPLY_SLACK))
		return NO_ROOM;
	p = ROOM(m, 1 + REPLY_SLACK);
	if (!p)
		return NO_ROOM;
	*p++ = marker;
	if (len < 8)
		*(u64 *)p = load8(from);
	else if (!packet_copy(p, m->data_end, from, len, BPFDB_CALL_LINE_MAX))
		return NO_ROOM;
	OPAQUE(tail);
	tail &= 2 * BPFDB_CALL_LINE_MAX - 1;
	p += tail;
	if (p + 2 > (u8 *)m->data_end)
		return NO_ROOM;
	*(u16 *)p = CRLF;
	c->out += 1 + len + 2;
	return DONE;
}

static __always_inline enum result reply_text(struct sk_msg_md *m, struct context *c,
					      const u8 *from, u32 len)
{
	bool is_short = len <= BPFDB_INLINE_MAX;

	/* Else clang leaves masks out of whose effect the verifier knows nothing. */
	OPAQUE(len);
	if (is_short)
		return reply_bulk_inline(m, c, load8(from), load8(from + 8), len);
	if (len > BPFDB_CALL_TEXT_MAX)
		return NO_ROOM;
	return reply_bulk_long(m, c, from, len);
}

/* An error that a procedure returns. Its first word has no counter here, unless it is ERR. */
static __always_inline enum result reply_call_error(struct sk_msg_md *m, struct context *c,
						    const u8 *from, u32 len)
{
	u32 command = c->own.command;

	if (len >= 4 && (u32)load8(from) == (u32)WORD("ERR "))
		count_error_reply(c, BPFDB_ERROR_REPLY_ERR);
	else if (command < BPFDB_COMMAND_COUNT)
		COUNT_REQUESTS(commands_failed[command]);
	return reply_line(m, c, '-', from, len);
}

/* The value of this number of the reply. */
__noinline enum result reply_call_value(struct sk_msg_md *m, struct context *c NONNULL,
					struct bpfdb_frame *f NONNULL, u32 number)
{
	u64 at = number, value;
	const u8 *text;
	u32 len, start;
	u8 tag;

	OPAQUE(at);
	at &= BPFDB_CALL_REPLIES - 1;
	value = f->reply_values[at];
	tag = f->reply_tags[at];
	text = heap_at(f, (u32)value);
	len = text_len(value);
	switch (tag) {
	case BPFDB_TAG_TRUE: return reply_header(m, c, ':', 1);
	case BPFDB_TAG_INTEGER:
		start = integer_write(c->text, &c->text_start, value);
		return reply_text_integer(m, c, start, INTEGER_END - start);
	case BPFDB_TAG_TEXT: return reply_text(m, c, text, len);
	case BPFDB_TAG_STATUS: return reply_line(m, c, '+', text, len);
	case BPFDB_TAG_ERROR: return reply_call_error(m, c, text, len);
	default: return reply_nil(m, c);
	}
}

/* Elements of an array: it ends at the first nil. */
__noinline int reply_elements(struct bpfdb_frame *f NONNULL)
{
	f->place = 0;
	repeat(i, BPFDB_CALL_REPLIES)
	{
		u64 at = f->place;

		if (at >= f->replies ||
		    f->reply_tags[at & (BPFDB_CALL_REPLIES - 1)] == BPFDB_TAG_NIL)
			break;
		f->place = at + 1;
	}
	return f->place;
}

static __always_inline enum result reply_call(struct sk_msg_md *m, struct context *c,
					      struct bpfdb_frame *f)
{
	u32 elements;
	enum result result;

	if (likely(!f->is_array))
		return reply_call_value(m, c, f, 0);
	elements = reply_elements(f);
	result = reply_header(m, c, '*', elements);
	f->place = 0;
	repeat(i, BPFDB_CALL_REPLIES)
	{
		u32 at = f->place;

		if (at >= elements || result != DONE)
			break;
		f->place = at + 1;
		result = reply_call_value(m, c, f, at);
	}
	return result;
}

/* ---- The command --------------------------------------------------------- */

/* Name, number of keys, keys, arguments. `reads`: it may not write. */
__noinline enum result command_call(struct sk_msg_md *m, struct context *c NONNULL,
				    struct bpfdb_session *s NONNULL, u32 kind, u32 reads)
{
	struct bpfdb_procedure *p;
	struct bpfdb_frame *f;
	enum result result;
	u32 slot, number;
	u64 begun;

	if (c->argc < 2 || c->block || !short_needed(s) || c->calls >= BPFDB_CALLS_PER_RUN ||
	    (c->own.given_up && !c->request))
		return PASS_TO_DAEMON;
	result = arg_next(c);
	if (result != DONE)
		return result;
	p = procedure_find(c, kind);
	if (!p || (reads && !p->read_only_forms))
		return PASS_TO_DAEMON;
	slot = p->slot;
	number = p->number;
	result = number_next(c);
	f = result == DONE ? frame_claim(&c->frame) : NULL;
	if (!f)
		return result == DONE ? PASS_TO_DAEMON : result;
	f->function = p->function;
	f->reads = p->reads;
	result = words_take(c, f);
	if (result == DONE) {
		begun = call_begin(number);
		f->outcome = BPFDB_DEOPTIMISATION_MISSED;
		f->conflicts = 0;
		c->calls++;
		procedure_enter(m, slot);
		call_count(f, number, begun);
		room_until(c, c->at);
		c->own.given_up = !!f->outcome;
		result = f->outcome ? PASS_TO_DAEMON : reply_call(m, c, f);
	}
	frame_release(f);
	return result;
}

#endif
