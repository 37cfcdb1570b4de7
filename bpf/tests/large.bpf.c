// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* storage/large.bpf.h and operators/large.bpf.h: what a large value takes, what
 * holds it, and that all of it comes back. */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define LEN (5 * BPFDB_PAGE_SIZE + 100)

/* More pages than an engine of these tests ever takes. */
#define PAGES_MAX (1u << 20)

/* Free slots of all classes and free pages, as bytes. All pages that were not taken yet
 * count alike: the owner adds memory at any time. */
__noinline u64 memory_free(void)
{
	u64 free;

	/* The timer may be about it: what it has in its hands is in none of the counts. */
	repeat(round, 1u << 20)
	{
		large_collect(1u << 20);
		if (!LOAD(engine.large_garbage.value) && !LOAD(engine.large_collecting.value))
			break;
	}
	repeat(class, BPFDB_CLASSES) spares_release(class);
	free = PAGES_MAX + LOAD(engine.pages_free_count.value) - LOAD(engine.pages_taken.value);
	free <<= BPFDB_PAGE_BITS;
	repeat(page, 1024)
	{
		struct bpfdb_slab *slab = slab_of_page(page);
		u32 class = slab ? slab->class_ : BPFDB_PAGE_UNUSED;

		if (class < BPFDB_CLASSES && page < LOAD(engine.pages_taken.value))
			free += (u64)slab_free_slots(slab->word) * class_size(class) +
				BPFDB_PAGE_SIZE - class_capacity(class) * class_size(class);
	}
	return free;
}

/* A value of `len` bytes, each piece marked by its number; OK or an Error. */
__noinline int build(struct bpfdb_session *s NONNULL, u64 len)
{
	u32 pieces = large_pieces(len);
	u64 address = 0, *piece;
	int status = bpfdb_large_begin(s, len);

	if (status != BPFDB_OK)
		return status;
	repeat(i, 2 * BPFDB_LARGE_PAGES + 1)
	{
		if (i >= pieces)
			break;
		status = bpfdb_large_piece(s, i, &address);
		piece = bpfdb_at(address);
		if (status != BPFDB_OK || !piece)
			return status;
		*piece = i + 1;
	}
	return bpfdb_large_take(s, len, BPFDB_TYPE_STRING);
}

static __always_inline int set_large(struct bpfdb_session *s, u64 key, u64 len)
{
	int status = build(s, len);

	key_number(s, key);
	return status == BPFDB_OK ? bpfdb_set(s) : status;
}

/* Is the large value that GET left in the session `len` bytes in marked pieces? */
__noinline int is_marked(struct bpfdb_session *s NONNULL, u64 len)
{
	struct bpfdb_large *large = bpfdb_at(s->value[0]);
	u32 pieces = large_pieces(len);

	if (s->value_len != BPFDB_LARGE || !large || large->len != len)
		return 0;
	repeat(i, pieces)
	{
		u32 number = i;
		u64 address, *piece;

		OPAQUE(number);
		address = large_piece(large, number);
		piece = address ? bpfdb_at(address) : NULL;
		if (!piece || *piece != number + 1)
			return 0;
	}
	return bpfdb_still_valid(s);
}

TEST(pieces_fit_the_length)
{
	u64 len = UNKNOWN(BPFDB_VALUE_MAX) + 1;

	/* Two pieces, no page. */
	EXPECT(large_pages(len) == 0 && large_pieces(len) == 2);
	EXPECT(large_has_half(len) && large_tail(len) == 1);
	len += BPFDB_PAGE_SIZE - 1;
	EXPECT(large_pages(len) == 1 && large_pieces(len) == 3);
	EXPECT(!large_has_half(len) && large_tail(len) == BPFDB_PIECE_SIZE);
	EXPECT(large_pages(UNKNOWN(2 * BPFDB_PAGE_SIZE)) == 2);
	EXPECT(large_pages(UNKNOWN(BPFDB_LARGE_MAX)) == BPFDB_LARGE_PAGES);
	return 0;
}

TEST(forms_of_large_values)
{
	u32 form = UNKNOWN(BPFDB_LARGE), with = form | BPFDB_EXPIRES;
	u32 typed = form | BPFDB_TYPE_TEST << BPFDB_FORM_LENGTH_BITS;

	EXPECT(form != BPFDB_ABSENT && with != BPFDB_ABSENT);
	EXPECT(!form_expires(form) && form_expires(with));
	EXPECT(form_length(form) == BPFDB_LARGE && form_length(with) == BPFDB_LARGE);
	EXPECT(form_length(form) > BPFDB_VALUE_MAX);
	EXPECT(form_is_large(form) && form_is_large(with) && form_is_large(typed));
	EXPECT(form_is_large(typed | BPFDB_EXPIRES) && form_type(typed) == BPFDB_TYPE_TEST);
	EXPECT(!form_is_large(UNKNOWN(BPFDB_ABSENT)) && !form_is_large(UNKNOWN(BPFDB_VALUE_MAX)));
	EXPECT(!form_is_large(UNKNOWN(BPFDB_EXPIRES)));
	EXPECT(value_fits(form) && value_fits(typed));
	EXPECT(!value_fits(form | BPFDB_TYPE_COUNT << BPFDB_FORM_LENGTH_BITS));
	EXPECT(!value_fits(typed | 1 << BPFDB_FORM_ZERO_BIT));
	return 0;
}

