/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The operators that user space may ask for (BPF_PROG_RUN, bpfdb/driver.h), as three lists:
 * from them follow the numbers in a request, the dispatch in bpf/driver/run.bpf.h, and
 * the names in `bpfdb stats` and among the metrics. CONTRIBUTING.md shows how to add an
 * operator.
 *
 * X(NAME, call): the call that executes a request, with an enum bpfdb_status as its
 * result, given the session `s`, its key already there; the `request`, at run->offset of
 * the buffer run->io; and the `offset` and `room` (bytes) of the request's value.
 */
#ifndef BPFDB_OPERATORS_H
#define BPFDB_OPERATORS_H

/* Each session counts these: struct bpfdb_session has a line of 64 bytes for them. */
#define BPFDB_COUNTED_OPERATOR_LIST(X)                                                             \
	X(BEGIN, bpfdb_begin_interactive(s))                                                       \
	X(BEGIN_READ_ONLY, bpfdb_begin_read_only(s))                                               \
	X(GET, run_get(s, run, offset, room, request_type(request->operation), READ_GET))          \
	X(SET, run_set(s, run, offset, request))                                                   \
	X(DELETE, bpfdb_delete(s))                                                                 \
	X(COMMIT, bpfdb_commit(s))                                                                 \
	X(ROLLBACK, bpfdb_rollback(s))                                                             \
	X(GET_FOR_UPDATE,                                                                          \
	  run_get(s, run, offset, room, request_type(request->operation), READ_FOR_UPDATE))

/* EVICT: struct bpfdb_sampled has what `large` and `offset` are, header and meta. DEMOTE, PROMOTE: the
 * value of a version goes to a file, or comes back. See struct bpfdb_request. Requests with these are
 * not in one batch with others. */
#define BPFDB_EVICTION_OPERATOR_LIST(X)                                                            \
	X(EVICT, bpfdb_evict(s, request->large, request->offset))                                  \
	X(DEMOTE, run_demote(s, run->io, offset))                                                  \
	X(PROMOTE, run_promote(s, run, offset, request))

/* SETTLE: another step of what COMMIT or ROLLBACK has left to be done; MEMORY_PENDING: there is
 * more. ACCESS: of the key; `offset` becomes its meta, `large` its access word, if not 0. HASH: of the
 * key, in the session, for run_lock. LARGE_: the next bytes of the large value that a SET is to take;
 * some bytes of the one that a GET found; the value of a key, if it is large, to be taken by a SET of
 * another key or time. PEEK: GET without a lock, also in a transaction. */
#define BPFDB_UNCOUNTED_OPERATOR_LIST(X)                                                           \
	X(WATCH, run_watch(s, run->io, offset, room))                                              \
	X(LARGE_WRITE, large_write(s, run->io, run->offset))                                       \
	X(LARGE_READ, large_read(s, run->io, run->offset))                                         \
	X(LARGE_SHARE, run_share(s, run))                                                          \
	X(HASH, bpfdb_hash(s))                                                                     \
	X(ACCESS, run_access(s, request))                                                          \
	X(SETTLE, bpfdb_settle(s))                                                                 \
	X(PEEK, run_get(s, run, offset, room, BPFDB_TYPE_STRING, READ_PEEK))

#define BPFDB_OPERATION_NUMBER(name, call) BPFDB_OP_##name,
enum bpfdb_operation {
	BPFDB_COUNTED_OPERATOR_LIST(BPFDB_OPERATION_NUMBER)
	/* How many those are; no operator has this number. */
	BPFDB_COUNTED_OPERATIONS,
	BPFDB_EVICTION_OPERATOR_LIST(BPFDB_OPERATION_NUMBER)
	/* Those before are of bpfdb_run_eviction; no operator has this number. */
	BPFDB_EVICTION_OPERATIONS,
	BPFDB_UNCOUNTED_OPERATOR_LIST(BPFDB_OPERATION_NUMBER)
	/* The number of the next one that is added. */
	BPFDB_OPERATIONS_END,
};

#endif
