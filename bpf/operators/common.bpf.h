/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What every operator begins and ends with. */
#ifndef BPFDB_OPERATORS_COMMON_BPF_H
#define BPFDB_OPERATORS_COMMON_BPF_H

#include "../txn/commit.bpf.h"
#include "../storage/merge.bpf.h"
#include "../storage/split.bpf.h"

static __always_inline void count_error(u32 status)
{
	struct bpfdb_counters *c;

	if (likely(status < BPFDB_FIRST_ERROR))
		return;
	/* The compiler knows what a subprogram returns, the verifier does not: the bound
	 * below must stay. */
	OPAQUE(status);
	c = counters_here();
	if (c && status < BPFDB_STATUS_COUNT)
		ADD(&c->statuses[status], 1);
}

/* `why` is a copy: the verifier must know that what is compared is what is used. */
static __always_inline void count_conflict(u32 why)
{
	if (why < BPFDB_CONFLICT_COUNT)
		COUNT(conflicts[why]);
}

static __always_inline void count_outcome(struct bpfdb_session *s, u32 operation, u32 status)
{
	s->operations[operation % BPFDB_COUNTED_OPERATIONS]++;
	if (operation == BPFDB_OP_GET) {
		s->gets_found += status == BPFDB_FOUND;
		s->gets_missed += status == BPFDB_NOT_FOUND;
	}
	count_error(status);
	if (unlikely(status == BPFDB_CONFLICT))
		count_conflict(LOAD(s->conflict));
}

/* Zeroes what lies behind the key in its last word (the front end need not). */
static __always_inline void key_pad(struct bpfdb_session *s)
{
	u32 len = s->key_len, last = (len - 1) / 8 % (BPFDB_KEY_MAX / 8), rest = len % 8;

	if (rest)
		s->key[last] &= (1ULL << rest * 8) - 1;
	if (len <= 8)
		s->key[1] = 0;
}

/* Checks the key operand and computes its hash. */
static __always_inline int key_prepare(struct bpfdb_session *s)
{
	u32 len = s->key_len;

	if (!len || len > BPFDB_KEY_MAX)
		return BPFDB_KEY_TOO_LARGE;
	key_pad(s);
	s->room_tried = 0;
	s->found_expires = 0;
	s->hash =
		key_is_inline(len) ? hash_inline_key(s->key[0], s->key[1], len) : hash_long_key(s);
	return BPFDB_OK;
}

/* The same as a subprogram, for transactions: their frames need the stack that the hash
 * takes (512 bytes together). */
__noinline int key_prepare_apart(struct bpfdb_session *s NONNULL)
{
	return key_prepare(s);
}

/*
 * Loads the home of a key and does not use what is there: the processor fetches the
 * cache line while the caller does something else, like copying a value, and the
 * operator that follows need not wait for it.
 */
static __always_inline void home_prefetch(u64 hash)
{
	u32 slot = directory_slot(hash, LOAD(engine.directory_depth.value));
	u32 *entry = bpf_map_lookup_elem(&directory, &slot);
	void *memory = entry ? page_memory(entry_page(LOAD(*entry))) : NULL;

	if (memory)
		(void)LOAD(cell_in(memory, home_of(hash))->home);
}

static __always_inline u32 load4(const void *at)
{
	return *(const u32 *)at;
}

static __always_inline u64 load8(const void *at)
{
	return *(const u64 *)at;
}

/* Bytes 0 to len-1 of a word; len is 0 to 8. */
static __always_inline u64 low_bytes(u64 word, u32 len)
{
	return len >= 8 ? word : word & ((1ULL << (len & 7) * 8) - 1);
}

/* The same for a key of up to BPFDB_INLINE_MAX bytes, and whatever is behind them. */
static __always_inline void inline_prefetch(u64 word0, u64 word1, u32 len)
{
	home_prefetch(hash_inline_key(low_bytes(word0, len),
				      len > 8 ? low_bytes(word1, len - 8) : 0, len));
}

/* The record of the session's key: OK with *cell, *address and the header read
 * before the key was compared; NOT_FOUND; RETRY; CORRUPT. */
static __always_inline int record_find(struct bpfdb_session *s, struct bpfdb_cell **cell,
				       u64 *address, u64 *header)
{
	struct bucket b = {};
	int status = bucket_find(s->hash, &b), index;

	if (status != BPFDB_OK)
		return status;
	index = bucket_search(s, &b, header);
	if (index < 0)
		return bucket_unchanged(&b) ? BPFDB_NOT_FOUND : RETRY;
	*cell = cell_in(b.memory, index);
	*address = cell_address(b.page, index);
	return BPFDB_OK;
}

/*
 * An Error in a read-write transaction fails it; but for SESSION_BUSY, by which nothing was done:
 * the session is in use, and the request is tried again. So is MEMORY_PENDING in a transaction that
 * is patient.
 */
static __always_inline int txn_result(struct bpfdb_session *s, int status)
{
	if (status >= BPFDB_FIRST_ERROR && status != BPFDB_SESSION_BUSY &&
	    status != BPFDB_WRONG_TYPE && s->state == BPFDB_TXN_WRITE &&
	    !(status == BPFDB_MEMORY_PENDING && s->patient)) {
		s->state = BPFDB_TXN_FAILED;
		s->failure = status;
	}
	return status;
}

