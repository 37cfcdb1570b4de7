/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * A fingerprint of what all objects of an engine must have alike: the structures that they share,
 * and the limits that say what is where. Each object has it as a constant, from the headers that it
 * was compiled with, and shows it in its configuration; the engine keeps that of the object that
 * created it. bpfdb_session_open() compares both, so that a program with other structures opens no
 * session (NOT_JOINED). A loader can compare them before it loads: docs/joining.md.
 *
 * A field counts by its offset, its size and its place in the list; a limit by its value. A unit
 * test of crates/bpfdb/src/layout.rs looks for each field of these structures in this list.
 */
#ifndef BPFDB_LAYOUT_H
#define BPFDB_LAYOUT_H

#include <bpfdb/abi.h>

/* X(structure without "bpfdb_", field) */
#define BPFDB_LAYOUT_LIST(X)                                                                       \
	X(version, stamp)                                                                          \
	X(version, meta)                                                                           \
	X(version, data)                                                                           \
	X(cell, home)                                                                              \
	X(cell, header)                                                                            \
	X(cell, key)                                                                               \
	X(cell, head)                                                                              \
	X(large, id)                                                                               \
	X(large, len)                                                                              \
	X(large, half)                                                                             \
	X(large, tail)                                                                             \
	X(large, pages)                                                                            \
	X(large, holders)                                                                          \
	X(large, next)                                                                             \
	X(large, place)                                                                            \
	X(place, run)                                                                              \
	X(place, offset)                                                                           \
	X(place, checksum)                                                                         \
	X(retired, next)                                                                           \
	X(retired, data)                                                                           \
	X(retired, form)                                                                           \
	X(run_use, values)                                                                         \
	X(run_use, bytes)                                                                          \
	X(aux, used)                                                                               \
	X(aux, reserved)                                                                           \
	X(aux, history)                                                                            \
	X(slab, word)                                                                              \
	X(slab, next)                                                                              \
	X(slab, sibling)                                                                           \
	X(slab, listed)                                                                            \
	X(slab, splitting)                                                                         \
	X(slab, class_)                                                                            \
	X(slab, level)                                                                             \
	X(slab, unlisted)                                                                          \
	X(slab, closing)                                                                           \
	X(slab, prefix)                                                                            \
	X(lock, hash)                                                                              \
	X(lock, key)                                                                               \
	X(lock, cell)                                                                              \
	X(lock, key_len)                                                                           \
	X(lock, mode)                                                                              \
	X(lock, next)                                                                              \
	X(lock, meta)                                                                              \
	X(lock, data)                                                                              \
	X(session, commit)                                                                         \
	X(session, transaction)                                                                    \
	X(session, snapshot)                                                                       \
	X(session, last_active)                                                                    \
	X(session, busy)                                                                           \
	X(session, index)                                                                          \
	X(session, lock_count)                                                                     \
	X(session, in_use)                                                                         \
	X(session, state)                                                                          \
	X(session, failure)                                                                        \
	X(session, kind)                                                                           \
	X(session, unlogged)                                                                       \
	X(session, room_page)                                                                      \
	X(session, hash)                                                                           \
	X(session, operations)                                                                     \
	X(session, gets_found)                                                                     \
	X(session, gets_missed)                                                                    \
	X(session, key_len)                                                                        \
	X(session, value_len)                                                                      \
	X(session, value)                                                                          \
	X(session, view_cell)                                                                      \
	X(session, view_header)                                                                    \
	X(session, value_owned)                                                                    \
	X(session, expires)                                                                        \
	X(session, found_expires)                                                                  \
	X(session, key_word)                                                                       \
	X(session, status)                                                                         \
	X(session, room_tried)                                                                     \
	X(session, value_type)                                                                     \
	X(session, log_at)                                                                         \
	X(session, log_ring)                                                                       \
	X(session, log_grains)                                                                     \
	X(session, log_bytes)                                                                      \
	X(session, time)                                                                           \
	X(session, building)                                                                       \
	X(session, locks)                                                                          \
	X(session, app)                                                                            \
	X(session, lock_blocks)                                                                    \
	X(session, key)                                                                            \
	X(session, begun)                                                                          \
	X(session, spare_aux)                                                                      \
	X(session, room_cell)                                                                      \
	X(session, holder)                                                                         \
	X(session, next_free)                                                                      \
	X(session, conflict)                                                                       \
	X(session, conflict_with)                                                                  \
	X(session, opened)                                                                         \
	X(session, keeps_depends)                                                                  \
	X(session, depends)                                                                        \
	X(session, interactive)                                                                    \
	X(session, untracked)                                                                      \
	X(session, patient)                                                                        \
	X(session, keeps_index)                                                                    \
	X(session, lock_pages)                                                                     \
	X(session, lock_lists)                                                                     \
	X(session, release_next)                                                                   \
	X(session, release_left)                                                                   \
	X(session, on_found)                                                                       \
	X(session, on_not_found)                                                                   \
	X(session, on_ok)                                                                          \
	X(session, on_error)                                                                       \
	X(config, abi_version)                                                                     \
	X(config, holder)                                                                          \
	X(config, layout)                                                                          \
	X(config, identity)                                                                        \
	X(config, versions)                                                                        \
	X(config, directory_bits)                                                                  \
	X(config, sessions)                                                                        \
	X(config, segments_max)                                                                    \
	X(config, pages_max)                                                                       \
	X(config, locks_max)                                                                       \
	X(config, idle_limit)                                                                      \
	X(config, log_ring)                                                                        \
	X(config, log_rings)                                                                       \
	X(config, port)                                                                            \
	X(config, user_sessions)                                                                   \
	X(config, ordered_tables)                                                                  \
	X(time, offset)                                                                            \
	X(time, fixed)                                                                             \
	X(time, boot)                                                                              \
	X(horizon, value)                                                                          \
	X(horizon, oldest)                                                                         \
	X(horizon, next)                                                                           \
	X(snapshots, active)                                                                       \
	X(snapshots, newest)                                                                       \
	X(snapshots, newest_session)                                                               \
	X(snapshots, ended)                                                                        \
	X(snapshots, age_max)                                                                      \
	X(snapshots, swept)                                                                        \
	X(snapshots, sweeping)                                                                     \
	X(class, partial)                                                                          \
	X(class, slabs)                                                                            \
	X(class, looked_at)                                                                        \
	X(class, open)                                                                             \
	X(hash_secrets, start)                                                                     \
	X(hash_secrets, length)                                                                    \
	X(hash_secrets, finish)                                                                    \
	X(hash_secrets, words)                                                                     \
	X(log_secrets, factor)                                                                     \
	X(log_secrets, term)                                                                       \
	X(log_home, log)                                                                           \
	X(log_home, run)                                                                           \
	X(log_home, batch)                                                                         \
	X(log_home, run_id)                                                                        \
	X(engine, abi_version)                                                                     \
	X(engine, initialized)                                                                     \
	X(engine, zero)                                                                            \
	X(engine, identity)                                                                        \
	X(engine, layout)                                                                          \
	X(engine, constants)                                                                       \
	X(engine, tracking)                                                                        \
	X(engine, eviction)                                                                        \
	X(engine, lfu_log_factor)                                                                  \
	X(engine, lfu_decay)                                                                       \
	X(engine, access_now)                                                                      \
	X(engine, scan_lock)                                                                       \
	X(engine, clock)                                                                           \
	X(engine, now)                                                                             \
	X(engine, snapshots)                                                                       \
	X(engine, segments)                                                                        \
	X(engine, hash)                                                                            \
	X(engine, segments_limit)                                                                  \
	X(engine, pages_taken)                                                                     \
	X(engine, pages_free)                                                                      \
	X(engine, pages_free_count)                                                                \
	X(engine, versions)                                                                        \
	X(engine, garbage)                                                                         \
	X(engine, directory_depth)                                                                 \
	X(engine, directory_latch)                                                                 \
	X(engine, level_pages)                                                                     \
	X(engine, index_pages)                                                                     \
	X(engine, sweep_cursor)                                                                    \
	X(engine, sessions_free)                                                                   \
	X(engine, sessions_made)                                                                   \
	X(engine, owner)                                                                           \
	X(engine, memory_asked)                                                                    \
	X(engine, reap_cursor)                                                                     \
	X(engine, time)                                                                            \
	X(engine, horizon)                                                                         \
	X(engine, expiring)                                                                        \
	X(engine, expiry_due)                                                                      \
	X(engine, index_generation)                                                                \
	X(engine, large_values)                                                                    \
	X(engine, large_garbage)                                                                   \
	X(engine, large_collecting)                                                                \
	X(engine, log)                                                                             \
	X(engine, log_home)                                                                        \
	X(engine, log_holds)                                                                       \
	X(engine, demoting)                                                                        \
	X(engine, tier_reserve)                                                                    \
	X(engine, retired)                                                                         \
	X(engine, retiring)                                                                        \
	X(engine, runs)                                                                            \
	X(engine, durable)                                                                         \
	X(engine, keyspaces)                                                                       \
	X(engine, classes)                                                                         \
	X(engine, spares)                                                                          \
	X(log_ring, reserved)                                                                      \
	X(log_ring, limit)                                                                         \
	X(log_ring, gate)                                                                          \
	X(log_record, head)                                                                        \
	X(log_record, stamp)                                                                       \
	X(log_write, meta)                                                                         \
	X(log_write, expires)                                                                      \
	X(log_large, id)                                                                           \
	X(log_large, len)                                                                          \
	X(log_large, table)                                                                        \
	X(log_large, reserved)                                                                     \
	X(counters, operations)                                                                    \
	X(counters, statuses)                                                                      \
	X(counters, conflicts)                                                                     \
	X(counters, memory_lost)                                                                   \
	X(counters, latch_retries)                                                                 \
	X(counters, read_retries)                                                                  \
	X(counters, autocommit_retries)                                                            \
	X(counters, commits_helped)                                                                \
	X(counters, page_splits)                                                                   \
	X(counters, page_merges)                                                                   \
	X(counters, pages_reclaimed)                                                               \
	X(counters, versions_pruned)                                                               \
	X(counters, snapshots_revoked)                                                             \
	X(counters, records_swept)                                                                 \
	X(counters, records_expired)                                                               \
	X(counters, records_evicted)                                                               \
	X(counters, sessions_reaped)                                                               \
	X(counters, front_end)                                                                     \
	X(spares, slots)                                                                           \
	X(line, value)

