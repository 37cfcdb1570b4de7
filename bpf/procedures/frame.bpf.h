/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Frames: the memory of a call of a compiled procedure.
 *
 *   caller                                    generated program
 *     │ takes a frame, puts keys and              │
 *     │ arguments into it                         │
 *     ├── tail call out of a subprogram ─────────►│ begin, body, commit; again after a
 *     │                                           │ conflict
 *     │◄─ returns to the subprogram's caller ─────┤ outcome and reply are in the frame
 *     │ replies, gives the frame back
 *
 * A value is 64 bits, and a tag (enum bpfdb_tag) where its type is not known when the
 * procedure is compiled. Values stay in this memory between two operations, never in
 * registers of the processor or on the stack: so the verifier's walk is as long as the
 * program, and loops converge.
 *
 * Texts lie in the frame's heap, which only grows while a call runs. Its first bytes are the
 * literals of the procedure, which puts them there when it comes to them; then the keys and
 * arguments follow, and then what the procedure makes.
 */
#ifndef BPFDB_PROCEDURES_FRAME_BPF_H
#define BPFDB_PROCEDURES_FRAME_BPF_H

#include "../operators/maintenance.bpf.h"
#include <bpfdb/procedure.h>

/* A call keeps its frame for about a millisecond at most. A loader that needs one for each processor
 * makes the map larger. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BPFDB_FRAMES);
	__type(key, u32);
	__type(value, struct bpfdb_frame);
} frames SEC(".maps");

static __always_inline struct bpfdb_frame *frame_at(u32 number)
{
	return bpf_map_lookup_elem(&frames, &number);
}

/* The frame of this number, if it is free. */
static __always_inline struct bpfdb_frame *frame_try(u32 number)
{
	struct bpfdb_frame *f = frame_at(number);

	if (f && LOAD(f->busy) == BPFDB_FRAME_FREE &&
	    CAS(&f->busy, BPFDB_FRAME_FREE, BPFDB_FRAME_CLAIMED) == BPFDB_FRAME_FREE) {
		/* The caller before had another one, perhaps. */
		f->database = 0;
		return f;
	}
	return NULL;
}

/* A free frame, and its number; NULL if all that are looked at are taken. */
static __always_inline struct bpfdb_frame *frame_claim(u32 *number)
{
	return CLAIM(number, BPFDB_FRAMES_TRIED, frame_at, frame_try);
}

static __always_inline void frame_release(struct bpfdb_frame *f)
{
	/* All of the call before the next one that has the frame. */
	STORE_RELEASE(f->busy, BPFDB_FRAME_FREE);
}

static __always_inline u64 text_of(u32 place, u32 len)
{
	return place | (u64)len << 32;
}

static __always_inline u32 text_len(u64 text)
{
	return text >> 32;
}

/* Where a text begins: all that a text may have may be read there. */
static __always_inline u8 *heap_at(struct bpfdb_frame *f, u64 place)
{
	OPAQUE(place);
	return f->heap + (place & (BPFDB_CALL_HEAP - 1));
}

static __always_inline u64 *register_at(struct bpfdb_frame *f, u64 number)
{
	OPAQUE(number);
	return &f->registers[number & (BPFDB_CALL_REGISTERS - 1)];
}

static __always_inline u8 *tag_at(struct bpfdb_frame *f, u64 number)
{
	OPAQUE(number);
	return &f->tags[number & (BPFDB_CALL_REGISTERS - 1)];
}

/* No place in the heap. */
#define HEAP_FULL (~0u)

/* Room for a text of `len` bytes, behind which 16 more may be written; HEAP_FULL if there is
 * none. */
static __always_inline u32 heap_take(struct bpfdb_frame *f, u32 len)
{
	u32 place = f->heap_used;

	if (len > BPFDB_CALL_TEXT_MAX || place + len > BPFDB_CALL_HEAP - 16)
		return HEAP_FULL;
	f->heap_used = place + ((len + 7) & ~7u);
	return place;
}

/* Copies from memory of a map to a place that heap_take() gave. */
static __always_inline void heap_fill(struct bpfdb_frame *f, u32 place, const void *from, u32 len)
{
	u8 *to = heap_at(f, place);

	if (len <= 16) {
		u64 second = load8(from + 8);

		*(u64 *)to = load8(from);
		if (len > 8)
			*(u64 *)(to + 8) = second;
		return;
	}
	OPAQUE(len);
	if (len <= BPFDB_VALUE_MAX)
		bpf_probe_read_kernel(to, len, from);
}

#endif
