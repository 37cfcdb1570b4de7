/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The hash of a key: strongly universal, with secret words for each position.
 * (Multilinear hashing, by pairs: O. Kaser and D. Lemire, "Strongly universal
 * string hashing is fast", 2014. Two sums with shifted secrets: H. Krawczyk, 1994.)
 *
 * The key is a row of 32-bit halves h[0], h[1], ... With 64-bit secrets, drawn at
 * random for each engine, and all arithmetic modulo 2^64
 *
 *   sum 1 = start[0] + length[0] * len + SUM (words[2i]   + h[2i]) * (words[2i+1] + h[2i+1])
 *   sum 2 = start[1] + length[1] * len + SUM (words[2i+2] + h[2i]) * (words[2i+3] + h[2i+1])
 *
 * and the upper halves of both are the 64 bits, which a bijection then mixes.
 *
 * Why chosen keys gain nothing. Take two keys, chosen without knowledge of the
 * secrets, as different as you like. The difference of their sums 1 is linear in
 * the secrets: it has the term  words[2i+1] * (h[2i] - h'[2i])  for each half that
 * differs, and  length[0] * (len - len')  if the lengths do. Each factor is a number
 * below 2^32, not 0, so the difference has random upper 32 bits, and start[0]
 * makes the sum itself random besides: all pairs of upper halves are equally
 * likely. For sum 2 as well, and independently: for the last pair of halves that
 * differs it has two secrets that sum 1 has not. So any two keys have the same hash
 * once in 2^64, and the same k bits of it once in 2^k. (A product with a public
 * constant does not give that: it maps a flip of bit 63 to a flip of bit 63.)
 *
 * The bijection. The sums alone are linear: an attacker that sees by the time that operations
 * take which keys meet could work the secrets out. Two multiplications with secret
 * odd numbers, and shifts between them, leave the probabilities above as they
 * are, and such equations unsolved as far as we know. This is not a proof, so
 * splits are bounded all the same (BPFDB_SPLITS_MAX).
 *
 * SipHash-1-3, which would need no such argument, took a GET of a 16-byte key in the
 * kernel from 187 ns to 349: 300 instructions without a rotation among them, during
 * which the processor cannot begin the next record's cache misses.
 *
 * The lowest ten bits select the home in an index page, those above the page.
 */
#ifndef BPFDB_HASH_BPF_H
#define BPFDB_HASH_BPF_H

#include "engine_state.bpf.h"

struct hash_sums {
	u64 a, b;
};

static __always_inline struct hash_sums hash_start(u32 len)
{
	const struct bpfdb_hash_secrets *secret = &engine.hash;

	return (struct hash_sums){
		secret->start[0] + secret->length[0] * len,
		secret->start[1] + secret->length[1] * len,
	};
}

/* Word `i` of the key, and the secrets from its own on. */
static __always_inline void hash_word(struct hash_sums *sums, u64 word, const u64 *secret)
{
	u64 low = (u32)word, high = word >> 32;

	sums->a += (secret[0] + low) * (secret[1] + high);
	sums->b += (secret[2] + low) * (secret[3] + high);
}

static __always_inline u64 hash_finish(struct hash_sums sums)
{
	u64 h = (sums.a & ~0xffffffffULL) | sums.b >> 32;

	h *= engine.hash.finish[0];
	h ^= h >> 29;
	h *= engine.hash.finish[1];
	return h ^ h >> 32;
}

/* Of a key of up to BPFDB_INLINE_MAX bytes, zero-padded. */
static __always_inline u64 hash_inline_key(u64 k0, u64 k1, u32 len)
{
	struct hash_sums sums = hash_start(len);

	hash_word(&sums, k0, engine.hash.words);
	hash_word(&sums, k1, engine.hash.words + 2);
	return hash_finish(sums);
}

/* Of the session's key; keys are zero-padded to 8 bytes. */
__noinline u64 hash_long_key(struct bpfdb_session *s NONNULL)
{
	struct hash_sums sums = hash_start(s->key_len);

	for (u32 i = 0; i < BPFDB_KEY_MAX / 8; i++) {
		if (i * 8 >= s->key_len)
			break;
		hash_word(&sums, s->key[i], engine.hash.words + 2 * i);
	}
	return hash_finish(sums);
}

#endif
