/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Older versions of a record, kept for running snapshots, and their cooperative
 * garbage collection: a writer that finds no room in the version array, or no
 * snapshot running, prunes what is not needed; the sweeper prunes the rest.
 *
 * A version is needed iff some running snapshot S has
 *     version.stamp <= S < stamp of the next newer version.
 * What is not the head and is not needed will never be: snapshots to come have
 * later timestamps than every version there is. So it is decided without the
 * latch, by looking at all snapshots, and then each entry is dropped in a latched
 * section of its own.
 *
 * config.versions bounds the committed versions of a record. SET reports
 * VERSIONS_FULL (before anything is changed) when the head is needed by a
 * running snapshot and config.versions - 1 older ones are needed too. The aux
 * block has one entry more than that: a snapshot that begins between SET and
 * COMMIT may need the head as well, and COMMIT must not fail for that.
 *
 * Before a writer is refused, snapshots that are older than engine.snapshots.age_max
 * and keep one of the versions are revoked: their next read says SNAPSHOT_TOO_OLD.
 */
#ifndef BPFDB_HISTORY_BPF_H
#define BPFDB_HISTORY_BPF_H

#include "snapshot.bpf.h"

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

/* Its access word goes. */
static __always_inline void cell_set_meta(struct bpfdb_cell *cell, u64 link, u32 form)
{
	STORE_RELEASE(cell->head.meta, link / BPFDB_GRAIN << BPFDB_FORM_BITS | form);
}

/* An unused entry of the version array. */
static __always_inline bool version_unused(const struct bpfdb_version *v)
{
	return !LOAD_ACQUIRE(v->meta);
}

/* meta of an entry that is in use: never 0. */
#define VERSION_IN_USE (1ULL << BPFDB_FORM_BITS)

static __always_inline struct bpfdb_aux *aux_of(const struct bpfdb_cell *cell, u64 header)
{
	return header & BPFDB_CELL_AUX ? bpfdb_at(cell_link(cell)) : NULL;
}

/* Are there cells at this address, or values? A page that has cells when a program
 * looks keeps them until that program has ended (merge.bpf.h). */
static __always_inline bool address_is_of_cell(u64 address)
{
	struct bpfdb_slab *slab = slab_of_page(page_of(address));

	return slab && LOAD_ACQUIRE(slab->class_) == BPFDB_PAGE_INDEX;
}

/* ---- Which versions are needed --------------------------------------------- */

/* The versions of a record, and what the running snapshots make of them. A bit of
 * a mask is an entry of the version array; bit 8 is the head. */
struct need {
	u64 stamps[BPFDB_VERSIONS_MAX + 1]; /* the last one: the head's */
	u16 used;   /* there is a version */
	u16 needed; /* a snapshot sees it */
	u16 young;  /* one that must not be revoked does */
	u16 victim; /* snapshots that see this one are to be revoked; 0: none are */
	u64 young_since; /* snapshots that began later must not be revoked */
	u64 newest; /* of all snapshots */
	u32 newest_session;
	u32 revoked; /* how many were */
};

#define NEED_HEAD BPFDB_VERSIONS_MAX
#define NEED_HEAD_BIT (1u << NEED_HEAD)
/* A snapshot that is starting may see any. */
#define NEED_ALL 0xffff

/* The version that `snapshot` sees, as a bit; 0: none. */
static __always_inline u32 need_bit(const struct need *n, u64 snapshot)
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
	return bit;
}

static __always_inline bool snapshot_is_young(const struct need *n, u32 session)
{
	struct bpfdb_session *s = bpfdb_session(session);

	return !s || s->begun > n->young_since;
}

static __always_inline void need_mark(struct need *n, u64 *slot, u32 session, u64 published)
{
	u64 snapshot = published - 1;
	u32 bit = n->used ? need_bit(n, snapshot) : 0;

	if (snapshot > n->newest) {
		n->newest = snapshot;
		n->newest_session = session;
	}
	n->needed |= bit;
	if (!n->young_since || !bit)
		return;
	if (snapshot_is_young(n, session)) {
		n->young |= bit;
	} else if (bit == n->victim && CAS(slot, published, SNAPSHOT_REVOKED) == published) {
		STORE(engine.snapshots.ended, snapshot);
		n->revoked++;
	}
}

