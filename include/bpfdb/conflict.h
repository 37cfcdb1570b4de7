/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Why an operator said CONFLICT, as one list. The C enum, the Rust enum (from the enum's
 * bindings), the counters, the texts and docs/conflicts.md come from it.
 *
 * X(NAME, value, "text")
 */
#ifndef BPFDB_CONFLICT_H
#define BPFDB_CONFLICT_H

#define BPFDB_CONFLICT_LIST(X)                                                                     \
	X(WRITTEN, 1, "another transaction has locked this key to write it")                       \
	X(READ, 2, "a transaction that is not over has read this key")                             \
	X(READERS_MAX, 3, "as many transactions as can read one key have read this one")           \
	X(BUSY, 4, "other processors were working on this part of the index all the while")        \
	X(SCANNED, 5, "a transaction that is not over has listed the keys of this database")

#define BPFDB_CONFLICT_ENUM(name, value, text) BPFDB_CONFLICT_##name = value,
enum bpfdb_conflict {
	BPFDB_CONFLICT_NONE = 0,
	BPFDB_CONFLICT_LIST(BPFDB_CONFLICT_ENUM) BPFDB_CONFLICT_COUNT = 6
};

#endif
