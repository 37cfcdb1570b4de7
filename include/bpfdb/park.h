/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * GETs of cold values that are answered when their read completes: what the front end's programs (bpf/tier, bpf/redis)
 * and the daemon (crates/bpfdb-tier) share. bpf/tier/park.bpf.h has the protocol.
 */
#ifndef BPFDB_PARK_H
#define BPFDB_PARK_H

#include <linux/types.h>
#include <bpfdb/limits.h>
#include <bpfdb/ring.h>
#include <bpfdb/run.h>

/* Connections that may have a request parked; a power of two. */
#define BPFDB_SEATS 256
/* Longest entry of a run that is read so, bytes: its checksum takes a program some 3 µs. A power of two. */
#define BPFDB_SEAT_ENTRY 4096
/* Longest request: a GET of the longest key. */
#define BPFDB_SEAT_REQUEST (BPFDB_KEY_MAX + 64)
/* So many requests that find no cold value are looked at for one, behind one that did. */
#define BPFDB_SEAT_EAGER 8
/* Places whose values were read lately; a power of two. */
#define BPFDB_PARK_RECENT (1 << 14)

/* `word` of a seat: its state, and above that how often a request was parked in it, or an owner came. */
enum bpfdb_seat_state {
	BPFDB_SEAT_IDLE = 0,
	BPFDB_SEAT_READING,
	BPFDB_SEAT_SENDING,
	BPFDB_SEAT_FAILED,
	BPFDB_SEAT_LATE,
	BPFDB_SEAT_TAKEN,
};
#define BPFDB_SEAT_STATE_BITS 3
#define BPFDB_SEAT_STATE_MASK ((1ULL << BPFDB_SEAT_STATE_BITS) - 1)

/* One seat: its number is that of its socket among the files of the ring, behind those of runs. */
struct bpfdb_seat {
	__u64 word;
	__u64 cookie; /* of the socket that has it; the daemon writes this, and the index, in IDLE */
	__u32 connection; /* its index */
	__u32 eager; /* requests that are to be looked at yet: BPFDB_SEAT_EAGER */
	__u64 since; /* when the request was parked, CLOCK_MONOTONIC, nanoseconds */
	/* Where the value is, as the version said. */
	__u64 run;
	__u32 offset; /* in grains of BPFDB_LOG_GRAIN bytes */
	__u32 checksum;
	__u32 len; /* of the value, bytes */
	__u32 key_len; /* of the stored key, bytes */
	__u32 request_len; /* bytes */
	__u32 reply_len; /* bytes */
	__u64 key[BPFDB_KEY_MAX / 8 + 2]; /* the stored key, as a session has it */
	__u8 request[BPFDB_SEAT_REQUEST]; /* as it arrived */
	/* The entry; then the reply: in front of the value, and two bytes behind. */
	__u8 entry[BPFDB_SEAT_ENTRY];
	__u8 behind[64];
};
_Static_assert(sizeof(struct bpfdb_seat) % 8 == 0, "as the kernel lays values of a map out");

struct bpfdb_parking {
	struct bpfdb_ring ring;
	__u32 is_on; /* requests may be parked */
	__u32 is_full; /* memory is: only what is read twice comes back to it */
	__u64 seats; /* address of the first struct bpfdb_seat in the process */
	__u64 engine; /* its identity, as runs have it */
	__u64 hello; /* user data of the requests by which the ring is known; 0: there is none */
	__u64 context; /* the ring, as its completions name it; 0: not known yet */
	__u64 bell; /* descriptor of the bell in the process */
	__u32 thread; /* that submits, by its number in the first namespace of processes; 0: not known yet */
	__u32 waits; /* it is about to wait, or does: what is to be submitted has to wake it */
	/* Counted by programs: requests that were parked; that were answered; that were left to the daemon. */
	__u64 parked;
	__u64 answered;
	__u64 left;
	/* Bytes of the values of those that were answered. */
	__u64 answered_bytes;
	/* Places by their hash, and the rest of that. */
	__u32 recent[BPFDB_PARK_RECENT];
	/* Of CRC-32C, eight bytes at a time: what byte i, seen so many bytes from the end, adds. The daemon fills it. */
	__u32 crc[8][256];
};

#endif