/* Marks what the running snapshot of a session sees, if there is one. A subprogram: the loop
 * over sessions would be walked once for each version that a snapshot may see. */
__noinline int need_session(struct need *n NONNULL, u32 session)
{
	u64 *slot = snapshot_slot(session);
	u64 published = slot ? LOAD_ACQUIRE(*slot) : 0;

	if (published && published != SNAPSHOT_REVOKED)
		need_mark(n, slot, session, published);
	return 0;
}

static __always_inline void need_group(struct need *n, u32 group)
{
	repeat(i, BPFDB_SNAPSHOT_GROUP) need_session(n, group * BPFDB_SNAPSHOT_GROUP + i);
}

/* Looks at all running snapshots, and makes the bound of the newest one exact. A
 * snapshot that is starting may need everything. */
static __always_inline void need_compute(struct need *n)
{
	u64 newest = LOAD_ACQUIRE(engine.snapshots.newest);

	if (snapshots_none())
		return;
	if (snapshot_is_starting()) {
		n->needed = n->young = NEED_ALL;
		return;
	}
	repeat(group, BPFDB_SESSIONS_MAX / BPFDB_SNAPSHOT_GROUP)
	{
		u32 i = group;
		u64 *running = bpf_map_lookup_elem(&snapshot_groups, &i);

		if (!running)
			break;
		if (LOAD_ACQUIRE(*running))
			need_group(n, group);
	}
	if (n->newest <= newest && CAS(&engine.snapshots.newest, newest, n->newest) == newest)
		STORE(engine.snapshots.newest_session, n->newest_session);
}

static __always_inline void need_load(struct need *n, struct bpfdb_cell *cell,
				      struct bpfdb_aux *aux)
{
	n->stamps[NEED_HEAD] = version_stamp(&cell->head);
	n->used = NEED_HEAD_BIT;
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

/* Entries of the version array that are in use. */
static __always_inline u32 need_entries(const struct need *n)
{
	return __builtin_popcount(n->used & (NEED_HEAD_BIT - 1));
}

/* Is there no entry for the head, which is going to be replaced? */
static __always_inline bool need_exceeds(const struct need *n)
{
	return need_entries(n) >= config.versions - !!(n->needed & NEED_HEAD_BIT);
}

/*
 * The version whose snapshots are to be revoked: the oldest that only such snapshots see
 * as may be; 0: none. The head is one if nothing else is and that helps: what no snapshot
 * sees needs no entry. (It does with one version per record. With more of them, an entry
 * is always seen by older snapshots than the head is.)
 */
static __always_inline u32 need_victim(const struct need *n)
{
	u32 mask = n->used & n->needed & ~n->young, bit = 0;
	u64 oldest = ~0ULL;

#pragma clang loop unroll(full)
	for (u32 i = 0; i < BPFDB_VERSIONS_MAX; i++) {
		if ((mask >> i & 1) && n->stamps[i] < oldest) {
			oldest = n->stamps[i];
			bit = 1u << i;
		}
	}
	return bit || need_entries(n) >= config.versions ? bit : mask & NEED_HEAD_BIT;
}

/* ---- The version array ------------------------------------------------------ */

/* Entry `i` of a version array. */
static __always_inline struct bpfdb_version *version_at(struct bpfdb_aux *aux, u64 i)
{
	OPAQUE(i);
	return &aux->history[i % BPFDB_VERSIONS_MAX];
}

/* Copies the head into a free entry. False: there is none. */
static __always_inline bool version_push(struct bpfdb_cell *cell, struct bpfdb_aux *aux)
{
	repeat(i, config.versions)
	{
		struct bpfdb_version *v = version_at(aux, i);

		if (!version_unused(v))
			continue;
		STORE(v->stamp, version_stamp(&cell->head));
		STORE(v->data[0], cell->head.data[0]);
		STORE(v->data[1], cell->head.data[1]);
		STORE_RELEASE(v->meta, VERSION_IN_USE | version_form(&cell->head));
		aux->used++;
		ADD(&engine.versions.value, 1);
		return true;
	}
	return false;
}

/* The session gets an aux block, for a latched section that must not allocate.
 * False: no memory. */
static __always_inline bool spare_aux_ready(struct bpfdb_session *s)
{
	if (!s->spare_aux)
		s->spare_aux = slot_alloc_for(aux_size(), s->value_len == BPFDB_ABSENT ? FOR_FREEING
										       : FOR_DATA);
	return s->spare_aux;
}

static __always_inline void spare_aux_free(struct bpfdb_session *s)
{
	u64 address = s->spare_aux;

	s->spare_aux = 0;
	if (address)
		bpfdb_slot_free(address);
}

/* The session's aux block becomes that of a latched cell; NULL: it has none. The
 * link means nothing until the header says AUX, so readers are not misled. */
static __always_inline struct bpfdb_aux *cell_aux_attach(struct bpfdb_session *s,
							 struct bpfdb_cell *cell)
{
	u64 address = s->spare_aux;
	struct bpfdb_aux *aux = address ? bpfdb_at(address) : NULL;