TEST(a_large_value_is_set_read_and_given_back)
{
	struct bpfdb_session *s = test_session();
	u64 before;

	EXPECT(s && set_number(s, 1, 1) == BPFDB_OK);
	before = memory_free();
	EXPECT(set_large(s, 1, LEN) == BPFDB_OK && !s->building);
	EXPECT(memory_free() <= before - LEN);
	EXPECT(get_number(s, 1) == BPFDB_FOUND && is_marked(s, LEN));
	/* Overwritten by a large one, by a small one. */
	EXPECT(set_large(s, 1, 2 * BPFDB_PAGE_SIZE) == BPFDB_OK);
	EXPECT(get_number(s, 1) == BPFDB_FOUND && is_marked(s, 2 * BPFDB_PAGE_SIZE));
	EXPECT(set_number(s, 1, 2) == BPFDB_OK && memory_free() == before);
	/* With half a page: the last two pieces are slots. */
	EXPECT(set_large(s, 1, 3 * BPFDB_PAGE_SIZE + 40000) == BPFDB_OK);
	EXPECT(get_number(s, 1) == BPFDB_FOUND && is_marked(s, 3 * BPFDB_PAGE_SIZE + 40000));
	/* What has no page takes little more than its length. */
	EXPECT(set_large(s, 1, 40000) == BPFDB_OK);
	EXPECT(get_number(s, 1) == BPFDB_FOUND && is_marked(s, 40000));
	EXPECT(before - memory_free() < 40000 + 40000 / 64);
	EXPECT(set_large(s, 1, LEN) == BPFDB_OK && bpfdb_delete(s) == BPFDB_FOUND);
	EXPECT(memory_free() == before);
	bpfdb_session_close(s);
	return 0;
}

TEST(a_refused_set_gives_it_up)
{
	struct bpfdb_session *s = test_session();
	u64 before;

	EXPECT(s && set_number(s, 2, 1) == BPFDB_OK);
	before = memory_free();
	EXPECT(build(s, LEN) == BPFDB_OK);
	s->key_len = 0;
	EXPECT(bpfdb_set(s) == BPFDB_KEY_TOO_LARGE && memory_free() == before);
	/* Read-only transactions refuse it before it takes anything. */
	EXPECT(bpfdb_begin_read_only(s) == BPFDB_OK);
	EXPECT(bpfdb_large_begin(s, LEN) == BPFDB_READ_ONLY && !s->building);
	EXPECT(bpfdb_commit(s) == BPFDB_OK && memory_free() == before);
	EXPECT(bpfdb_large_begin(s, BPFDB_VALUE_MAX) == BPFDB_VALUE_TOO_LARGE);
	EXPECT(bpfdb_large_begin(s, BPFDB_LARGE_MAX + 1ULL) == BPFDB_VALUE_TOO_LARGE);
	bpfdb_session_close(s);
	return 0;
}

/* Nothing was done: what was built is still there for the same request. */
TEST(a_busy_session_keeps_what_was_built)
{
	struct bpfdb_session *s = test_session();
	u64 before, expiring = LOAD(engine.expiring.value);

	EXPECT(s && set_number(s, 2, 1) == BPFDB_OK && bpfdb_begin(s) == BPFDB_OK);
	before = memory_free();
	EXPECT(build(s, LEN) == BPFDB_OK && session_enter(s));
	key_number(s, 2);
	s->expires = ~0ULL >> 8;
	EXPECT(bpfdb_set(s) == BPFDB_SESSION_BUSY && LOAD(engine.expiring.value) == expiring);
	session_leave(s, 0);
	EXPECT(bpfdb_large_take(s, LEN, BPFDB_TYPE_STRING) == BPFDB_OK && bpfdb_set(s) == BPFDB_OK);
	EXPECT(bpfdb_rollback(s) == BPFDB_OK && memory_free() == before);
	bpfdb_session_close(s);
	return 0;
}