/* X(limit without "BPFDB_"): constants that say what is where in shared memory. */
#define BPFDB_LAYOUT_LIMITS(X)                                                                     \
	X(KEY_MAX)                                                                                 \
	X(VALUE_MAX)                                                                               \
	X(INLINE_MAX)                                                                              \
	X(INLINE_EXPIRING_MAX)                                                                     \
	X(PIECE_BITS)                                                                              \
	X(LARGE_MAX)                                                                               \
	X(RUNS_MAX)                                                                                \
	X(SEGMENT_BITS)                                                                            \
	X(SEGMENT_PAD)                                                                             \
	X(PAGE_BITS)                                                                               \
	X(CELL_BITS)                                                                               \
	X(NEIGHBOURHOOD)                                                                           \
	X(DIRECTORY_BITS_MAX)                                                                      \
	X(CLASSES)                                                                                 \
	X(GRAIN)                                                                                   \
	X(ALLOC_SHARDS)                                                                            \
	X(VERSIONS_MAX)                                                                            \
	X(LOCKS_INLINE)                                                                            \
	X(LOCKS_PER_BLOCK)                                                                         \
	X(LOCK_BLOCKS)                                                                             \
	X(LOCKS_PER_PAGE)                                                                          \
	X(LOCK_PAGES)                                                                              \
	X(LOCK_LISTS)                                                                              \
	X(READERS_MAX)                                                                             \
	X(REMOVALS)                                                                                \
	X(SNAPSHOT_GROUP)                                                                          \
	X(LOG_PAD)                                                                                 \
	X(LOG_GRAIN)                                                                               \
	X(LOG_RECORD_GRAIN)                                                                        \
	X(STAMP_BITS)                                                                              \
	X(FORM_BITS)                                                                               \
	X(FORM_LENGTH_BITS)                                                                        \
	X(FORM_TYPE_BITS)                                                                          \
	X(FORM_LARGE_BIT)                                                                          \
	X(FORM_EXPIRES_BIT)                                                                        \
	X(ENTRY_PAGE_BITS)                                                                         \
	X(OWNER_LOCK_BITS)

