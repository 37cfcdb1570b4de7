/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Outcomes and Errors as one list. The C enum, the Rust enum (generated from
 * the enum's bindings), the error texts and docs/errors.md come from it.
 *
 * X(NAME, value, "text", "what the caller should do")
 */
#ifndef BPFDB_STATUS_H
#define BPFDB_STATUS_H

#define BPFDB_STATUS_LIST(X)                                                                       \
	X(OK, 0, "ok", "nothing")                                                                  \
	X(FOUND, 1, "key found", "use the value")                                                  \
	X(NOT_FOUND, 2, "key not found", "nothing: absence is an answer")                          \
	X(FOUND_LARGE, 3, "key found, with a large value", "read the value in parts")              \
	X(CONFLICT, 16, "a lock or a latch of others is in the way",                               \
	  "roll back the transaction, if one is open, and run it again")                           \
	X(VERSIONS_FULL, 17, "every version of this key is needed by a running snapshot",          \
	  "end long read-only transactions, then run the transaction again")                       \
	X(OUT_OF_MEMORY, 18, "out of memory: the configured limit is reached",                     \
	  "delete data or raise the memory limit")                                                 \
	X(MEMORY_PENDING, 19, "memory is being added",                                             \
	  "run the operation again in a few milliseconds")                                         \
	X(TOO_MANY_LOCKS, 20, "the transaction holds too many locks",                              \
	  "roll back and use smaller transactions")                                                \
	X(KEY_TOO_LARGE, 21, "key is empty, or longer than 512 bytes", "use another key")          \
	X(VALUE_TOO_LARGE, 22, "value is longer than the limit", "use a shorter value")            \
	X(WRONG_STATE, 23, "operator is not allowed in this state of the session",                 \
	  "begin or end a transaction first")                                                      \
	X(READ_ONLY, 24, "write in a read-only transaction", "use a read-write transaction")       \
	X(ROLLED_BACK, 25, "the transaction had failed and was rolled back",                       \
	  "run the transaction again")                                                             \
	X(TIMED_OUT, 26, "the transaction was idle for too long and was rolled back",              \
	  "ROLLBACK it, or BEGIN it again")                                                        \
	X(SESSION_BUSY, 27, "the session is running another operator",                             \
	  "run it again; if it persists, use one session per thread")                              \
	X(EXHAUSTED, 28, "a bounded loop inside the engine ran out",                               \
	  "run the operation again; report it if it persists")                                     \
	X(BAD_REQUEST, 29, "malformed request to the engine", "correct the caller")                \
	X(CORRUPT, 30, "an internal invariant does not hold", "stop and report it")                \
	X(MISSED_TAIL_CALL, 31, "a continuation was not loaded", "load every continuation")        \
	X(NO_SESSION, 32, "no free session", "close sessions or raise the session limit")          \
	X(SNAPSHOT_TOO_OLD, 34, "the snapshot was too old, and ended for a writer or for memory",  \
	  "run the read-only transaction again, or raise the maximum age of snapshots")            \
	X(INDEX_CROWDED, 35, "too many keys that the index cannot tell apart are near this one",   \
	  "use other keys; report it if these were not chosen for that")                           \
	X(LOG_FULL, 36, "the log has no room until more of it is on the disk",                     \
	  "run the operation again in a few milliseconds")                                         \
	X(TXN_TOO_LARGE, 37, "the transaction writes more than its part of the log's ring",        \
	  "roll back and use smaller transactions, or a larger ring")                              \
	X(LOG_CLOSED, 38, "the log takes no writes, so the engine is read-only",                   \
	  "see why in the logs of its owner: a write or flush has failed, or the disk is full")    \
	X(NOT_JOINED, 39, "the object of this program has not joined the engine",                  \
	  "have a loader share the maps and copy the configuration (docs/joining.md)")             \
	X(WRONG_TYPE, 40, "the value is of another type", "use an operator of its type")           \
	X(TIER_CORRUPT, 41, "the file of the cold value is damaged where the value is",            \
	  "start the server again on a new engine, which recovers from checkpoint and log")        \
	X(TIER_UNAVAILABLE, 42, "the file of the cold value cannot be read",                       \
	  "look into the logs of the owner; a process that is attached reads no cold values")      \
	X(NOT_INDEXED, 43, "a key of an ordered table comes and goes with its index only",         \
	  "insert and delete it as a row of the table, without an expiry (docs/ordered-tables.md)")

#define BPFDB_STATUS_ENUM(name, value, text, action) BPFDB_##name = value,
enum bpfdb_status { BPFDB_STATUS_LIST(BPFDB_STATUS_ENUM) BPFDB_STATUS_COUNT = 44 };

/* Errors are the outcomes from here on. */
#define BPFDB_FIRST_ERROR 16

/* The log has refused the commit. An auto-commit was not executed, a transaction is still open:
 * the caller of COMMIT tries again, or rolls back. */
#define BPFDB_REFUSED_BY_LOG(status) ((status) == BPFDB_LOG_FULL || (status) == BPFDB_LOG_CLOSED)

#endif