TEST(what_is_not_whole_is_not_taken)
{
	struct bpfdb_session *s = test_session();
	u64 address, before = memory_free();

	EXPECT(s);
	EXPECT(bpfdb_large_piece(s, 0, &address) == BPFDB_BAD_REQUEST);
	EXPECT(bpfdb_large_take(s, LEN, BPFDB_TYPE_STRING) == BPFDB_VALUE_TOO_LARGE);
	EXPECT(bpfdb_large_begin(s, LEN) == BPFDB_OK);
	EXPECT(bpfdb_large_piece(s, 0, &address) == BPFDB_OK);
	EXPECT(bpfdb_large_take(s, LEN, BPFDB_TYPE_STRING) == BPFDB_VALUE_TOO_LARGE);
	/* In a transaction that fails it, as it would in SET. */
	EXPECT(bpfdb_begin(s) == BPFDB_OK);
	EXPECT(bpfdb_large_take(s, LEN, BPFDB_TYPE_STRING) == BPFDB_VALUE_TOO_LARGE &&
	       s->state == BPFDB_TXN_FAILED);
	EXPECT(bpfdb_rollback(s) == BPFDB_OK);
	/* The end of the session gives it back. */
	EXPECT(bpfdb_session_close(s) == BPFDB_OK && memory_free() == before);
	return 0;
}

TEST(rollback_and_expiry_give_it_back)
{
	struct bpfdb_session *s = test_session();
	u64 before, expiring = engine.expiring.value;

	EXPECT(s && set_number(s, 3, 1) == BPFDB_OK);
	before = memory_free();
	EXPECT(bpfdb_begin(s) == BPFDB_OK && set_large(s, 3, LEN) == BPFDB_OK);
	EXPECT(set_large(s, 3, LEN) == BPFDB_OK);
	EXPECT(get_number(s, 3) == BPFDB_FOUND && is_marked(s, LEN));
	EXPECT(bpfdb_rollback(s) == BPFDB_OK && memory_free() == before);
	STORE(engine.time.fixed, 1000);
	EXPECT(build(s, LEN) == BPFDB_OK);
	key_number(s, 3);
	s->expires = 1010;
	EXPECT(bpfdb_set(s) == BPFDB_OK && engine.expiring.value == expiring + 1);
	EXPECT(get_number(s, 3) == BPFDB_FOUND && is_marked(s, LEN) && s->found_expires == 1010);
	STORE(engine.time.fixed, 1010);
	EXPECT(get_number(s, 3) == BPFDB_NOT_FOUND);
	EXPECT(set_number(s, 3, 1) == BPFDB_OK && engine.expiring.value == expiring);
	EXPECT(memory_free() == before);
	STORE(engine.time.fixed, 0);
	bpfdb_session_close(s);
	return 0;
}

TEST(the_last_holder_gives_it_back)
{
	struct bpfdb_session *s = test_session();
	u64 before;

	EXPECT(s && set_number(s, 4, 1) == BPFDB_OK && set_number(s, 5, 1) == BPFDB_OK);
	before = memory_free();
	EXPECT(set_large(s, 4, LEN) == BPFDB_OK);
	/* Not without a lock on it. */
	key_number(s, 4);
	EXPECT(bpfdb_large_share(s) == BPFDB_WRONG_STATE && !s->building);
	EXPECT(bpfdb_begin(s) == BPFDB_OK);
	key_number(s, 4);
	EXPECT(bpfdb_large_share(s) == BPFDB_FOUND && s->building);
	key_number(s, 5);
	EXPECT(bpfdb_large_take(s, LEN, BPFDB_TYPE_STRING) == BPFDB_OK && !s->building);
	EXPECT(bpfdb_set(s) == BPFDB_OK && bpfdb_commit(s) == BPFDB_OK);
	EXPECT(set_number(s, 4, 1) == BPFDB_OK && memory_free() < before);
	EXPECT(get_number(s, 5) == BPFDB_FOUND && is_marked(s, LEN));
	EXPECT(set_number(s, 5, 1) == BPFDB_OK && memory_free() == before);
	bpfdb_session_close(s);
	return 0;
}

