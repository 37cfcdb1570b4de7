/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Clients that wait for keys to be filled: a table that a server writes, and programs that fill keys
 * read (bpf/values/waiting.bpf.h). */
#ifndef BPFDB_WAITING_H
#define BPFDB_WAITING_H

#include <linux/types.h>

/* Words of struct bpfdb_waiting, a power of 2. */
#define BPFDB_WAITING_KEYS 1024

/* How many clients wait, by the hash of the key. */
struct bpfdb_waiting {
	__u32 clients[BPFDB_WAITING_KEYS];
};

#endif
