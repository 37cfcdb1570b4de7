/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Rewriting of runs (docs/decisions/0049-runs-are-read-to-be-rewritten.md): which entries of a run are live. An entry is
 * if the latest version of its key names it: run, offset, length and checksum are those of the version's place.
 *
 *   process: part of a run ──► buffer ──BPF_PROG_RUN──► part_look ──► lives
 *            lives ──► another run, flushed ──► swaps (operators/cold.bpf.h)
 *
 *  1. The process touches the memory when the program is not executed, and one thread of it executes the program.
 *  2. Nothing is believed of a run's bytes. Lengths and places are looked at, so every access is within the buffer; a
 *     false one has entries overlooked, whose versions the process finds by their keys later. The process compares
 *     the checksum of all that is live.
 *  3. Live is true of one moment. So an entry is given with the id of the value that names it, which no other value ever
 *     has, and the swap to the new place demands it.
 */
#ifndef BPFDB_TIER_COMPACT_BPF_H
#define BPFDB_TIER_COMPACT_BPF_H

#include "../operators/get.bpf.h"
#include <bpfdb/compact.h>

struct bpfdb_compact_memory compacting SEC(".bss.compact");

_Static_assert((BPFDB_COMPACT_PART & (BPFDB_COMPACT_PART - 1)) == 0, "places are masked");
_Static_assert((BPFDB_COMPACT_LIVE & (BPFDB_COMPACT_LIVE - 1)) == 0, "numbers are masked");
_Static_assert(BPFDB_COMPACT_BLOCK % BPFDB_LOG_GRAIN == 0, "parts begin at a grain");

/* Words of an entry's head, bytes from its beginning: docs/formats/runs.md. */
#define ENTRY_LENGTHS 0 /* behind the checksum, 32 bits: that of the key, 16 bits */
#define ENTRY_LEN 8
#define ENTRY_RUN 24
#define ENTRY_OFFSET 32
#define ENTRY_ENGINE 40

/* A byte of the buffer, and at least eight behind it. */
static __always_inline void *part_byte(u32 at)
{
	OPAQUE(at);
	return &compacting.buffer[at & (BPFDB_COMPACT_PART - 1)];
}

static __always_inline u64 part_word(u32 at)
{
	return *(u64 *)part_byte(at);
}

static __always_inline u64 grain_round(u64 bytes)
{
	return (bytes + BPFDB_LOG_GRAIN - 1) & ~(u64)(BPFDB_LOG_GRAIN - 1);
}

/* An entry, as its head has it. */
struct entry {
	u32 key_len, checksum;
	u64 len; /* bytes of the value */
	u64 place; /* in the run, bytes */
};

/* Is there the head of an entry? The entry itself may be damaged. */
static __always_inline bool entry_read(u32 at, struct entry *entry)
{
	u64 first = part_word(at + ENTRY_LENGTHS);

	entry->place = compacting.start + at;
	if (part_word(at + ENTRY_RUN) != compacting.run ||
	    part_word(at + ENTRY_OFFSET) != entry->place ||
	    part_word(at + ENTRY_ENGINE) != compacting.engine)
		return false;
	entry->checksum = first;
	entry->key_len = first >> 32 & 0xffff;
	entry->len = part_word(at + ENTRY_LEN);
	return entry->key_len && entry->key_len <= BPFDB_KEY_MAX && entry->len &&
	       entry->len <= BPFDB_LARGE_MAX;
}

/* A batch is filled up with zeros to a block. */
static __always_inline bool is_filling(u32 at)
{
	return !(part_word(at) | part_word(at + ENTRY_LEN) | part_word(at + ENTRY_ENGINE));
}

/* Where the next entry may be, if there is none at `at`. */
static __always_inline u32 place_behind(u32 at)
{
	return is_filling(at) ? (at | (BPFDB_COMPACT_BLOCK - 1)) + 1 : at + BPFDB_LOG_GRAIN;
}

/* Where the one behind an entry of `size` bytes may be that no version names. Its lengths may be damaged: they are
 * believed if there is what they say. */
