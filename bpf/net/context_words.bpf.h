/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What the transport keeps in a context, the memory in which one message is answered. A front
 * end defines `struct context` with these words first and its own behind them, then includes
 * the rest of the transport. Positions count from the first byte of the message.
 */
#ifndef BPFDB_NET_CONTEXT_WORDS_BPF_H
#define BPFDB_NET_CONTEXT_WORDS_BPF_H

#include <bpfdb/limits.h>
#include <bpfdb/types.bpf.h>

/* Bytes of requests that a parser looks at without loading again. */
#define WINDOW 2048
/* Behind the window: one access of up to a key may begin at its last byte. */
#define WINDOW_PAD (BPFDB_KEY_MAX + 16)

/*
 * busy                   a program has it
 * source, size           of the message: kernel address, bytes
 * window_at, window_end  positions of the window and behind it
 * request                position of the request being answered
 * piece                  of that which the next reply is for: also a part of that request
 * at                     position of the parser
 * complete_size          bytes of the message that would complete the request
 * out                    bytes of replies at the front of the message
 * room                   replies may be written up to here
 * gaps                   bytes inserted into the message to make room
 * answers                requests answered in this message
 * rounds                 and looked at
 */
#define CONTEXT_WORDS                                                                              \
	u32 busy;                                                                                  \
	u32 size;                                                                                  \
	u64 source;                                                                                \
	u32 window_at;                                                                             \
	u32 window_end;                                                                            \
	u32 request;                                                                               \
	u32 piece;                                                                                 \
	u32 at;                                                                                    \
	u32 complete_size;                                                                         \
	u32 out;                                                                                   \
	u32 room;                                                                                  \
	u32 gaps;                                                                                  \
	u32 answers;                                                                               \
	u32 rounds;                                                                                \
	u8 window[WINDOW + WINDOW_PAD]

#endif
