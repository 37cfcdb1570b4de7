/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The pass of a checkpoint, for user space: the records of a page, as entries of a file
 * (docs/formats/log.md), in the session's io buffer.
 *
 *   0                          bytes                   BPFDB_CHECKPOINT_OTHERS
 *   | struct bpfdb_checkpoint, entries ─────────► ...  | struct bpfdb_checkpoint_other, key | ...
 *
 * What is too long for the buffer is among the others, which user space reads by themselves:
 * large values, and cold ones; and, if the records of one bucket do not fit together, the
 * longer values of that bucket.
 */
#ifndef BPFDB_DRIVER_CHECKPOINT_BPF_H
#define BPFDB_DRIVER_CHECKPOINT_BPF_H

#include "../operators/checkpoint.bpf.h"
#include "io.bpf.h"

struct checkpoint {
	u64 epoch;
	u32 session, io;
	u32 cursor, home;
	u32 level;  /* the greatest of the page so far */
	u32 offset; /* where the next entry goes */
	u32 other_offset; /* and the next one of the others */
	u32 entries, others, later;
	u32 value_max; /* longer ones are among the others */
	u32 full; /* the bucket did not fit */
	int status;
};

_Static_assert(BPFDB_CHECKPOINT_OTHERS + BPFDB_NEIGHBOURHOOD * BPFDB_CHECKPOINT_OTHER_SIZE <=
		       BPFDB_IO_SIZE,
	       "the others of one bucket fit");
_Static_assert(BPFDB_NEIGHBOURHOOD *(BPFDB_LOG_GRAIN + BPFDB_KEY_MAX + BPFDB_CHECKPOINT_SHORT) +
			       sizeof(struct bpfdb_checkpoint) <=
		       BPFDB_CHECKPOINT_OTHERS,
	       "the short entries of one bucket fit");

/* Makes sure that what ends in the middle of a grain has zeros behind it. `len` is 1 to `most`,
 * a power of two. */
static __always_inline void grain_clear(void *at, u32 len, u32 most)
{
	u64 last = len - 1, *words;

	OPAQUE(last);
	last &= most - BPFDB_LOG_GRAIN;
	words = at + last;
	words[0] = 0;
	words[1] = 0;
}

/* Copies `len` bytes, up to `most`, from a slot: false if it is void. */
static __always_inline bool slot_copy(void *to, u64 address, u32 len, u32 most)
{
	void *from = bpfdb_at(address);

	if (!from || !len)
		return false;
	/* clang would make one comparison of both, of another register: the verifier of 6.12 would
	 * have no bound of len. */
	OPAQUE(len);
	if (len > most)
		return false;
	grain_clear(to, len, most);
	bpf_probe_read_kernel(to, len, from);
	return true;
}

static __always_inline void inline_copy(u64 *to, u64 word0, u64 word1, u32 len)
{
	to[0] = low_bytes(word0, len);
	to[1] = len > 8 ? low_bytes(word1, len - 8) : 0;
}

static __always_inline bool key_copy(void *to, const struct bpfdb_cell *cell, u32 len)
{
	if (likely(key_is_inline(len))) {
		inline_copy(to, LOAD(cell->key[0]), LOAD(cell->key[1]), len);
		return true;
	}
	return slot_copy(to, LOAD(cell->key[0]), len, BPFDB_KEY_MAX);
}

/* Is the value in the version itself? */
static __always_inline bool value_is_inline(u32 form, u32 len)
{
	return len <= (form_expires(form) ? BPFDB_INLINE_EXPIRING_MAX : BPFDB_INLINE_MAX);
}

/* The entry of the version in the session: OK with its *bytes, or RETRY. It does not count
 * before c->offset is moved on. */
__noinline int checkpoint_entry(struct checkpoint *c NONNULL, struct bpfdb_session *s NONNULL,
				u64 address, u32 *bytes NONNULL)
{
	struct bpfdb_cell *cell = bpfdb_at(address);
	u32 form = s->value_len, len = form_length(form), key_len, size;
	u64 *entry = io_at(c->io, c->offset), key_room;
	void *value;

	if (!cell || !entry)
		return RETRY;
	key_len = cell_key_len(cell);
	key_room = log_round(key_len) & (2 * BPFDB_KEY_MAX - 1);
	size = log_write_room(key_len, form);
	/* The rest of the buffer is the others'. */
	if (c->offset + size > BPFDB_CHECKPOINT_OTHERS) {
		c->full = 1;
		return RETRY;
	}
	entry[0] = log_meta(key_len, form);
	entry[1] = form_expires(form) ? s->value[1] : 0;
	value = (void *)(entry + 2) + key_room;
	if (!key_copy(entry + 2, cell, key_len))
		return RETRY;
	if (likely(value_is_inline(form, len)))
		inline_copy(value, s->value[0], form_expires(form) ? 0 : s->value[1], len);
	else if (!slot_copy(value, s->value[0], form_bytes(form), BPFDB_VALUE_MAX))
		return RETRY;
	*bytes = size;
	return BPFDB_OK;
}