static __always_inline u32 place_behind_dead(u32 at, u64 size)
{
	u64 next = at + grain_round(size);
	struct entry entry;

	if (next + BPFDB_RUN_ENTRY_HEAD <= compacting.bytes &&
	    (entry_read(next, &entry) || is_filling(next)))
		return next;
	return at + BPFDB_LOG_GRAIN;
}

/* The id of the value that names the entry; 0: the latest version of its key, which is in the session, does
 * not. */
static __always_inline u64 entry_id(struct bpfdb_session *s, const struct entry *entry)
{
	struct bpfdb_large *large;
	bool is_named;
	u64 id;

	if (!form_is_large(s->value_len))
		return 0;
	large = bpfdb_at(s->value[0]);
	if (!large)
		return 0;
	id = LOAD(large->id);
	is_named = LOAD(large->place.run) == compacting.run &&
		   LOAD(large->place.offset) == entry->place / BPFDB_LOG_GRAIN &&
		   LOAD(large->place.checksum) == entry->checksum && LOAD(large->len) == entry->len;
	return is_named && bpfdb_still_valid(s) ? id : 0;
}

/* The same of the entry at `at`, whose key is looked up. */
static __always_inline u64 entry_look_up(struct bpfdb_session *s, u32 at, const struct entry *entry)
{
	u32 key_len = entry->key_len;

	/* The verifier is to know the bounds of what is used. */
	OPAQUE(key_len);
	if (!key_len || key_len > BPFDB_KEY_MAX)
		return 0;
	bpf_probe_read_kernel(s->key, key_len, part_byte(at + BPFDB_RUN_ENTRY_HEAD));
	s->key_len = key_len;
	if (UNTRACKED(s, OF_ANY_TYPE(s, bpfdb_peek(s))) != BPFDB_FOUND)
		return 0;
	return entry_id(s, entry);
}

static __always_inline void live_put(u32 at, u64 id)
{
	u32 index = compacting.live;

	OPAQUE(index);
	index &= BPFDB_COMPACT_LIVE - 1;
	compacting.lives[index].id = id;
	compacting.lives[index].at = at;
	compacting.live++;
}

/* What came of a place. */
enum look {
	LOOK_ON,
	LOOK_END, /* the next part begins there */
};

/* Looks at the place compacting.at, and goes on to the next one. The verifier checks this by itself: bpf/driver/run.bpf.h
 * says why no loop has operators in its body. */
__noinline int place_look(void)
{
	struct bpfdb_session *s = bpfdb_session(compacting.session);
	u32 at = compacting.at, left = compacting.bytes - at;
	struct entry entry;
	u64 size, id;

	if (!s || at + BPFDB_RUN_ENTRY_HEAD > compacting.bytes ||
	    compacting.live >= BPFDB_COMPACT_LIVE)
		return LOOK_END;
	if (!entry_read(at, &entry)) {
		compacting.at = place_behind(at);
		return LOOK_ON;
	}
	size = BPFDB_RUN_ENTRY_HEAD + entry.key_len + entry.len;
	/* Of one that is too long for a part, the key is looked at, which is in front. */
	if (size > left && !compacting.is_last &&
	    (size <= BPFDB_COMPACT_ENTRY || left < BPFDB_RUN_ENTRY_HEAD + BPFDB_KEY_MAX))
		return LOOK_END;
	id = entry_look_up(s, at, &entry);
	/* What is behind it is not known here, but where its block begins a part. */
	if (!id && !compacting.is_last && at >= BPFDB_COMPACT_BLOCK &&
	    size <= BPFDB_COMPACT_ENTRY && grain_round(size) + BPFDB_RUN_ENTRY_HEAD > left)
		return LOOK_END;
	if (id && size <= left)
		live_put(at, id);
	compacting.at = id ? at + grain_round(size) : place_behind_dead(at, size);
	return LOOK_ON;
}

/* Looks at places of the part. True: there may be more. */
static __always_inline bool part_look(void)
{
	repeat(i, BPFDB_COMPACT_LOOKS)
	{
		if (place_look() == LOOK_END)
			return false;
	}
	return true;
}

#endif
