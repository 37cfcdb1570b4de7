/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The hand that looks for victims: it goes over the pages of the index, cell by cell, and shows
 * user space the records that may be evicted. Where a record lies follows from a random hash, so
 * cells that follow each other are a random sample.
 *
 * Not shown: records that are locked or being written, those without a value, and keys that are in
 * no database. A record may be missed that is moved to another page meanwhile.
 */
#ifndef BPFDB_DRIVER_EVICT_BPF_H
#define BPFDB_DRIVER_EVICT_BPF_H

#include "../operators/evict.bpf.h"
#include "../operators/maintenance.bpf.h"
#include "io.bpf.h"

#define SAMPLED_SIZE (sizeof(struct bpfdb_sampled) + BPFDB_KEY_MAX)
/* Pages that are none of the index, which one step passes over at most. */
#define SAMPLE_LOOKS_MAX 65536

struct sample {
	u64 cursor;
	u64 end; /* behind the last page */
	u32 io, offset; /* where the next record goes */
	u32 found, wanted;
	u32 pages; /* of the index, left */
	u32 which; /* BPFDB_SAMPLE_ */
	u32 ended;
};

static __always_inline bool keyspace_is_database(u64 word)
{
	u64 number = word >> BPFDB_KEYSPACE_SHIFT;

	return !key_is_reserved(word) || (number && number < BPFDB_DATABASES);
}

/* The page of the slot at `address`, if its slab is closing; else 0. */
static __always_inline u32 closing_page(u64 address)
{
	u32 page = page_of(address);
	struct bpfdb_slab *slab = slab_of_page(page);

	return slab && LOAD(slab->class_) < BPFDB_CLASSES && LOAD(slab->closing) ? page : 0;
}

/* The closing slab that the key lies in; 0: none. */
static __always_inline u32 key_closing_page(const struct bpfdb_cell *cell)
{
	return key_is_inline(cell_key_len(cell)) ? 0 : closing_page(LOAD(cell->key[0]));
}

/* The same of the value. Types, and large values, have slots whatever their length is. */
static __always_inline u32 value_closing_page(const struct bpfdb_cell *cell, u32 form)
{
	u32 inline_max = form_expires(form) ? BPFDB_INLINE_EXPIRING_MAX : BPFDB_INLINE_MAX;

	return form_length(form) > inline_max ? closing_page(LOAD(cell->head.data[0])) : 0;
}

static __always_inline bool cell_is_in_closing(const struct bpfdb_cell *cell, u32 form)
{
	return key_closing_page(cell) || value_closing_page(cell, form);
}

/* Bytes of memory that the value takes: of a cold one its table. */
static __always_inline u64 sampled_len(const struct bpfdb_cell *cell, u32 form)
{
	struct bpfdb_large *large;

	if (!form_is_large(form))
		return form_bytes(form);
	large = bpfdb_at(LOAD(cell->head.data[0]));
	if (!large)
		return 0;
	return large_is_cold(large) ? sizeof(*large) : LOAD(large->len);
}

/* May the record with this header, in `cell`, be a victim? */
static __always_inline bool cell_is_victim(const struct sample *sample, u64 header,
					   const struct bpfdb_cell *cell)
{
	u32 form = version_form(&cell->head);

	if (!(header & BPFDB_CELL_USED) || cell_is_locked(header))
		return false;
	if (form == BPFDB_ABSENT)
		return false;
	if ((sample->which & BPFDB_SAMPLE_EXPIRING) && !form_expires(form))
		return false;
	if ((sample->which & BPFDB_SAMPLE_CLOSING) && !cell_is_in_closing(cell, form))
		return false;
	return keyspace_is_database(cell_key_word(cell));
}

/* The key into the buffer: false if it is void. */
static __always_inline bool sampled_key(u64 *to, const struct bpfdb_cell *cell, u32 len)
{
	void *slot;

	if (key_is_inline(len)) {
		to[0] = LOAD(cell->key[0]);
		to[1] = LOAD(cell->key[1]);
		return true;
	}
	slot = bpfdb_at(LOAD(cell->key[0]));
	if (!slot || len > BPFDB_KEY_MAX)
		return false;
	bpf_probe_read_kernel(to, len, slot);
	return true;
}