/* May this session run a statement now? */
static __always_inline int txn_ready(struct bpfdb_session *s)
{
	if (unlikely(s->state == BPFDB_TXN_FAILED))
		return BPFDB_WRONG_STATE;
	if (unlikely(s->state == BPFDB_TXN_EXPIRED || s->state == BPFDB_TXN_EXPIRING))
		return BPFDB_TIMED_OUT;
	/* Soon over; a front end has user space do it again, which settles. */
	if (unlikely(s->state == BPFDB_TXN_FINISHING))
		return BPFDB_MEMORY_PENDING;
	return BPFDB_OK;
}

static __always_inline void txn_touch(struct bpfdb_session *s)
{
	s->last_active = LOAD(engine.now.value);
}

/* Stores a long key for the record that is about to be inserted; its slot is
 * s->key_word, 0 for a short key. In the session, because all callers together have 512
 * bytes of stack. False: no memory. */
static __always_inline bool record_key_store(struct bpfdb_session *s)
{
	s->key_word = 0;
	if (key_is_inline(s->key_len))
		return true;
	s->key_word = long_key_store(s);
	return s->key_word;
}

/*
 * Inserts a record for the session's key with `flags` in its header: OK with
 * *address, RETRY, NEED_SPLIT, or an Error. s->key_word is the slot of a long
 * key, else 0.
 */
__noinline int record_insert(struct bpfdb_session *s NONNULL, u64 flags, u64 *address NONNULL)
{
	int status;

	if (!record_key_store(s))
		return no_memory();
	preempt_off();
	status = index_insert(s, flags, s->key_word, address);
	preempt_on();
	if (status != BPFDB_OK && s->key_word)
		bpfdb_slot_free(s->key_word);
	return status;
}

/* What an operator has tried to make room: whether it has looked at the page, how many
 * splits it has made (BPFDB_SPLITS_MAX), whether it knows the snapshots, how often it has
 * looked for memory. */
#define ROOM_LOOKED 1
#define ROOM_SPLIT 2
#define ROOM_SPLITS (7 * ROOM_SPLIT)
#define ROOM_VERSIONS 16
#define ROOM_RECLAIM 32
/* What an attempt takes and gives back again counts as found, without end: the slot of
 * a long key for which the index has no room. */
#define ROOM_RECLAIMS_MAX 4

/* Looks for memory that is not needed, or only by old snapshots. True if it may
 * have been found. */
static __always_inline bool memory_look(void)
{
	return bpfdb_memory_reclaim() || snapshots_revoke_old();
}

/* After so many splits and merges. INDEX_CROWDED, unless one is not over because an operator
 * else is at it, or holds a latch. */
static __always_inline int split_in_vain(u32 page)
{
	return page_is_changing(page) ? BPFDB_MEMORY_PENDING : BPFDB_INDEX_CROWDED;
}

/* Splits the page that has no room for the session's key. */
static __always_inline int split_for_key(struct bpfdb_session *s)
{
	u32 which = s->room_page | (s->value_len == BPFDB_ABSENT ? SPLIT_FOR_FREEING : 0);
	int status = bpfdb_split(which);

	if (status == BPFDB_INDEX_CROWDED && neighbourhood_divides(s->room_page, s->hash))
		status = bpfdb_split(which | SPLIT_SPARSE);
	return status;
}

/*
 * Makes room in the index for the session's key, which page session->room_page has not,
 * or will not have for long. RETRY if there may be some now.
 */
static __always_inline int make_room_in_index(struct bpfdb_session *s)
{
	bool only_crowded = !(s->room_tried & ROOM_LOOKED);
	int status;

	s->room_tried |= ROOM_LOOKED;
	if (!only_crowded && (s->room_tried & ROOM_SPLITS) >= BPFDB_SPLITS_MAX * ROOM_SPLIT)
		return split_in_vain(s->room_page);
	if (neighbourhood_agrees(s->room_page, s->hash))
		return BPFDB_INDEX_CROWDED;
	status = split_for_key(s);
	if (status == BPFDB_OK || (status == RETRY && merge_take_up(s->room_page)))
		s->room_tried += ROOM_SPLIT;
	return status == BPFDB_OK || only_crowded ? RETRY : status;
}

/* Another program changes the page: RETRY, as often as memory is looked for; then MEMORY_PENDING. */
static __always_inline int try_later(struct bpfdb_session *s)
{
	if (s->room_tried >= ROOM_RECLAIMS_MAX * ROOM_RECLAIM)
		return BPFDB_MEMORY_PENDING;
	s->room_tried += ROOM_RECLAIM;
	return RETRY;
}

/*
 * What an operator does about the outcome of an attempt before it tries again:
 * makes room in the index, or looks for memory. RETRY if that helped. It stands
 * here and not where the need arises because the kernel allows eight frames.
 */
static __always_inline int make_room(struct bpfdb_session *s, int status)
{
	if (status == NEED_SPLIT) {
		status = make_room_in_index(s);
		/* Time is short then, not memory. */
		if (status == BPFDB_MEMORY_PENDING && page_is_changing(s->room_page))
			return try_later(s);
	}
	if (status == NEED_VERSIONS) {
		s->room_tried |= ROOM_VERSIONS;
		status = versions_room(s);
	}
	if ((status == BPFDB_OUT_OF_MEMORY || status == BPFDB_MEMORY_PENDING) &&
	    s->room_tried < ROOM_RECLAIMS_MAX * ROOM_RECLAIM && memory_look()) {
		s->room_tried += ROOM_RECLAIM;
		status = RETRY;
	}
	return status;
}

#endif