#define BPFDB_LAYOUT_PLACE(structure, field) BPFDB_LAYOUT_##structure##_##field,
#define BPFDB_LAYOUT_LIMIT_PLACE(limit) BPFDB_LAYOUT_LIMIT_##limit,
enum bpfdb_layout_place {
	BPFDB_LAYOUT_LIST(BPFDB_LAYOUT_PLACE) BPFDB_LAYOUT_LIMITS(BPFDB_LAYOUT_LIMIT_PLACE)
		BPFDB_LAYOUT_FIELDS
};

/* The factors are odd and differ, so that two fields that change places change the sum. */
#define BPFDB_LAYOUT_FACTOR(place) ((2 * (__u64)(place) + 1) * 0x9e3779b97f4a7c15ULL)
#define BPFDB_LAYOUT_TERM(structure, field)                                                        \
	+((1 + (__u64) __builtin_offsetof(struct bpfdb_##structure, field) +                       \
	   ((__u64)sizeof(((struct bpfdb_##structure *)0)->field) << 24)) *                        \
	  BPFDB_LAYOUT_FACTOR(BPFDB_LAYOUT_##structure##_##field))
#define BPFDB_LAYOUT_LIMIT(limit)                                                                  \
	+((1 + (__u64)(BPFDB_##limit)) * BPFDB_LAYOUT_FACTOR(BPFDB_LAYOUT_LIMIT_##limit))

#define BPFDB_LAYOUT                                                                               \
	((__u64)BPFDB_ABI_VERSION BPFDB_LAYOUT_LIST(BPFDB_LAYOUT_TERM)                             \
		 BPFDB_LAYOUT_LIMITS(BPFDB_LAYOUT_LIMIT))

#endif
