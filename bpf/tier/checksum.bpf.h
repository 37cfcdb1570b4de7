/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* CRC-32C of an entry in a seat (docs/formats/runs.md): eight bytes at a time, by tables ("slicing by 8", Kounavis and Berry 2005). */
#ifndef BPFDB_TIER_CHECKSUM_BPF_H
#define BPFDB_TIER_CHECKSUM_BPF_H

#include "seat.bpf.h"

/* The checksum begins behind itself. */
#define CHECKED_FROM 4

static __always_inline u32 crc_part(u32 table, u64 byte)
{
	return parking.crc[table][byte & 0xff];
}

static __always_inline u32 crc_word(u32 crc, u64 word)
{
	word ^= crc;
	return crc_part(7, word) ^ crc_part(6, word >> 8) ^ crc_part(5, word >> 16) ^
	       crc_part(4, word >> 24) ^ crc_part(3, word >> 32) ^ crc_part(2, word >> 40) ^
	       crc_part(1, word >> 48) ^ crc_part(0, word >> 56);
}

/* Of the entry's bytes from CHECKED_FROM up to `bytes`, which is at most BPFDB_SEAT_ENTRY. */
__noinline u32 entry_checksum(u32 number, u32 bytes)
{
	struct bpfdb_seat *seat = seat_at(number);
	u32 crc = ~0U, words, rest;

	if (!seat || bytes < CHECKED_FROM || bytes > BPFDB_SEAT_ENTRY)
		return 0;
	words = (bytes - CHECKED_FROM) / 8;
	rest = (bytes - CHECKED_FROM) % 8;
	repeat(i, BPFDB_SEAT_ENTRY / 8)
	{
		u32 at = i;

		if (i >= words)
			break;
		/* Not an induction variable of its own: the verifier would walk all rounds. */
		OPAQUE(at);
		crc = crc_word(crc, *(u64 *)seat_byte(seat, CHECKED_FROM + at * 8));
	}
	repeat(i, 8)
	{
		u32 at = i;

		if (i >= rest)
			break;
		OPAQUE(at);
		crc = crc >> 8 ^
		      crc_part(0, crc ^ *(u8 *)seat_byte(seat, CHECKED_FROM + words * 8 + at));
	}
	return ~crc;
}

#endif
