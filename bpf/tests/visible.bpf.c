// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The table of txn/visible.bpf.h, row by row, on a record made by hand:
 *
 *   history: 1 at timestamp 10 · head: 2 at timestamp 20 · pending: 3
 */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define OLD 1
#define HEAD 2
#define NEW 3
#define NOTHING 0
#define AT_HISTORY 10
#define AT_HEAD 20

/* Every scene has a record of its own. */
u64 scene_key = 4711;

struct scene {
	struct bpfdb_session *owner, *reader;
	struct bpfdb_cell *cell;
	u64 address;
};

/* A record whose cell nothing else touches: it is locked all the time. */
static __always_inline int scene_make(struct scene *scene)
{
	struct bpfdb_session *owner = test_session(), *reader = test_session();
	struct bpfdb_cell *cell;
	struct bpfdb_aux *aux;
	struct bpfdb_lock *lock;

	EXPECT(owner && reader);
	EXPECT(set_number(owner, ++scene_key, HEAD) == BPFDB_OK);
	cell = cell_of_key(owner, &scene->address);
	EXPECT(cell);
	STORE(cell->header, BPFDB_CELL_USED | BPFDB_CELL_EXCLUSIVE | owner_field(owner, 0));
	aux = spare_aux_ready(owner) ? cell_aux_attach(owner, cell) : NULL;
	EXPECT(aux);
	aux->used = 1;
	aux->history[0].stamp = AT_HISTORY;
	aux->history[0].data[0] = OLD;
	aux->history[0].meta = VERSION_IN_USE | sizeof(u64);
	cell->head.stamp = (cell->head.stamp & ~BPFDB_STAMP_MASK) | AT_HEAD;
	lock = &owner->locks[0];
	lock->mode = BPFDB_LOCK_PENDING;
	lock->meta = sizeof(u64);
	lock->data[0] = NEW;
	scene->owner = owner;
	scene->reader = reader;
	scene->cell = cell;
	return 0;
}

/* Takes it apart again, as deleting the key would. */
static __always_inline int scene_end(struct scene *scene)
{
	STORE(scene->owner->commit, 0);
	scene->owner->state = BPFDB_TXN_NONE;
	bpfdb_slot_free(cell_link(scene->cell));
	STORE(scene->cell->header, BPFDB_CELL_USED);
	key_number(scene->reader, scene_key);
	EXPECT(bpfdb_delete(scene->reader) == BPFDB_FOUND);
	bpfdb_session_close(scene->owner);
	bpfdb_session_close(scene->reader);
	return 0;
}

/* What a reader at `snapshot` sees with these flags and this commit word. */
static __always_inline u64 seen(struct scene *scene, u64 flags, u64 word, u64 snapshot)
{
	u64 header = flags | BPFDB_CELL_USED | BPFDB_CELL_EXCLUSIVE | owner_field(scene->owner, 0);
	int status;

	STORE(scene->cell->header, header);
	STORE(scene->owner->commit, word);
	status = read_visible(scene->reader, scene->cell, scene->address, header, snapshot);
	if (status == BPFDB_NOT_FOUND)
		return NOTHING;
	return status == BPFDB_FOUND ? scene->reader->value[0] : 1000 + status;
}

#define PENDING BPFDB_CELL_PENDING
#define AUX BPFDB_CELL_AUX
#define REPLACING BPFDB_CELL_REPLACING
#define NONE 0
#define COMMITTED(t) commit_word(BPFDB_PHASE_COMMITTED, t)
#define COMMITTING(n) commit_word(BPFDB_PHASE_COMMITTING, n)

#define SEES(version, flags, word, snapshot)                                                       \
	EXPECT(seen(&scene, UNKNOWN(flags), UNKNOWN(word), UNKNOWN(snapshot)) == (version))

TEST(not_pending)
{
	struct scene scene = {};

	PASS(scene_make(&scene));
	SEES(HEAD, AUX, NONE, LATEST);
	SEES(HEAD, AUX, NONE, AT_HEAD);
	SEES(OLD, AUX, NONE, AT_HEAD - 1);
	SEES(OLD, AUX, NONE, AT_HISTORY);
	SEES(NOTHING, AUX, NONE, AT_HISTORY - 1);
	SEES(HEAD, 0, NONE, LATEST);
	SEES(HEAD, 0, NONE, AT_HEAD);
	SEES(NOTHING, 0, NONE, AT_HEAD - 1);
	/* The word of an owner without a pending version says nothing. */
	SEES(HEAD, AUX, COMMITTED(5), LATEST);
	return scene_end(&scene);
}

TEST(pending_and_not_announced)
{
	struct scene scene = {};

	PASS(scene_make(&scene));
	SEES(HEAD, PENDING | AUX, NONE, LATEST);
	SEES(HEAD, PENDING | AUX, NONE, AT_HEAD);
	SEES(OLD, PENDING | AUX, NONE, AT_HEAD - 1);
	SEES(NOTHING, PENDING | AUX, NONE, AT_HISTORY - 1);
	SEES(NOTHING, PENDING, NONE, AT_HEAD - 1);
	return scene_end(&scene);
}

