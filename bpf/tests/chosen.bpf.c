// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Keys that the index cannot tell apart, from an attacker that knows the secrets of the
 * hash: the worst that chosen keys can do. Memory and splits stay bounded, and others
 * are not affected.
 */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define OTHERS 3000
#define SIDE_BY_SIDE 250

/*
 * With these secrets the hash of a word is the upper half of the product of its halves,
 * twice, mixed: nothing (0) for all numbers below 2^32.
 */
static __always_inline void secrets_known(void)
{
	u64 *words = (u64 *)&engine.hash;

	for (u32 i = 0; i < sizeof(engine.hash) / 8; i++)
		STORE(words[i], 0);
	engine.hash.finish[0] = 0xbf58476d1ce4e5b9ULL;
	engine.hash.finish[1] = 0x94d049bb133111ebULL;
}

/* A key that was not chosen. (Not inlined: the verifier would follow its numbers.) */
__noinline u64 other(u64 i)
{
	u64 n = (i + 1) * 0x9e3779b97f4a7c15ULL;

	n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9ULL;
	return (n ^ n >> 27) | 1ULL << 63;
}

__noinline int others_are_there(struct bpfdb_session *s NONNULL, u32 first)
{
	repeat(i, OTHERS) EXPECT(has_number(s, other(first + i), i));
	return 0;
}

/* The first number behind `n` whose hash is 0 in its lowest `bits`, but not in all. */
__noinline u64 next_chosen(u64 n, u32 bits)
{
	repeat(i, 1u << 22)
	{
		u64 hash = hash_inline_key(other(++n), 0, 8);

		if (hash && !(hash & ((1ULL << bits) - 1)))
			break;
	}
	return n;
}

/* As many pages as the records in them make necessary, by BPFDB_SPLIT_SHARE. */
static __always_inline bool pages_are_bounded(u64 records)
{
	return engine.index_pages.value <=
	       1 + records / (BPFDB_SPLIT_CELLS_MIN / BPFDB_SPLIT_SHARE);
}

/* In this order: crates/bpfdb/tests/it/units.rs runs the programs of an object on one engine. */
TEST(a_one_hash_fills_one_neighbourhood)
{
	struct bpfdb_session *s = test_session();
	u64 pages;

	EXPECT(s && engine.index_pages.value == 1);
	secrets_known();
	repeat(i, BPFDB_NEIGHBOURHOOD) EXPECT(set_number(s, i, i) == BPFDB_OK);
	repeat(i, 1000) EXPECT(set_number(s, 100 + i, i) == BPFDB_INDEX_CROWDED);
	EXPECT(engine.index_pages.value == 1);

	/* Nor beside many others, which take pages of their own accord. */
	repeat(i, OTHERS) EXPECT(set_number(s, other(i), i) == BPFDB_OK);
	pages = engine.index_pages.value;
	EXPECT(pages > 1 && pages <= 4 * OTHERS / BPFDB_SPLIT_CELLS + 1);
	repeat(i, 1000) EXPECT(set_number(s, 100 + i, i) == BPFDB_INDEX_CROWDED);
	EXPECT(engine.index_pages.value == pages);
	PASS(others_are_there(s, 0));

	/* What is there can be read, written, deleted; and then there is room. */
	repeat(i, BPFDB_NEIGHBOURHOOD) EXPECT(has_number(s, i, i));
	EXPECT(set_number(s, 7, 8) == BPFDB_OK && has_number(s, 7, 8));
	key_number(s, 7);
	EXPECT(bpfdb_delete(s) == BPFDB_FOUND);
	EXPECT(set_number(s, 1234, 5) == BPFDB_OK);
	EXPECT(set_number(s, 7, 7) == BPFDB_INDEX_CROWDED);
	repeat(i, BPFDB_NEIGHBOURHOOD)
	{
		key_number(s, i);
		bpfdb_delete(s);
	}
	bpfdb_session_close(s);
	return 0;
}

/* SET, again while the timer's merge of a page is in the way. */
static __always_inline int set_patiently(struct bpfdb_session *s, u64 number, u64 value)
{
	int status = BPFDB_MEMORY_PENDING;

	repeat(try, 10000)
	{
		status = set_number(s, number, value);
		if (status != BPFDB_MEMORY_PENDING)
			break;
	}
	return status;
}

/* Home and eight page bits agree, and the others do not: only many splits would part them. */
TEST(b_keys_that_agree_in_few_bits_do_not_get_a_page_each)
{
	struct bpfdb_session *s = test_session();
	u64 n = OTHERS, before = engine.index_pages.value;
	u32 refused = UNKNOWN(0);

	EXPECT(s);
	repeat(i, 60)
	{
		u64 pages = engine.index_pages.value;
		int status;

		n = next_chosen(n, BPFDB_CELL_BITS + 8);
		status = set_patiently(s, other(n), i);
		EXPECT(status == BPFDB_OK || status == BPFDB_INDEX_CROWDED);
		refused += status != BPFDB_OK;
		EXPECT(has_number(s, other(n), i) == (status == BPFDB_OK));
		/* One more is the look whether the page is worth a split. */
		EXPECT(engine.index_pages.value <= pages + BPFDB_SPLITS_MAX + 1);
	}
	EXPECT(refused >= 20 && refused <= 40);
	EXPECT(engine.index_pages.value <= before + 4);
	EXPECT(pages_are_bounded(OTHERS + BPFDB_NEIGHBOURHOOD));
	PASS(others_are_there(s, 0));
	bpfdb_session_close(s);
	return 0;
}

/* In a transaction it is an Error like others. */
TEST(c_a_transaction_is_told)
{
	struct bpfdb_session *s = test_session();

	EXPECT(s);
	repeat(i, BPFDB_NEIGHBOURHOOD)
	{
		if (set_number(s, 5000 + i, i) != BPFDB_OK)
			break;
	}
	EXPECT(bpfdb_begin(s) == BPFDB_OK);
	EXPECT(set_number(s, 9999, 1) == BPFDB_INDEX_CROWDED);
	EXPECT(s->state == BPFDB_TXN_FAILED && s->failure == BPFDB_INDEX_CROWDED);
	EXPECT(bpfdb_rollback(s) == BPFDB_OK);
	PASS(others_are_there(s, 0));
	bpfdb_session_close(s);
	return 0;
}

/* The next number behind `n` whose home is this one. */
__noinline u64 next_at_home(u64 n, u32 home)
{
	repeat(i, 1u << 22)
	{
		if (home_of(hash_inline_key(other(++n), 0, 8)) == home)
			break;
	}
	return n;
}

/* Records of one home, which differ in the bits that splits go by, have room also where they are nearly all
 * that a page has: as after a client has deleted all others, cell by cell. */
TEST(d_few_records_side_by_side_are_parted)
{
	struct bpfdb_session *s = test_session();
	u64 n = 1000 * OTHERS;

	EXPECT(s);
	repeat(i, OTHERS)
	{
		key_number(s, other(i));
		EXPECT(bpfdb_delete(s) == BPFDB_FOUND);
	}
	repeat(i, SIDE_BY_SIDE)
	{
		n = next_at_home(n, BPFDB_CELLS_PER_PAGE / 2);
		EXPECT(set_patiently(s, other(n), i) == BPFDB_OK);
		EXPECT(has_number(s, other(n), i));
	}
	bpfdb_session_close(s);
	return 0;
}