static __always_inline void sampled_pages(const struct sample *sample, struct bpfdb_sampled *out,
					  const struct bpfdb_cell *cell)
{
	bool wanted = sample->which & BPFDB_SAMPLE_CLOSING;

	out->key_page = wanted ? key_closing_page(cell) : 0;
	out->value_page = wanted ? value_closing_page(cell, version_form(&cell->head)) : 0;
}

/* Shows the record in the cell at `address`, if it may be a victim. 1: it was shown. */
__noinline int sample_cell(struct sample *sample NONNULL, u64 address)
{
	struct bpfdb_cell *cell = bpfdb_at(address);
	struct bpfdb_sampled *out = io_at(sample->io, sample->offset);
	u64 header;
	u32 len;

	if (!cell || !out)
		return 0;
	header = LOAD_ACQUIRE(cell->header);
	if (!cell_is_victim(sample, header, cell))
		return 0;
	/* One of before accesses were noted is as one that is used now, for the first time. */
	if (LOAD(engine.tracking) && !(LOAD(cell->head.meta) & BPFDB_ACCESS_WORD))
		access_update(cell);
	len = cell_key_len(cell);
	out->header = header;
	out->meta = LOAD(cell->head.meta);
	out->expires = form_expires(version_form(&cell->head)) ? LOAD(cell->head.data[1]) : 0;
	out->len = sampled_len(cell, version_form(&cell->head));
	out->key_len = len;
	sampled_pages(sample, out, cell);
	if (len > BPFDB_KEY_MAX || !sampled_key((u64 *)(out + 1), cell, len) ||
	    !header_same_content(LOAD_AFTER(cell->header), header))
		return 0;
	sample->offset += sizeof(*out) + ((len + 7) & ~7u);
	sample->found++;
	return 1;
}

static __always_inline bool sample_is_over(const struct sample *sample)
{
	return sample->found >= sample->wanted || sample->offset > BPFDB_IO_SIZE - SAMPLED_SIZE;
}

static long sample_next_cell(u64 i, struct sample *sample)
{
	u64 address = sample->cursor << (BPFDB_PAGE_BITS - BPFDB_CELL_BITS);

	if (sample_is_over(sample))
		return 1;
	sample_cell(sample, address);
	sample->cursor++;
	return !(sample->cursor % BPFDB_CELLS_PER_PAGE);
}

/* Goes on to the next page, or to the first one, and ends there. */
static __always_inline long sample_page_end(struct sample *sample, u64 page)
{
	if (page + 1 < sample->end) {
		sample->cursor = (page + 1) << BPFDB_CELL_BITS;
		return 0;
	}
	sample->cursor = 0;
	sample->ended = 1;
	return 1;
}

static long sample_page(u64 i, struct sample *sample)
{
	u64 page = sample->cursor >> BPFDB_CELL_BITS;
	struct bpfdb_slab *slab = slab_of_page(page);

	if (!slab || LOAD_ACQUIRE(slab->class_) != BPFDB_PAGE_INDEX || !LOAD(slab->word))
		return sample_page_end(sample, page);
	if (!sample->pages || sample_is_over(sample))
		return 1;
	bpf_loop(BPFDB_CELLS_PER_PAGE, sample_next_cell, sample, 0);
	/* It has stopped in the middle. */
	if (sample->cursor >> BPFDB_CELL_BITS == page)
		return 1;
	sample->pages--;
	return sample_page_end(sample, page);
}

/* ctx: session (not used), io buffer, which holds a struct bpfdb_sample. */
static __noinline int run_sample(struct bpf_raw_tracepoint_args *ctx)
{
	struct sample sample = {
		.io = ctx->args[2],
		.offset = sizeof(struct bpfdb_sample),
		.end = LOAD(engine.pages_taken.value),
	};
	struct bpfdb_sample *request = io_at(sample.io, 0);

	if (!request)
		return BPFDB_BAD_REQUEST;
	sample.cursor = request->cursor;
	sample.wanted = request->wanted;
	sample.pages = request->pages;
	sample.which = request->which;
	/* Unknown to the verifier, which would count it up. */
	sample.found = sample.ended = LOAD(engine.zero);
	/* The memory of before was larger. */
	if (sample.cursor >> BPFDB_CELL_BITS >= sample.end)
		sample.cursor = 0;
	bpf_loop(SAMPLE_LOOKS_MAX, sample_page, &sample, 0);
	request->cursor = sample.cursor;
	request->wanted = sample.found;
	request->ended = sample.ended;
	return BPFDB_OK;
}

#endif
