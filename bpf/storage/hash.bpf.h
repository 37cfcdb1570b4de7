/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Seeded 64-bit hash of a key. Multiply and xor-shift rounds, as in the
 * finalisers of MurmurHash3 (A. Appleby) and SplitMix64: BPF has no 64x64->128
 * multiply, which faster hashes need. The seeds are random per engine, so that
 * a client cannot aim keys at one index page.
 *
 * The lowest ten bits select the home in an index page, those above the page.
 */
#ifndef BPFDB_HASH_BPF_H
#define BPFDB_HASH_BPF_H

#include "engine_state.bpf.h"

static __always_inline u64 hash_round(u64 h, u64 word)
{
	h = (h ^ word) * 0x9e3779b97f4a7c15ULL;
	return h ^ h >> 32;
}

static __always_inline u64 hash_finish(u64 h)
{
	h *= 0xbf58476d1ce4e5b9ULL;
	h ^= h >> 29;
	h *= 0x94d049bb133111ebULL;
	return h ^ h >> 32;
}

static __always_inline u64 hash_inline_key(u64 k0, u64 k1, u32 len)
{
	u64 h = hash_round(engine.hash_seed[0] + len, k0);

	return hash_finish(hash_round(h ^ engine.hash_seed[1], k1));
}

/* Of the session's key; keys are zero-padded to 8 bytes. */
__noinline u64 hash_long_key(struct bpfdb_session *s NONNULL)
{
	u64 h = engine.hash_seed[0] + s->key_len;

	for (u32 i = 0; i < BPFDB_KEY_MAX / 8; i++) {
		if (i * 8 >= s->key_len)
			break;
		h = hash_round(h, s->key[i]);
	}
	return hash_finish(h ^ engine.hash_seed[1]);
}

#endif