/* Its type is the one that it was taken with. */
TEST(one_that_is_no_string)
{
	struct bpfdb_session *s = test_session();
	u64 before;

	EXPECT(s && set_number(s, 10, 1) == BPFDB_OK && set_number(s, 11, 1) == BPFDB_OK);
	before = memory_free();
	EXPECT(build(s, LEN) == BPFDB_OK);
	/* What was taken is the session's until a SET comes. */
	s->building = s->value[0];
	s->value_owned = 0;
	EXPECT(bpfdb_large_take(s, LEN, 6) == BPFDB_BAD_REQUEST && s->building);
	EXPECT(bpfdb_large_take(s, LEN, BPFDB_TYPE_TEST) == BPFDB_OK && !s->building);
	key_number(s, 10);
	EXPECT(bpfdb_set(s) == BPFDB_OK);
	EXPECT(get_number(s, 10) == BPFDB_WRONG_TYPE);
	EXPECT(OF_ANY_TYPE(s, get_number(s, 10)) == BPFDB_FOUND);
	EXPECT(form_is_large(s->value_len) && form_type(s->value_len) == BPFDB_TYPE_TEST);
	EXPECT(bpfdb_begin(s) == BPFDB_OK);
	key_number(s, 10);
	EXPECT(bpfdb_large_share(s) == BPFDB_FOUND && s->building);
	EXPECT(form_type(s->value_len) == BPFDB_TYPE_TEST);
	key_number(s, 11);
	EXPECT(bpfdb_large_take(s, LEN, form_type(s->value_len)) == BPFDB_OK);
	EXPECT(bpfdb_set(s) == BPFDB_OK && bpfdb_commit(s) == BPFDB_OK);
	EXPECT(get_number(s, 11) == BPFDB_WRONG_TYPE);
	EXPECT(set_number(s, 10, 1) == BPFDB_OK && set_number(s, 11, 1) == BPFDB_OK);
	EXPECT(memory_free() == before);
	bpfdb_session_close(s);
	return 0;
}

TEST(a_snapshot_keeps_it)
{
	struct bpfdb_session *w = test_session(), *r = test_session();
	u64 before;

	EXPECT(w && r && set_number(w, 6, 1) == BPFDB_OK);
	before = memory_free();
	if (config.versions > 1) {
		EXPECT(set_large(w, 6, LEN) == BPFDB_OK && bpfdb_begin_read_only(r) == BPFDB_OK);
		EXPECT(set_number(w, 6, 1) == BPFDB_OK);
		EXPECT(get_number(r, 6) == BPFDB_FOUND && is_marked(r, LEN));
		EXPECT(bpfdb_commit(r) == BPFDB_OK && set_number(w, 6, 2) == BPFDB_OK);
		/* The aux block went with it, but for the one that the session keeps ready. */
		spare_aux_free(w);
		EXPECT(memory_free() == before);
	}
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}

/* Memory ends in the middle: nothing of the value is left. */
TEST(out_of_memory_leaves_nothing)
{
	struct bpfdb_session *s = test_session();
	u64 before, address, other, pages;
	int status = BPFDB_OK;

	EXPECT(s && set_number(s, 7, 1) == BPFDB_OK);
	before = memory_free();
	/* More than there is, refused before it takes anything. */
	EXPECT(bpfdb_large_begin(s, 128ULL << 20) == BPFDB_OUT_OF_MEMORY && !s->building);
	EXPECT(memory_free() == before);
	/* And by surprise: another session took what it was to have. */
	pages = pages_left();
	EXPECT(bpfdb_large_begin(s, (pages - 1) << BPFDB_PAGE_BITS) == BPFDB_OK);
	address = bpfdb_slot_alloc(BPFDB_PAGE_SIZE);
	other = bpfdb_slot_alloc(BPFDB_PAGE_SIZE);
	EXPECT(address && other);
	EXPECT(bpfdb_begin(s) == BPFDB_OK);
	repeat(i, 2 * BPFDB_LARGE_PAGES)
	{
		u64 piece;

		status = bpfdb_large_piece(s, i, &piece);
		if (status != BPFDB_OK || i >= 2 * pages)
			break;
	}
	EXPECT(status == BPFDB_OUT_OF_MEMORY);
	EXPECT(!s->building && s->state == BPFDB_TXN_FAILED);
	EXPECT(bpfdb_rollback(s) == BPFDB_OK);
	EXPECT(bpfdb_slot_free(address) == BPFDB_OK && bpfdb_slot_free(other) == BPFDB_OK);
	EXPECT(memory_free() == before);
	bpfdb_session_close(s);
	return 0;
}

/* A reader comes back for more: it gets no other value's bytes. */
TEST(another_value_is_not_taken_for_it)
{
	struct bpfdb_session *s = test_session();
	struct bpfdb_large *large;
	u64 id;

	EXPECT(s && set_large(s, 8, LEN) == BPFDB_OK);
	EXPECT(get_number(s, 8) == BPFDB_FOUND);
	large = bpfdb_at(s->value[0]);
	EXPECT(large);
	id = large->id;
	EXPECT(bpfdb_large_find(s, id) == BPFDB_FOUND && is_marked(s, LEN));
	/* The same table's place, the same length. */
	EXPECT(set_large(s, 8, LEN) == BPFDB_OK);
	EXPECT(bpfdb_large_find(s, id) == BPFDB_NOT_FOUND);
	EXPECT(set_number(s, 8, 1) == BPFDB_OK && bpfdb_large_find(s, id) == BPFDB_NOT_FOUND);
	EXPECT(bpfdb_delete(s) == BPFDB_FOUND && bpfdb_large_find(s, id) == BPFDB_NOT_FOUND);
	bpfdb_session_close(s);
	return 0;
}
