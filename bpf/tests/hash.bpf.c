// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* storage/hash.bpf.h and the key operand (operators/common.bpf.h). */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Hash of the session's key; 0 if it is refused. */
__noinline u64 key_hash(struct bpfdb_session *s NONNULL)
{
	return key_prepare(s) == BPFDB_OK ? s->hash : 0;
}

/* A key of `len` bytes 0xaa, and `behind` in the rest of its last word. */
__noinline int key_with_rest(struct bpfdb_session *s NONNULL, u32 len, u64 behind)
{
	u32 last = (len - 1) / 8 % (BPFDB_KEY_MAX / 8), rest = len % 8;

	for (u32 i = 0; i < BPFDB_KEY_MAX / 8; i++)
		s->key[i] = 0xaaaaaaaaaaaaaaaaULL;
	if (rest)
		s->key[last] = (s->key[last] & ((1ULL << rest * 8) - 1)) | behind << rest * 8;
	if (len <= 8)
		s->key[1] = behind;
	s->key_len = len;
	return BPFDB_OK;
}

TEST(what_is_behind_a_key_does_not_count)
{
	struct bpfdb_session *s = test_session();

	EXPECT(s);
	for (u32 len = UNKNOWN(1); len <= BPFDB_KEY_MAX && can_loop; len++) {
		u64 hash;

		key_with_rest(s, len, 0);
		hash = key_hash(s);
		key_with_rest(s, len, 0x1234567);
		EXPECT(hash && key_hash(s) == hash);
	}
	bpfdb_session_close(s);
	return 0;
}

TEST(length_counts)
{
	struct bpfdb_session *s = test_session();
	u64 before = 0;

	EXPECT(s);
	/* Keys of zeros differ in nothing else. */
	EXPECT(key_long(s, 0, 0) == BPFDB_OK);
	for (u32 i = 0; i < BPFDB_KEY_MAX / 8; i++)
		s->key[i] = 0;
	for (u32 len = UNKNOWN(1); len <= BPFDB_KEY_MAX && can_loop; len++) {
		s->key_len = len;
		EXPECT(key_hash(s) && s->hash != before);
		before = s->hash;
	}
	bpfdb_session_close(s);
	return 0;
}

TEST(lengths_out_of_bounds_are_refused)
{
	struct bpfdb_session *s = test_session();

	EXPECT(s);
	s->key_len = 0;
	EXPECT(key_prepare(s) == BPFDB_KEY_TOO_LARGE);
	EXPECT(bpfdb_get(s) == BPFDB_KEY_TOO_LARGE);
	s->key_len = BPFDB_KEY_MAX + 1;
	EXPECT(key_prepare(s) == BPFDB_KEY_TOO_LARGE);
	s->key_len = ~0u;
	EXPECT(bpfdb_delete(s) == BPFDB_KEY_TOO_LARGE);
	bpfdb_session_close(s);
	return 0;
}

TEST(every_word_of_a_long_key_counts)
{
	struct bpfdb_session *s = test_session();
	u64 hash;

	EXPECT(s);
	EXPECT(key_long(s, 1, BPFDB_KEY_MAX) == BPFDB_OK);
	hash = key_hash(s);
	EXPECT(hash);
	repeat(i, BPFDB_KEY_MAX / 8)
	{
		u64 word = i;

		OPAQUE(word);
		word %= BPFDB_KEY_MAX / 8;
		s->key[word] ^= 1ULL << 63;
		EXPECT(key_hash(s) && s->hash != hash);
		s->key[word] ^= 1ULL << 63;
	}
	EXPECT(key_hash(s) == hash);
	bpfdb_session_close(s);
	return 0;
}

/* Of how many numbers below 16384 the hash has this bit. */
__noinline u32 ones(u32 bit)
{
	u32 sum = 0;

	repeat(n, 16384) sum += hash_inline_key(n, 0, 8) >> (bit & 63) & 1;
	return sum;
}

/* Half of them: 8192 +- 8 standard deviations, once in 10^13 runs more. */
TEST(bits_are_balanced)
{
	repeat(bit, 64)
	{
		u32 n = ones(bit);

		EXPECT(n > 8192 - 512 && n < 8192 + 512);
	}
	return 0;
}

/* ---- Chosen keys -------------------------------------------------------------- */

#define FLIP (1ULL << 63)
#define FLIP_NEXT (1ULL << 63 | 1ULL << 31)

/* Pairs of 16-byte keys that a product with any constant cannot distinguish. How many have
 * the same `bits` of their hashes. */
__noinline u32 pairs_that_meet(u64 bits)
{
	u32 meet = 0;

	repeat(n, 2048)
	{
		u64 a = n * 0x9e3779b97f4a7c15ULL, b = n;
		u64 difference =
			hash_inline_key(a, b, 16) ^ hash_inline_key(a ^ FLIP, b ^ FLIP_NEXT, 16);

		meet += !(difference & bits);
	}
	return meet;
}

TEST(chosen_short_keys_do_not_meet)
{
	EXPECT(!pairs_that_meet(~0ULL));
	/* Home and the lowest six page bits: 1 of 65,536 would. */
	EXPECT(pairs_that_meet(0xffff) < 4);
	/* Home: 2 of 2,048 would. */
	EXPECT(pairs_that_meet(BPFDB_CELLS_PER_PAGE - 1) < 20);
	return 0;
}

/* The key of 56 bytes with those flips that `choice` says. */
__noinline u64 chosen_hash(struct bpfdb_session *s NONNULL, u32 choice)
{
	key_long(s, 12345, 56);
	for (u32 i = 0; i < 6; i++) {
		if (!(choice >> i & 1))
			continue;
		s->key[i] ^= FLIP;
		s->key[i + 1] ^= FLIP_NEXT;
	}
	return key_hash(s);
}

/* How many of the choices before have the same `bits` of the hash as this one. */
__noinline u32 choices_that_meet(struct bpfdb_session *s NONNULL, u32 choice, u64 bits)
{
	u64 hash = chosen_hash(s, choice);
	u32 meet = 0;

	repeat(i, 64)
	{
		if (i >= choice)
			break;
		meet += !((chosen_hash(s, i) ^ hash) & bits);
	}
	return meet;
}

TEST(chosen_long_keys_do_not_meet)
{
	struct bpfdb_session *s = test_session();
	u32 meet = 0, at_home = 0;

	EXPECT(s);
	repeat(choice, 64)
	{
		meet += choices_that_meet(s, choice, ~0ULL);
		at_home += choices_that_meet(s, choice, BPFDB_CELLS_PER_PAGE - 1);
	}
	/* Of 2,016 pairs. */
	EXPECT(!meet && at_home < 20);
	bpfdb_session_close(s);
	return 0;
}

/* ---- For crates/bpfdb/tests/hash.rs -------------------------------------------- */

/* ctx: secrets are the numbers from this one on, each times an odd constant. */
SEC("raw_tp")
int known_secrets(struct bpf_raw_tracepoint_args *ctx)
{
	u64 first = ctx->args[0], *words = (u64 *)&engine.hash;

	for (u32 i = 0; i < sizeof(engine.hash) / 8; i++)
		words[i] = (first + i) * 0x9e3779b97f4a7c15ULL;
	engine.hash.finish[0] |= 1;
	engine.hash.finish[1] |= 1;
	return 0;
}

/* ctx: session, number, length, shift. Its key is that of key_long(). */
SEC("raw_tp")
int known_hash(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[0]);

	if (!s || key_long(s, ctx->args[1], ctx->args[2]) != BPFDB_OK)
		return 0;
	return key_hash(s) >> (ctx->args[3] & 63);
}
