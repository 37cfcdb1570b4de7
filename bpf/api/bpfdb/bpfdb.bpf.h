/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What an eBPF program that embeds bpfdb includes. A loader lets the object join an engine before
 * it is loaded: Engine::adopt of the bpfdb crate, or any other loader, by docs/joining.md.
 *
 * Direct style: the operators are global subprograms, verified one by one and
 * called like functions. Each takes a session (an entry of the map `sessions`,
 * from bpfdb_session_open) and returns an enum bpfdb_status.
 *
 *   bpfdb_begin, bpfdb_begin_read_only, bpfdb_commit, bpfdb_rollback
 *   bpfdb_get             FOUND, NOT_FOUND, Error (in a read-write transaction)
 *   bpfdb_peek            the same without a transaction, not counted
 *   bpfdb_get_for_update  the same, with an exclusive lock
 *   bpfdb_set             OK, Error; takes over the slot of bpfdb_value_alloc, and
 *                         only that: BAD_REQUEST for one that a GET left
 *   bpfdb_delete          FOUND, NOT_FOUND, Error
 *   bpfdb_watch           OK, Error; a token to compare, see watch.bpf.h
 *   bpfdb_ordered_scan, bpfdb_ordered_next
 *                         keys of an ordered table in their order, see ordered.bpf.h
 *
 * Operands: session->key and key_len; session->value and value_len. A value of
 * up to BPFDB_INLINE_MAX bytes is in session->value[]; a longer one in the slot
 * whose address is session->value[0]: bpfdb_at() makes it a pointer. After a
 * GET copy the bytes, then ask bpfdb_still_valid(); if it says 0, GET again.
 * A SET with session->expires stores a value that expires at that time (UNIX,
 * milliseconds); a GET says so in session->found_expires.
 *
 * Continuation-passing style: continuation.bpf.h.
 */
#ifndef BPFDB_BPFDB_BPF_H
#define BPFDB_BPFDB_BPF_H

#include "../../operators/maintenance.bpf.h"
#include "../../operators/ordered.bpf.h"
#include "../../operators/scan.bpf.h"
#include "../../operators/watch.bpf.h"

#endif