	if (!aux)
		return NULL;
	s->spare_aux = 0;
	aux->used = 0;
	for (u32 i = 0; i < BPFDB_VERSIONS_MAX; i++) {
		if (i < config.versions)
			STORE(aux->history[i].meta, 0);
	}
	cell_set_meta(cell, address, version_form(&cell->head));
	cell_set_header(cell, (LOAD(cell->header) & (BPFDB_CELL_CHANGE - 1)) | BPFDB_CELL_AUX);
	return aux;
}

/* By the holder of the latch: an aux block without versions leaves the cell. Its
 * address, to be freed when the section has ended; 0: it stays. */
static __always_inline u64 cell_aux_detach_empty(struct bpfdb_cell *cell)
{
	struct bpfdb_aux *aux = aux_of(cell, LOAD(cell->header));
	u64 link = cell_link(cell);

	if (!aux || aux->used)
		return 0;
	cell_set_header(cell, LOAD(cell->header) & (BPFDB_CELL_CHANGE - 1) & ~BPFDB_CELL_AUX);
	/* After the header: a reader that still reads the link finds the header changed. */
	cell_set_meta(cell, 0, version_form(&cell->head));
	return link;
}

/* Rounds of the sweeper until it has visited every record: one may be half done. */
#define SWEEP_ROUNDS 2

/* ---- Pruning ---------------------------------------------------------------- */

/* What a latched section took out of a record, to be freed after it. */
struct leftovers {
	u64 data; /* of the version */
	u32 form; /* 0: nothing, as an inline value has none */
	u32 reserved;
	u64 aux;   /* 0: none */
	u64 empty; /* address of the record if nothing is left of it; else 0 */
};

/* The link to an aux block that the record has no more, and that is not free yet, makes room for an
 * access word; unless the head was written since. */
static __always_inline void link_forget(struct bpfdb_cell *cell, u64 link)
{
	u64 meta = LOAD(cell->head.meta);

	if (meta >> BPFDB_FORM_BITS == link / BPFDB_GRAIN)
		CAS(&cell->head.meta, meta, meta & BPFDB_FORM_MASK);
}

/*
 * Drops entry `i` of the version array of the record that has *header, which goes
 * on being its header. False: the record changed. A reader that still has the entry
 * in hand must not take what is put there next for the same version: so the
 * header's counter changes.
 */
static __always_inline bool version_drop(struct bpfdb_cell *cell, u64 *header, u32 i)
{
	u64 before = *header, data = 0, emptied = 0;
	struct bpfdb_aux *aux = NULL;
	u32 form = 0;

	preempt_off();
	if (CAS(&cell->header, before, before | BPFDB_CELL_LATCH) == before) {
		aux = aux_of(cell, before);
		*header = header_next(before, before & (BPFDB_CELL_CHANGE - 1));
		if (aux) {
			form = version_form(&aux->history[i]);
			data = aux->history[i].data[0];
			STORE(aux->history[i].meta, 0);
			if (!--aux->used) {
				*header &= ~BPFDB_CELL_AUX;
				emptied = cell_link(cell);
			}
		}
		STORE_RELEASE(cell->header, *header);
	}
	preempt_on();
	if (!aux)
		return false;
	version_dispose(form, data);
	if (emptied) {
		link_forget(cell, emptied);
		bpfdb_slot_free(emptied);
	}
	return true;
}

/* Drops every entry that is not needed. False: the record changed. */
static __always_inline bool versions_drop(struct need *n, struct bpfdb_cell *cell, u64 header)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < BPFDB_VERSIONS_MAX; i++) {
		if (i >= config.versions)
			break;
		if (!(n->used & ~n->needed & 1u << i))
			continue;
		if (!version_drop(cell, &header, i))
			return false;
		n->used &= ~(1u << i);
		ADD(&engine.versions.value, -1);
		COUNT(versions_pruned);
	}
	return true;
}