/* The same for a value that does not fit: where to find it. */
__noinline int checkpoint_other(struct checkpoint *c NONNULL, struct bpfdb_session *s NONNULL,
				u64 address)
{
	struct bpfdb_cell *cell = bpfdb_at(address);
	struct bpfdb_checkpoint_other *other = io_at(c->io, c->other_offset);
	u32 form = s->value_len, key_len;
	bool is_large = form_is_large(form);
	struct bpfdb_large *large = is_large ? bpfdb_at(s->value[0]) : NULL;

	if (!cell || !other || (is_large && !large))
		return RETRY;
	key_len = cell_key_len(cell);
	if (key_len > BPFDB_KEY_MAX)
		return RETRY;
	if (c->other_offset + BPFDB_CHECKPOINT_OTHER_SIZE > BPFDB_IO_SIZE) {
		c->full = 1;
		return RETRY;
	}
	other->id = large ? LOAD(large->id) : 0;
	other->len = large ? LOAD(large->len) : form_bytes(form);
	other->expires = form_expires(form) ? s->value[1] : 0;
	other->key_len = key_len;
	other->value_type = form_type(form);
	other->run = large ? LOAD(large->place.run) : 0;
	return key_copy(other + 1, cell, key_len) ? BPFDB_OK : RETRY;
}

/* Takes the record in the cell at `address`, if it counts. OK; RETRY if it changed meanwhile. */
__noinline int checkpoint_record(struct checkpoint *c NONNULL, u64 address)
{
	struct bpfdb_session *s = bpfdb_session(c->session);
	struct bpfdb_cell *cell = bpfdb_at(address);
	u32 bytes = 0, form;
	u64 header, stamp = 0;
	bool is_other;
	int status;

	if (!s || !cell)
		return BPFDB_CORRUPT;
	header = LOAD_ACQUIRE(cell->header);
	/* Not there any more: the bucket has changed. */
	if (!(header & BPFDB_CELL_USED))
		return BPFDB_OK;
	status = latest_version(s, cell, address, header, &stamp);
	if (status != BPFDB_OK)
		return status;
	form = s->value_len;
	if (unlikely(form == BPFDB_ABSENT || stamp > c->epoch)) {
		c->later += form != BPFDB_ABSENT;
		return header_same_content(LOAD_AFTER(cell->header), header) ? BPFDB_OK : RETRY;
	}
	is_other = form_is_large(form) || form_bytes(form) > c->value_max;
	status = unlikely(is_other) ? checkpoint_other(c, s, address)
				    : checkpoint_entry(c, s, address, &bytes);
	if (status != BPFDB_OK)
		return status;
	if (!header_same_content(LOAD_AFTER(cell->header), header))
		return RETRY;
	c->offset += bytes;
	c->entries += !is_other;
	c->others += is_other;
	if (is_other)
		c->other_offset += BPFDB_CHECKPOINT_OTHER_SIZE;
	return BPFDB_OK;
}

/* Bytes of an entry whose key and value have a grain each. */
#define ENTRY_SHORT (sizeof(struct bpfdb_log_write) + 2 * BPFDB_LOG_GRAIN)

/*
 * The usual record, at rest and with key and value in its cell: takes it, without a call. False:
 * it is another one, or has changed, and checkpoint_record() sees to it.
 */
static __always_inline bool checkpoint_short(struct checkpoint *c, const struct bpfdb_cell *cell)
{
	u64 header = LOAD_ACQUIRE(cell->header), stamp = LOAD(cell->head.stamp), *entry;
	u32 form = version_form(&cell->head), key_len = stamp >> BPFDB_STAMP_BITS;

	if ((header & (BPFDB_CELL_USED | BPFDB_CELL_PENDING | BPFDB_CELL_REPLACING)) !=
	    BPFDB_CELL_USED)
		return false;
	if (!form_is_inline(form) || !key_is_inline(key_len) ||
	    (stamp & BPFDB_STAMP_MASK) > c->epoch ||
	    c->offset + ENTRY_SHORT > BPFDB_CHECKPOINT_OTHERS)
		return false;
	entry = io_at(c->io, c->offset);
	if (!entry)
		return false;
	entry[0] = log_meta(key_len, form);
	entry[1] = 0;
	inline_copy(entry + 2, LOAD(cell->key[0]), LOAD(cell->key[1]), key_len);
	inline_copy(entry + 4, LOAD(cell->head.data[0]), LOAD(cell->head.data[1]), form);
	if (!header_same_content(LOAD_AFTER(cell->header), header))
		return false;
	c->offset += ENTRY_SHORT;
	c->entries++;
	return true;
}

