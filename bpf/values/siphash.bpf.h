/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* SipHash-1-3, by which elements of large collections are in buckets: one round for each word, three
 * at the end. crates/bpfdb-values/src/big/siphash.rs computes the same. */
#ifndef BPFDB_VALUES_SIPHASH_BPF_H
#define BPFDB_VALUES_SIPHASH_BPF_H

#include "packed.bpf.h"

#define SIP_END_ROUNDS 3

static __always_inline u64 sip_rotate(u64 word, u32 bits)
{
	return word << bits | word >> (64 - bits);
}

static __always_inline void sip_round(u64 *v0, u64 *v1, u64 *v2, u64 *v3)
{
	*v0 += *v1;
	*v2 += *v3;
	*v1 = sip_rotate(*v1, 13) ^ *v0;
	*v3 = sip_rotate(*v3, 16) ^ *v2;
	*v0 = sip_rotate(*v0, 32);
	*v2 += *v1;
	*v0 += *v3;
	*v1 = sip_rotate(*v1, 17) ^ *v2;
	*v3 = sip_rotate(*v3, 21) ^ *v0;
	*v2 = sip_rotate(*v2, 32);
}

/* The hash of `len` bytes, with a key of two words. A subprogram: the verifier walks the loop once. */
__noinline u64 siphash(const struct packed_key *of NONNULL, u32 len, u64 k0, u64 k1)
{
	u64 v0 = k0 ^ 0x736f6d6570736575ULL, v1 = k1 ^ 0x646f72616e646f6dULL;
	u64 v2 = k0 ^ 0x6c7967656e657261ULL, v3 = k1 ^ 0x7465646279746573ULL, word, end = len;

	repeat(i, PACKED_BYTES_MAX / 8)
	{
		u64 offset = i;

		/* Not an induction variable of its own: the verifier would walk all rounds. */
		OPAQUE(offset);
		offset *= 8;
		if (offset + 8 > len)
			break;
		offset &= PACKED_BYTES_MAX & ~7u;
		word = load8(of->bytes + offset);
		v3 ^= word;
		sip_round(&v0, &v1, &v2, &v3);
		v0 ^= word;
	}
	/* The bytes that are left, and the length. */
	OPAQUE(end);
	word = low_bytes(load8(of->bytes + (end & PACKED_BYTES_MAX & ~7u)), len % 8);
	word |= (u64)len << 56;
	v3 ^= word;
	sip_round(&v0, &v1, &v2, &v3);
	v0 ^= word;
	v2 ^= 0xff;
	for (u32 i = 0; i < SIP_END_ROUNDS; i++)
		sip_round(&v0, &v1, &v2, &v3);
	return v0 ^ v1 ^ v2 ^ v3;
}

#endif
