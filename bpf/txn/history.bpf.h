/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Older versions of a record, kept for running snapshots, and their cooperative
 * garbage collection: whoever installs a version prunes what nobody needs.
 *
 * A version is needed iff some running snapshot S has
 *     version.stamp <= S < stamp of the next newer version.
 *
 * config.versions bounds the committed versions of a record. SET reports
 * VERSIONS_FULL (before anything is changed) when the head is needed by a
 * running snapshot and config.versions - 1 older ones are needed too. The aux
 * block has one entry more than that: a snapshot that begins between SET and
 * COMMIT may need the head as well, and COMMIT must not fail for that.
 */
#ifndef BPFDB_HISTORY_BPF_H
#define BPFDB_HISTORY_BPF_H

#include "clock.bpf.h"

static __always_inline u32 aux_size(void)
{
	return offsetof(struct bpfdb_aux, history) + config.versions * sizeof(struct bpfdb_version);
}

static __always_inline u64 version_stamp(const struct bpfdb_version *v)
{
	return LOAD(v->stamp) & BPFDB_STAMP_MASK;
}

static __always_inline u64 cell_link(const struct bpfdb_cell *cell)
{
	return (LOAD(cell->head.meta) >> BPFDB_FORM_BITS) * BPFDB_GRAIN;
}

static __always_inline void cell_set_meta(struct bpfdb_cell *cell, u64 link, u32 form)
{
	STORE(cell->head.meta, link / BPFDB_GRAIN << BPFDB_FORM_BITS | form);
}

/* An unused entry of the version array. */
static __always_inline bool version_unused(const struct bpfdb_version *v)
{
	return !LOAD(v->meta);
}

/* meta of an entry that is in use: never 0. */
#define VERSION_IN_USE (1ULL << BPFDB_FORM_BITS)

/* Which entries of a version array running snapshots need. */
struct need {
	u64 stamps[BPFDB_VERSIONS_MAX + 1]; /* the last one: the head's */
	u32 used;   /* bit i: entry i holds a version; bit 8: the head counts */
	u32 needed; /* result */
};

#define NEED_HEAD BPFDB_VERSIONS_MAX

/* Marks the version that `snapshot` sees. */
static __always_inline void need_mark(struct need *n, u64 snapshot)
{
	u64 best = 0;
	u32 bit = 0;

#pragma clang loop unroll(full)
	for (u32 i = 0; i <= BPFDB_VERSIONS_MAX; i++) {
		u64 stamp = n->stamps[i];

		if ((n->used >> i & 1) && stamp <= snapshot && (!bit || stamp >= best)) {
			best = stamp;
			bit = 1u << i;
		}
	}
	n->needed |= bit;
}

/* Marks what the running snapshots of one group of sessions see. */
__noinline int need_group(struct need *n NONNULL, u32 group)
{
	repeat(i, BPFDB_SNAPSHOT_GROUP)
	{
		u32 session = group * BPFDB_SNAPSHOT_GROUP + i;
		u64 *slot = bpf_map_lookup_elem(&snapshots, &session);
		u64 published = slot ? LOAD(*slot) : 0;

		if (published == SNAPSHOT_STARTING)
			n->needed = ~0u;
		else if (published)
			need_mark(n, published - 1);
	}
	return 0;
}

static __always_inline void need_compute(struct need *n)
{
	repeat(group, BPFDB_SESSIONS_MAX / BPFDB_SNAPSHOT_GROUP)
	{
		u32 i = group;
		u64 *running = bpf_map_lookup_elem(&snapshot_groups, &i);

		if (!running)
			break;
		if (LOAD(*running))
			need_group(n, group);
	}
}

static __always_inline void need_load(struct need *n, struct bpfdb_cell *cell,
				      struct bpfdb_aux *aux)
{
	n->stamps[NEED_HEAD] = version_stamp(&cell->head);
	n->used = 1u << NEED_HEAD;
	if (!aux)
		return;
#pragma clang loop unroll(full)
	for (u32 i = 0; i < BPFDB_VERSIONS_MAX; i++) {
		if (i < config.versions && !version_unused(&aux->history[i])) {
			n->stamps[i] = version_stamp(&aux->history[i]);
			n->used |= 1u << i;
		}
	}
}

/* Frees entry `i` of the version array. */
static __always_inline void version_drop(struct bpfdb_aux *aux, u32 i)
{
	struct bpfdb_version *v = &aux->history[i];
	u32 form = version_form(v);
	u64 data = v->data[0];

	STORE(v->meta, 0);
	aux->used--;
	ADD(&engine.versions.value, -1);
	COUNT(versions_pruned);
	version_dispose(form, data);
}

/* Copies the head into a free entry. The caller knows that there is one. */
static __always_inline bool version_push(struct bpfdb_cell *cell, struct bpfdb_aux *aux)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < BPFDB_VERSIONS_MAX; i++) {
		struct bpfdb_version *v = &aux->history[i];

		if (i >= config.versions)
			break;
		if (!version_unused(v))
			continue;
		STORE(v->stamp, version_stamp(&cell->head));
		v->data[0] = cell->head.data[0];
		v->data[1] = cell->head.data[1];
		STORE(v->meta, VERSION_IN_USE | version_form(&cell->head));
		aux->used++;
		ADD(&engine.versions.value, 1);
		return true;
	}
	return false;
}

static __always_inline struct bpfdb_aux *cell_aux(struct bpfdb_cell *cell)
{
	return LOAD(cell->header) & BPFDB_CELL_AUX ? bpfdb_at(cell_link(cell)) : NULL;
}

/* A latched or exclusively locked cell gets an aux block. The link means
 * nothing until the header says AUX, so readers are not misled. */
static __always_inline struct bpfdb_aux *cell_aux_create(struct bpfdb_cell *cell)
{
	u64 address = bpfdb_slot_alloc(aux_size());
	struct bpfdb_aux *aux = address ? bpfdb_at(address) : NULL;

	if (!aux)
		return NULL;
	aux->used = 0;
	for (u32 i = 0; i < BPFDB_VERSIONS_MAX; i++) {
		if (i < config.versions)
			aux->history[i].meta = 0;
	}
	cell_set_meta(cell, address, version_form(&cell->head));
	return aux;
}

/*
 * Prunes the history of a cell that the caller has latched. *head_needed says
 * whether a running snapshot sees the head. Entries that nobody needs are gone afterwards.
 */
__noinline int history_prune(u64 cell_address_, u32 *head_needed NONNULL)
{
	struct bpfdb_cell *cell = bpfdb_at(cell_address_);
	struct bpfdb_aux *aux;
	struct need need = {};

	if (!cell)
		return BPFDB_CORRUPT;
	aux = cell_aux(cell);
	if (LOAD(engine.snapshots_running.value)) {
		need_load(&need, cell, aux);
		need_compute(&need);
	}
	*head_needed = need.needed >> NEED_HEAD & 1;
	if (!aux)
		return BPFDB_OK;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < BPFDB_VERSIONS_MAX; i++) {
		if (i >= config.versions)
			break;
		if (!version_unused(&aux->history[i]) && !(need.needed >> i & 1))
			version_drop(aux, i);
	}
	/* A reader that still has an entry in hand must not take what is put
	 * there next for the same version. */
	cell_set_header(cell, LOAD(cell->header) & (BPFDB_CELL_CHANGE - 1));
	return BPFDB_OK;
}

#endif