/* The records in the cells of a bucket: OK, RETRY or CORRUPT. */
static __always_inline int checkpoint_cells(struct checkpoint *c, const struct bucket *b)
{
	u32 bitmap = b->home & BPFDB_HOME_BITMAP_MASK;
	int status = BPFDB_OK;

	repeat(i, BPFDB_NEIGHBOURHOOD)
	{
		if (!(bitmap >> i) || status != BPFDB_OK)
			break;
		if ((bitmap >> i & 1) && !checkpoint_short(c, cell_in(b->memory, b->index + i)))
			status = checkpoint_record(c, cell_address(b->page, b->index + i));
	}
	return status;
}

/* Visits the bucket of cursor and home. OK, or RETRY if it changed meanwhile, or did not fit. */
__noinline int checkpoint_bucket(struct checkpoint *c NONNULL)
{
	u32 offset = c->offset, other_offset = c->other_offset;
	u32 entries = c->entries, others = c->others, later = c->later;
	struct bucket b = {};
	int status = bucket_find(checkpoint_hash(c->cursor, c->home), &b);

	if (status != BPFDB_OK)
		return status;
	status = checkpoint_cells(c, &b);
	if (status == BPFDB_OK && bucket_unchanged(&b)) {
		if (b.level > c->level)
			c->level = b.level;
		return BPFDB_OK;
	}
	c->offset = offset;
	c->other_offset = other_offset;
	c->entries = entries;
	c->others = others;
	c->later = later;
	return status == BPFDB_OK ? RETRY : status;
}

/* The bucket did not fit into what is left of the buffer. If it has all of it, only short
 * values go there. */
static __always_inline bool checkpoint_fits_again(struct checkpoint *c)
{
	if (c->entries || c->others || c->value_max == BPFDB_CHECKPOINT_SHORT)
		return false;
	c->value_max = BPFDB_CHECKPOINT_SHORT;
	c->full = 0;
	return true;
}

static long checkpoint_step(u64 i, struct checkpoint *c)
{
	int status = RETRY;

	c->value_max = BPFDB_VALUE_MAX;
	repeat(j, BPFDB_READ_TRIES)
	{
		status = checkpoint_bucket(c);
		if (status != RETRY || (c->full && !checkpoint_fits_again(c)))
			break;
		COUNT(read_retries);
	}
	/* The next run goes on with this bucket. */
	if (c->full)
		return 1;
	c->status = status == RETRY ? BPFDB_EXHAUSTED : status;
	if (c->status != BPFDB_OK)
		return 1;
	c->home++;
	return c->home >= BPFDB_CELLS_PER_PAGE || c->offset >= BPFDB_CHECKPOINT_STEP_BYTES;
}

/* Up to a part of a page: the cursor goes on when it is complete. On kernels that do not preempt
 * programs, whatever wants this processor waits for the end of the run. */
static __always_inline int checkpoint_page(struct checkpoint *c, struct bpfdb_session *s)
{
	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	c->status = s->state == BPFDB_TXN_NONE ? BPFDB_OK : BPFDB_WRONG_STATE;
	if (c->status == BPFDB_OK)
		bpf_loop(BPFDB_CHECKPOINT_STEP_BUCKETS, checkpoint_step, c, 0);
	if (c->status == BPFDB_OK && c->home >= BPFDB_CELLS_PER_PAGE) {
		c->cursor = checkpoint_next(c->cursor, c->level);
		c->home = 0;
		c->level = 0;
	}
	txn_touch(s);
	return session_leave(s, c->status);
}

/* ctx: session, io buffer, which holds a struct bpfdb_checkpoint. */
static __noinline __attribute__((unused)) int run_checkpoint(struct bpf_raw_tracepoint_args *ctx)
{
	struct checkpoint c = {
		.session = ctx->args[1],
		.io = ctx->args[2],
		.offset = sizeof(struct bpfdb_checkpoint),
		.other_offset = BPFDB_CHECKPOINT_OTHERS,
	};
	struct bpfdb_session *s = bpfdb_session(c.session);
	struct bpfdb_checkpoint *request = io_at(c.io, 0);
	int status;

	if (!s || !request)
		return BPFDB_BAD_REQUEST;
	c.epoch = request->epoch;
	c.cursor = request->cursor;
	c.home = request->home;
	c.level = request->level;
	/* Unknown to the verifier, which would count them up. */
	c.entries = c.others = c.later = LOAD(engine.zero);
	if (c.cursor >= CHECKPOINT_END || c.home >= BPFDB_CELLS_PER_PAGE)
		return BPFDB_BAD_REQUEST;
	status = checkpoint_page(&c, s);
	request->cursor = c.cursor;
	request->home = c.home;
	request->level = c.level;
	request->bytes = c.offset - sizeof(*request);
	request->entries = c.entries;
	request->others = c.others;
	request->later = c.later;
	return status;
}

#endif