TEST(pending_and_announced)
{
	struct scene scene = {};
	u64 clock;

	PASS(scene_make(&scene));
	STORE(engine.clock.value, 30);
	clock = engine.clock.value;
	/* Without a snapshot: not committed yet, and it is not decided. */
	SEES(HEAD, PENDING | AUX, COMMITTING(7), LATEST);
	EXPECT(scene.owner->commit == COMMITTING(7));
	/* A snapshot decides: after itself. */
	SEES(HEAD, PENDING | AUX, COMMITTING(7), clock - 1);
	EXPECT(scene.owner->commit == COMMITTED(clock));
	SEES(OLD, PENDING | AUX, COMMITTING(8), AT_HEAD - 1);
	EXPECT(scene.owner->commit == COMMITTED(clock));
	return scene_end(&scene);
}

TEST(pending_and_committed)
{
	struct scene scene = {};

	PASS(scene_make(&scene));
	SEES(NEW, PENDING | AUX, COMMITTED(25), LATEST);
	SEES(NEW, PENDING | AUX, COMMITTED(25), 25);
	SEES(NEW, PENDING | AUX, COMMITTED(25), 26);
	SEES(HEAD, PENDING | AUX, COMMITTED(25), 24);
	SEES(OLD, PENDING | AUX, COMMITTED(25), AT_HEAD - 1);
	SEES(NOTHING, PENDING | AUX, COMMITTED(25), AT_HISTORY - 1);
	SEES(NOTHING, PENDING, COMMITTED(25), AT_HEAD - 1);
	return scene_end(&scene);
}

/* The head is half old, half new: no reader may take it. */
TEST(replacing)
{
	struct scene scene = {};

	PASS(scene_make(&scene));
	SEES(NEW, PENDING | REPLACING | AUX, COMMITTED(25), LATEST);
	SEES(NEW, PENDING | REPLACING | AUX, COMMITTED(25), 25);
	SEES(OLD, PENDING | REPLACING | AUX, COMMITTED(25), 24);
	SEES(OLD, PENDING | REPLACING | AUX, COMMITTED(25), AT_HISTORY);
	SEES(NOTHING, PENDING | REPLACING | AUX, COMMITTED(25), AT_HISTORY - 1);
	SEES(NOTHING, PENDING | REPLACING, COMMITTED(25), 24);
	return scene_end(&scene);
}

TEST(ones_own_pending_version)
{
	struct scene scene = {};
	struct bpfdb_session *owner;
	u64 header;

	PASS(scene_make(&scene));
	owner = scene.owner;
	header = BPFDB_CELL_USED | BPFDB_CELL_EXCLUSIVE | PENDING | owner_field(owner, 0);
	STORE(scene.cell->header, header);
	owner->last_active = engine.now.value;
	owner->state = BPFDB_TXN_WRITE;
	EXPECT(read_visible(owner, scene.cell, scene.address, header, LATEST) == BPFDB_FOUND);
	EXPECT(owner->value[0] == NEW);
	owner->locks[0].meta = BPFDB_ABSENT;
	EXPECT(read_visible(owner, scene.cell, scene.address, header, LATEST) == BPFDB_NOT_FOUND);
	/* Rolled back, but not released yet. */
	owner->state = BPFDB_TXN_NONE;
	EXPECT(read_visible(owner, scene.cell, scene.address, header, LATEST) == BPFDB_FOUND);
	EXPECT(owner->value[0] == HEAD);
	return scene_end(&scene);
}

TEST(a_pending_deletion_is_absence)
{
	struct scene scene = {};

	PASS(scene_make(&scene));
	scene.owner->locks[0].meta = BPFDB_ABSENT;
	SEES(NOTHING, PENDING | AUX, COMMITTED(25), 25);
	SEES(HEAD, PENDING | AUX, COMMITTED(25), 24);
	SEES(HEAD, PENDING | AUX, NONE, LATEST);
	return scene_end(&scene);
}

/* A header that is not the record's any more is never believed. */
TEST(a_stale_header_is_read_again)
{
	struct scene scene = {};
	u64 header, stale;

	PASS(scene_make(&scene));
	header = BPFDB_CELL_USED | BPFDB_CELL_EXCLUSIVE | PENDING | owner_field(scene.owner, 0);
	stale = header;
	STORE(scene.cell->header, header_next(header, header & (BPFDB_CELL_CHANGE - 1)));
	STORE(scene.owner->commit, COMMITTED(25));
	EXPECT(read_visible(scene.reader, scene.cell, scene.address, stale, LATEST) == RETRY);
	/* In particular the owner's next commit is not decided by it. */
	STORE(scene.owner->commit, COMMITTING(9));
	EXPECT(read_visible(scene.reader, scene.cell, scene.address, stale, 25) == RETRY);
	EXPECT(scene.owner->commit == COMMITTING(9));
	/* A latch, or a lock shared by one more, is no change. */
	STORE(scene.cell->header, BPFDB_CELL_USED | BPFDB_CELL_LATCH | 3 * BPFDB_CELL_READER);
	EXPECT(read_visible(scene.reader, scene.cell, scene.address, BPFDB_CELL_USED, LATEST) ==
	       BPFDB_FOUND);
	EXPECT(scene.reader->value[0] == HEAD);
	return scene_end(&scene);
}