/* Revokes the snapshots for which alone the oldest version is kept that can be
 * had so. True if there were any. */
static __always_inline bool versions_revoke(struct need *n)
{
	n->victim = need_victim(n);
	if (!n->victim)
		return false;
	need_compute(n);
	COUNT_N(snapshots_revoked, n->revoked);
	return n->revoked || n->needed == NEED_ALL;
}

/*
 * Memory is short: revokes all snapshots that are old enough. How many. The versions
 * that they kept come back with the sweeper's next round.
 */
__noinline int snapshots_revoke_old(void)
{
	u64 age = LOAD(engine.snapshots.age_max), now = LOAD(engine.now.value);
	/* Whatever a snapshot sees, it sees the only version that is listed here. */
	struct need need = {.used = NEED_HEAD_BIT, .victim = NEED_HEAD_BIT};

	if (!age || now <= age || !LOAD(engine.versions.value))
		return 0;
	need.young_since = now - age;
	need_compute(&need);
	if (!need.revoked)
		return 0;
	COUNT_N(snapshots_revoked, need.revoked);
	STORE(engine.snapshots.sweeping, SWEEP_ROUNDS);
	return need.revoked;
}

/*
 * Prunes the versions of the record at `address`, which is not latched. OK;
 * RETRY: it changed meanwhile, or there may be room now; VERSIONS_FULL: the head has
 * no place in the version array. `young_since`: see struct need; 0: no snapshot is
 * revoked. Takes no longer than one look at all snapshots, or two.
 */
__noinline int history_prune(u64 address, u64 young_since)
{
	struct need need = {.young_since = young_since};
	struct bpfdb_cell *cell = bpfdb_at(address);
	struct bpfdb_aux *aux;
	u64 header;

	if (!cell)
		return BPFDB_CORRUPT;
	/* A lock's address is a hint. */
	if (!address_is_of_cell(address))
		return RETRY;
	header = LOAD_ACQUIRE(cell->header);
	aux = aux_of(cell, header);
	need_load(&need, cell, aux);
	if ((header & (BPFDB_CELL_USED | BPFDB_CELL_LATCH)) != BPFDB_CELL_USED ||
	    LOAD_AFTER(cell->header) != header)
		return RETRY;
	need_compute(&need);
	if (aux && !versions_drop(&need, cell, header))
		return RETRY;
	if (!need_exceeds(&need))
		return BPFDB_OK;
	/* Absence with nothing before it needs no entry: head_preserve(). */
	if (!(need.used & (NEED_HEAD_BIT - 1)) && version_form(&cell->head) == BPFDB_ABSENT)
		return BPFDB_OK;
	/* A snapshot that is starting will have begun in a moment. */
	if (need.needed == NEED_ALL || (need.young_since && versions_revoke(&need)))
		return RETRY;
	return BPFDB_VERSIONS_FULL;
}

/* Not an outcome: what a SET finds in its way. See versions_room(). */
#define NEED_VERSIONS 102

/*
 * Makes what a SET of the session wants before it replaces the head of the record
 * at s->room_cell: certainty about the newest snapshot, an aux block, room in the
 * version array. RETRY if it may succeed now, else VERSIONS_FULL or out of memory.
 */
__noinline int versions_room(struct bpfdb_session *s NONNULL)
{
	u64 age = LOAD(engine.snapshots.age_max), now = LOAD(engine.now.value);
	int status;

	/* That may have been all: the next attempt knows. */
	if (!s->spare_aux)
		return spare_aux_ready(s) ? RETRY : no_memory();
	status = history_prune(s->room_cell, age && now > age ? now - age : 0);
	return status == BPFDB_OK ? RETRY : status;
}

#endif
