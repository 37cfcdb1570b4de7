/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Every structure that the kernel side and user space share, declared once.
 * Rust bindings are generated from this file; BPF C includes it.
 * All sizes are bytes, all times nanoseconds of CLOCK_MONOTONIC, but for those
 * at which something expires: milliseconds of UNIX time.
 */
#ifndef BPFDB_ABI_H
#define BPFDB_ABI_H

#include <linux/types.h>
#include <bpfdb/attempts.h>
#include <bpfdb/conflict.h>
#include <bpfdb/driver.h>
#include <bpfdb/form.h>
#include <bpfdb/limits.h>
#include <bpfdb/operators.h>
#include <bpfdb/status.h>

_Static_assert(BPFDB_KEY_MAX == 512, "the text of KEY_TOO_LARGE says so");

/* Raised when a structure below or a pinned map changes its layout. */
#define BPFDB_ABI_VERSION 24

/* Bytes that processors pass to each other as one. What different processors write does
 * not share one: ARCHITECTURE.md says which operation writes what. */
#define BPFDB_LINE_SIZE 64
#define BPFDB_LINES __attribute__((aligned(BPFDB_LINE_SIZE)))

/* ---- Storage ------------------------------------------------------------ */

/*
 * An address is a byte offset into the sequence of segments: segment number
 * in the bits above BPFDB_SEGMENT_BITS. Address 0 is never handed out.
 *
 * A version is 32 bytes of a cell (the head: the newest committed one), of an
 * aux block (history), or of a lock (pending).
 *   stamp: commit timestamp (54 bits) | key length (10 bits; in the head only)
 *   meta:  link to the aux block in grains, or the record's access word (40 bits; head only)
 *          | form (24)
 *   form:  see form.h
 *   data:  a string if length <= BPFDB_INLINE_MAX, else data[0] = the value's address
 *   data with BPFDB_EXPIRES: a string if length <= BPFDB_INLINE_EXPIRING_MAX,
 *          else data[0] = the value's address; data[1] = when it expires
 *   The address of a large value is that of its struct bpfdb_large.
 * bpf/txn/expiry.bpf.h reads forms.
 */
struct bpfdb_version {
	__u64 stamp;
	__u64 meta;
	__u64 data[2];
};

/*
 * meta of a head whose record has no aux block: its access word, or no word (all bits zero).
 *   LRU: bit 63 | when it was used, in units of 2^BPFDB_ACCESS_UNIT_BITS ns (38 bits)
 *   LFU: bit 63 | bit 62 | minutes (30 bits) | counter (8 bits)
 * A link has bit 63 clear. bpf/storage/access.bpf.h writes words.
 */
#define BPFDB_ACCESS_WORD (1ULL << 63)
#define BPFDB_ACCESS_LFU (1ULL << 62)
#define BPFDB_ACCESS_UNIT_BITS 24
#define BPFDB_ACCESS_TIME_MASK ((1ULL << 38) - 1)
#define BPFDB_ACCESS_COUNTER_MASK 0xffULL
#define BPFDB_ACCESS_MINUTE_SHIFT (BPFDB_FORM_BITS + 8)
#define BPFDB_ACCESS_MINUTE_MASK ((1ULL << 30) - 1)
/* Nanoseconds. */
#define BPFDB_ACCESS_MINUTE 60000000000ULL
/* The counter of a record that is new: as in Redis, so that it is not evicted at once. */
#define BPFDB_ACCESS_FREQUENCY_FIRST 5

/* What the engine notes of accesses. */
enum bpfdb_tracking {
	BPFDB_TRACKING_OFF = 0,
	BPFDB_TRACKING_LRU = 1,
	BPFDB_TRACKING_LFU = 2,
};

/* engine.access_now while uses are counted: no record's word, without its form, is this. */
#define BPFDB_ACCESS_COUNTED 1ULL

/* What becomes of a write that finds no memory at the limit. */
enum bpfdb_eviction {
	BPFDB_EVICTION_OFF = 0,      /* OUT_OF_MEMORY */
	BPFDB_EVICTION_ON = 1,      /* MEMORY_PENDING: records are evicted */
	BPFDB_EVICTION_HOPELESS = 2, /* OUT_OF_MEMORY: there were no victims lately */
};

/* With a log, writes of a hot key advance the clock: 57 years at ten millions a second. */
#define BPFDB_STAMP_BITS 54
#define BPFDB_STAMP_MASK ((1ULL << BPFDB_STAMP_BITS) - 1)
_Static_assert(BPFDB_KEY_MAX < 1 << (64 - BPFDB_STAMP_BITS), "the key's length is behind it");

/* Where the bytes of a cold value are: bpf/storage/cold.bpf.h. */
struct bpfdb_place {
	__u64 run;      /* number of the file, which no other ever has; 0: they are in memory */
	__u32 offset;   /* of the entry in the file, in grains of BPFDB_LOG_GRAIN bytes */
	__u32 checksum; /* CRC-32C of the entry */
};

/*
 * A large value, bpf/storage/large.bpf.h: in whole pages, and slots for what these
 * leave. Behind this, the numbers of the pages, 32 bits each.
 */
struct bpfdb_large {
	__u64 id;   /* no other value has it, ever: tells whether it is still the same */
	__u64 len;  /* bytes: BPFDB_VALUE_MAX + 1 to BPFDB_LARGE_MAX; a cold one: from 1 */
	__u64 half; /* address of the slot with the first BPFDB_PIECE_SIZE bytes of what the
		     * pages leave, if that is more; 0: it is not, or not yet */
	__u64 tail; /* address of the slot with the last bytes; 0: none are left, or not yet */
	__u32 pages;   /* there are by now; all of them when SET has taken it */
	__u32 holders; /* versions, and sessions that are about to SET it */
	__u64 next;    /* address of the next one without a holder, while it waits to be freed */
	struct bpfdb_place place; /* of a cold value, which has no pieces */
};
#define BPFDB_LARGE_PAGES (BPFDB_LARGE_MAX / BPFDB_PAGE_SIZE)

/*
 * A record. Key: the bytes, zero-padded, if length <= BPFDB_INLINE_MAX; else
 * key[0] = address of the key's slot, key[1] = its hash. Either way key[] and
 * the length identify one live record.
 */
struct bpfdb_cell {
	__u64 home;   /* about the keys whose home is this cell: see HOME_ */
	__u64 header; /* about the record stored in this cell: see CELL_ */
	__u64 key[2];
	struct bpfdb_version head;
};

/* Entry of the directory: index page (24 bits) | directory bits that it answers for (8). */
#define BPFDB_ENTRY_PAGE_BITS 24
#define BPFDB_ENTRY_PAGE_MASK ((1U << BPFDB_ENTRY_PAGE_BITS) - 1)
_Static_assert(BPFDB_SEGMENTS_MAX *BPFDB_PAGES_PER_SEGMENT <= 1 << BPFDB_ENTRY_PAGE_BITS,
	       "an entry has room for the number of any page");
_Static_assert(BPFDB_DIRECTORY_BITS_MAX < 1 << (32 - BPFDB_ENTRY_PAGE_BITS), "and for any level");

/* home: bitmap of the neighbourhood | level | latch | change counter */
#define BPFDB_HOME_BITMAP_MASK 0xffffffffULL
#define BPFDB_HOME_LEVEL_SHIFT 32
#define BPFDB_HOME_LEVEL_MASK 0xffULL
#define BPFDB_HOME_LATCH (1ULL << 40)
#define BPFDB_HOME_CHANGE (1ULL << 41)

/* header: flags (8 bits) | owner or readers (26 bits) | change counter (30 bits).
 * A cell with BPFDB_CELL_EXCLUSIVE names its owner (session, lock index); any
 * other cell counts its shared locks in the same field. */
#define BPFDB_CELL_USED (1ULL << 0)
/* Held inside one operator; only its holder changes the cell's content. */
#define BPFDB_CELL_LATCH (1ULL << 1)
/* Exclusive transaction lock. */
#define BPFDB_CELL_EXCLUSIVE (1ULL << 2)
/* The owner's lock holds a pending version. */
#define BPFDB_CELL_PENDING (1ULL << 3)
/* The record has history: the link is its aux block (in grains). */
#define BPFDB_CELL_AUX (1ULL << 4)
/* The head is being overwritten by the pending version, already committed. */
#define BPFDB_CELL_REPLACING (1ULL << 5)
#define BPFDB_CELL_FLAGS_MASK 0xffULL
#define BPFDB_CELL_FIELD_SHIFT 8
#define BPFDB_CELL_FIELD_MASK (((1ULL << 26) - 1) << BPFDB_CELL_FIELD_SHIFT)
#define BPFDB_CELL_READER (1ULL << BPFDB_CELL_FIELD_SHIFT)
#define BPFDB_CELL_CHANGE (1ULL << 34)

/* owner: session (16 bits) | lock index in that session (10 bits), or BPFDB_OWNER_LOCK_FAR */
#define BPFDB_OWNER_LOCK_BITS 10
#define BPFDB_OWNER_LOCK_MASK ((1ULL << BPFDB_OWNER_LOCK_BITS) - 1)
/* One of the session's far locks: it is found by the key, bpf/txn/far.bpf.h. */
#define BPFDB_OWNER_LOCK_FAR BPFDB_OWNER_LOCK_MASK

/* Versions older than the head, unordered; meta 0 and stamp 0 = free entry.
 * One entry more than the version limit asks for: a snapshot that begins
 * between SET and COMMIT may need the head too (bpf/txn/history.bpf.h). */
struct bpfdb_aux {
	__u64 used; /* entries in use */
	__u64 reserved;
	struct bpfdb_version history[BPFDB_VERSIONS_MAX];
};

/* State of a page. word: first free grain | free slots | tag */
struct bpfdb_slab {
	__u64 word;
	__u32 next;    /* next slab in the list that this one is in; of two index pages
			* that are being merged: the one that stays */
	__u32 sibling; /* index page being split: the page that takes the upper half */
	__u32 listed;  /* 1 while in its class's list of slabs with free slots */
	__u32 splitting; /* index page: latch of the split */
	__u8 class_;   /* size class, or a BPFDB_PAGE_ value */
	__u8 level;    /* index page: directory bits that it answers for */
	__u8 unlisted; /* index page: the directory does not name it yet, because the
			* split that made it is unfinished: BPFDB_UNLISTED */
	__u8 closing; /* 1: no slot is taken from it, because its records are being evicted */
	__u32 prefix; /* index page: the directory bits themselves */
} BPFDB_LINES; /* pages that follow each other are of different processors */

/* Some buckets have not moved to it yet; or all have. */
#define BPFDB_UNLISTED 1
#define BPFDB_UNLISTED_WHOLE 2

#define BPFDB_SLAB_HEAD_MASK 0x1fffULL
#define BPFDB_SLAB_NONE 0x1fffULL
#define BPFDB_SLAB_FREE_SHIFT 13
#define BPFDB_SLAB_FREE_MASK 0x1fffULL
#define BPFDB_SLAB_TAG (1ULL << 26)

#define BPFDB_PAGE_UNUSED 0xff
#define BPFDB_PAGE_INDEX 0xfe
/* Was an index page; programs that found it before may still read it. */
#define BPFDB_PAGE_RETIRED 0xfd

/* ---- Sessions ----------------------------------------------------------- */

/* A lock held by a transaction, and the version it is to become. */
struct bpfdb_lock {
	__u64 hash;
	__u64 key[2]; /* as in the cell: identifies the record if it moves */
	__u64 cell;   /* address of the cell when it was locked: a hint */
	__u16 key_len;
	__u16 mode; /* BPFDB_LOCK_ */
	__u32 next; /* far lock: the next one of its list, 0: none. Numbers only descend */
	__u64 meta; /* pending version: length */
	__u64 data[2];
};

#define BPFDB_LOCK_NONE 0
#define BPFDB_LOCK_SHARED 1
#define BPFDB_LOCK_EXCLUSIVE 2
/* EXCLUSIVE and a pending version is in meta and data. */
#define BPFDB_LOCK_PENDING 3

enum bpfdb_txn_state {
	BPFDB_TXN_NONE = 0,
	BPFDB_TXN_WRITE = 1,
	BPFDB_TXN_READ = 2,
	/* An Error happened: only ROLLBACK (or COMMIT, which rolls back). */
	BPFDB_TXN_FAILED = 3,
	/* Decided, but not all locks are released yet: they are many, or one could not
	 * be. The next operators, or the reaper, finish it. */
	BPFDB_TXN_FINISHING = 4,
	/* Rolled back by the idle limit, or because the client is gone. */
	BPFDB_TXN_EXPIRED = 5,
	/* The same, and a lock could not be released yet. */
	BPFDB_TXN_EXPIRING = 6,
};

/* in_use: one of these, and above how often the session was opened; 0: it is free. */
#define BPFDB_SESSION_USE_MASK 3U
#define BPFDB_SESSION_OPEN 1U
#define BPFDB_SESSION_CLOSING 2U /* closed, but it could not be cleared yet */
#define BPFDB_SESSION_OPENING 4U /* one more time */

/* busy. */
#define BPFDB_BUSY_FREE 0U
#define BPFDB_BUSY_INSIDE 1U
/* And what is open has no user any more: what is inside rolls it back when it leaves. */
#define BPFDB_BUSY_UNDO 2U

/* kind. Those of a server are its own: only the engine's owner runs one. */
#define BPFDB_SESSION_EMBEDDED 0
#define BPFDB_SESSION_USER 1
#define BPFDB_SESSION_REDIS 2

/* commit word: phase | payload. See bpf/txn/commit.bpf.h for the protocol. */
#define BPFDB_PHASE_SHIFT 62
#define BPFDB_PHASE_NONE 0ULL
#define BPFDB_PHASE_COMMITTING 1ULL /* payload: transaction number */
#define BPFDB_PHASE_COMMITTED 2ULL  /* payload: commit timestamp */
#define BPFDB_PAYLOAD_MASK ((1ULL << BPFDB_PHASE_SHIFT) - 1)

/* keeps_index. A row that goes frees memory: so nodes that are written for it may take the reserve. */
#define BPFDB_INDEX_LEFT_ALONE 0
#define BPFDB_INDEX_GROWS 1
#define BPFDB_INDEX_SHRINKS 2

/* value_owned: the address below, the form without BPFDB_EXPIRES above. */
#define BPFDB_OWNED_SHIFT 40

/*
 * The session context: one client's transaction and the operands of its
 * operators. Set key, key_len (and the value for SET), call the operator, read
 * the outcome and the value. One operator at a time per session.
 */
struct bpfdb_session {
	/* First line: every operator. */
	__u64 commit; /* the commit word; other sessions read and help */
	__u64 transaction;
	__u64 snapshot; /* of a read-only transaction */
	__u64 last_active;
	__u32 busy; /* BPFDB_BUSY_: is a program inside? */
	__u32 index;
	__u32 lock_count;
	__u32 in_use; /* see BPFDB_SESSION_USE_MASK */
	__u8 state; /* enum bpfdb_txn_state */
	__u8 failure; /* the Error that failed the transaction */
	__u8 kind; /* BPFDB_SESSION_: what opened it */
	__u8 unlogged; /* 1: what it writes is in the log already: recovery */
	__u32 room_page; /* index page that has no room near the key's home, or little */
	__u64 hash; /* of the key */

	/* Operators executed, never reset. Here, because these cache lines are at hand;
	 * not atomic (docs/decisions/0004-counters.md). */
	__u64 operations[BPFDB_COUNTED_OPERATIONS];
	/* Of these, GETs (not those for update) that found a value, and that did not. */
	__u64 gets_found;
	__u64 gets_missed;

	/* Operands. value: the bytes if value_len <= BPFDB_INLINE_MAX, else
	 * value[0] = address of the slot. For SET the slot is that of the last
	 * bpfdb_value_alloc or bpfdb_large_take, with the length that it was asked
	 * for, and is taken over, Error or not; any other is BAD_REQUEST. For GET it
	 * stays the engine's: copy, then bpfdb_still_valid, else GET again.
	 * value_len of a value that is large, or no string: its form without BPFDB_EXPIRES,
	 * more than BPFDB_VALUE_MAX. The slot of a large one holds a struct bpfdb_large. */
	__u32 key_len;
	__u32 value_len;
	__u64 value[2];
	/* What GET read: cell and header, for bpfdb_still_valid. */
	__u64 view_cell;
	__u64 view_header;
	/* What was allocated for the next SET, address | length << BPFDB_OWNED_SHIFT;
	 * 0: nothing. Freed by the next allocation, or the end of the session. */
	__u64 value_owned;
	/* When the value of the next SET expires; 0: never. SET leaves 0, so that
	 * it does not count for the one after. */
	__u64 expires;
	__u64 found_expires; /* when what GET found expires; 0: never */
	__u64 key_word; /* slot of the long key of the record inserted last; 0: a short key */
	__u32 status;
	__u16 room_tried; /* what this operator tried to make room: see make_room() */
	__u16 value_type; /* of what GET may find: BPFDB_TYPE_STRING or BPFDB_TYPE_ANY */

	/* The record that an auto-commit has reserved in the log: its position and ring, and
	 * its length in record grains, 0: none. log_bytes: what the pending versions of a
	 * transaction will take there. */
	__u64 log_at;
	__u16 log_ring;
	__u16 log_grains;
	__u32 log_bytes;
	/* The time by which the transaction judges what has expired; 0: not
	 * taken. See bpf/txn/expiry.bpf.h. */
	__u64 time;
	__u64 building; /* address of the large value that a SET is to take; 0: none */

	struct bpfdb_lock locks[BPFDB_LOCKS_INLINE];
	__u64 app[8]; /* room for the application */
	__u64 lock_blocks[BPFDB_LOCK_BLOCK_ENTRIES];
	/* The key, zero-padded to a multiple of 8 by the front end. */
	__u64 key[BPFDB_KEY_MAX / 8 + 2];

	/* Seldom used. */
	__u64 begun; /* when the snapshot was taken, CLOCK_MONOTONIC, to 10 ms */
	__u64 spare_aux; /* address of an aux block for the next record that needs one; 0: none */
	__u64 room_cell; /* address of the record whose version array is in the way */
	__u32 holder; /* what opened it, as in struct bpfdb_config */
	__u32 next_free; /* the next free session + 1; 0: this is the last one */
	/* Of the last operator that said CONFLICT: why (enum bpfdb_conflict), and the index of
	 * the session that held the key + 1; 0: not known. */
	__u32 conflict;
	__u32 conflict_with;
	__u32 opened; /* how often, in steps of BPFDB_SESSION_OPENING */
	__u32 keeps_depends; /* 1: operations of user space keep `depends` */
	/* Timestamp of the latest commit that a reply of this session may tell of:
	 * bpf/operators/depends.bpf.h. */
	__u64 depends;
	/* 1: a client's BEGIN has opened the transaction, which lasts as long as the client likes.
	 * 0: the program that has begun it also ends it. */
	__u32 interactive;
	/* 1: its look-ups are no accesses. */
	__u32 untracked;
	/* 1: MEMORY_PENDING does not fail the transaction that is open: its client's statements are
	 * tried again, each from its beginning. */
	__u32 patient;

	/* Of a transaction with far locks: bpf/txn/far.bpf.h. */
	__u32 lock_pages; /* pages of locks that it has */
	__u64 lock_lists; /* address of the heads of their lists; 0: none yet */
	__u32 release_next; /* FINISHING: the first lock that this round has not looked at */
	__u32 release_left; /* 1: this round has met a lock that could not be released */

	/* BPFDB_INDEX_: does it keep the indexes of ordered tables, so that it may make their keys
	 * come and go? bpf/storage/scan_lock.bpf.h. */
	__u32 keeps_index;

	/* For continuation-passing style: programs to run after the operator,
	 * by outcome. */
	__u32 on_found;
	__u32 on_not_found;
	__u32 on_ok;
	__u32 on_error;
	__u8 pad[512 - 2 * sizeof(__u64) -
		 11 * sizeof(__u32)]; /* to a multiple of 512: see the end of this file */
} BPFDB_LINES;

#define BPFDB_BEGINS_LINE(type, member)                                                            \
	_Static_assert(__builtin_offsetof(type, member) % BPFDB_LINE_SIZE == 0, #member)

_Static_assert(sizeof(struct bpfdb_session) % BPFDB_LINE_SIZE == 0, "no line of two sessions");
/* What every operator touches: three lines, the key, and a lock for each key written. */
BPFDB_BEGINS_LINE(struct bpfdb_session, operations);
BPFDB_BEGINS_LINE(struct bpfdb_session, gets_found);
BPFDB_BEGINS_LINE(struct bpfdb_session, expires);
BPFDB_BEGINS_LINE(struct bpfdb_session, app);
BPFDB_BEGINS_LINE(struct bpfdb_session, locks);
BPFDB_BEGINS_LINE(struct bpfdb_session, key);
_Static_assert(sizeof(struct bpfdb_lock) == BPFDB_LINE_SIZE, "a lock is a line");

/* ---- User space sessions: BPF_PROG_RUN --------------------------------- */

/* One operation in a user-space session's buffer; key then value follow, each
 * padded to 8 bytes. The reply overwrites status and value. */
struct bpfdb_request {
	__u32 operation; /* with or without BPFDB_OR_STOP, and BPFDB_OF_TYPE() */
	__u32 status; /* out */
	__u32 key_len;
	/* In: the length, of SET. Out: the form without BPFDB_EXPIRES (form.h), of GET. */
	__u32 value_len;
	__u32 next; /* offset of the next request in the buffer; 0 = last */
	__u32 value_room; /* bytes reserved behind the key for the value */
	__u64 expires; /* in: of SET; out: of GET; 0: never */
	/* Of a large value. GET and LARGE_SHARE, which finds any type, say FOUND_LARGE, not
	 * FOUND, its length in `offset` and its id here. LARGE_READ: `value_room` bytes from `offset`
	 * (a multiple of 8) on of the value with this id; NOT_FOUND if the key has
	 * another one by now, or was written during every copy. LARGE_WRITE: `value_len`
	 * bytes at `offset`, in order and in steps of BPFDB_LARGE_PART; the first one says
	 * here how long all of it will be (0: it will not be). A SET of that length takes
	 * it, and gives it a type. */
	__u64 large;
	__u64 offset;
	/* FOUND_LARGE leaves a struct bpfdb_place where the value would be. DEMOTE has a struct
	 * bpfdb_demotion there. PROMOTE has a value as of SET, and here the id of the cold one. */
};

/* The value of the key, if it is still the one that is meant, becomes the cold one at `place`. */
struct bpfdb_demotion {
	__u64 id; /* of a large or cold value; 0: it is neither */
	__u64 epoch; /* of a value without an id: it has a timestamp up to this */
	__u64 len; /* bytes of the value */
	struct bpfdb_place place;
};

/* In an operation: the type of the value that SET makes; or BPFDB_TYPE_ANY, and GET finds values
 * of any type. Without it a string is meant. */
#define BPFDB_OF_TYPE_SHIFT 16
#define BPFDB_OF_TYPE(type) ((__u32)(type) << BPFDB_OF_TYPE_SHIFT)

/* In an operation: if it ends in an Error, the requests behind it are not executed. */
#define BPFDB_OR_STOP (1U << 31)

/* Beside the number of requests that were executed: the next one found its session busy,
 * and may be tried again. */
#define BPFDB_RUN_BUSY (1U << 31)

/* Of a key, to tell whether it was written: see bpf/operators/watch.bpf.h. */
struct bpfdb_watch {
	__u64 snapshot; /* the moment; not inside a transaction */
	__u64 changed; /* timestamp of the last change; inside one only */
	__u64 present; /* it has a value */
};

/* A step of a scan, at the beginning of the io buffer. The keys that it found
 * follow, each as a 64-bit length and its bytes, padded to 8. */
struct bpfdb_scan {
	__u64 cursor; /* in and out; 0 begins, and says that all was visited */
	__u32 keys; /* in: enough of them; out: how many follow */
	__u32 buckets; /* in: to be visited at most; out: were visited */
	__u32 keyspaces; /* in: bit n: keys of keyspace n; bit BPFDB_KEYSPACE_NONE: all others */
	__u32 reserved;
};

/* A step of the hand that looks for victims, at the beginning of the io buffer. What it found
 * follows, each a struct bpfdb_sampled and its stored key, padded to 8. */
struct bpfdb_sample {
	__u64 cursor; /* in and out: page << BPFDB_CELL_BITS | cell */
	__u32 wanted; /* in: records after which it stops; out: how many follow */
	__u32 pages; /* in: pages that it looks at, at most */
	__u32 which; /* in: BPFDB_SAMPLE_ */
	__u32 ended; /* out: 1: it has passed the last page, and goes on at the first one */
};

/* Only records with an expiry; only those of which something lies in a slab that is closing. */
#define BPFDB_SAMPLE_EXPIRING 1
#define BPFDB_SAMPLE_CLOSING 2

struct bpfdb_sampled {
	__u64 header; /* of the cell: what EVICT compares */
	__u64 meta; /* of the head, the same */
	__u64 expires; /* 0: never */
	__u64 len; /* bytes of the value */
	__u32 key_len;
	/* Of BPFDB_SAMPLE_CLOSING: the closing slabs in which key and value lie; 0: in none. */
	__u32 key_page;
	__u32 value_page;
	__u32 reserved;
};

/* Request buffer of one user-space session (map `io`, mapped by user space). */
#define BPFDB_IO_SIZE (1 << 18)
/* Room behind the buffer, for the verifier and the longest value. */
#define BPFDB_IO_PAD (BPFDB_PIECE_SIZE + 4096)

/* A step of a checkpoint's pass, at the beginning of the io buffer: up to a page. The entries
 * that it found follow, each as in the files of the log. */
struct bpfdb_checkpoint {
	__u64 epoch; /* in: of records with a later timestamp the log has the last write */
	__u32 cursor; /* in and out; 0 begins, BPFDB_CHECKPOINT_END: all was visited */
	__u32 home; /* in and out: bucket of the page to go on with; 0 begins it */
	__u32 level; /* in and out: greatest level of its buckets so far */
	__u32 bytes; /* out: of the entries */
	__u32 entries; /* out: how many */
	__u32 others; /* out: how many records lie at BPFDB_CHECKPOINT_OTHERS */
	__u32 later; /* out: records that were left out */
	__u32 unused[3];
};
_Static_assert(sizeof(struct bpfdb_checkpoint) % BPFDB_LOG_GRAIN == 0, "entries begin at a grain");

#define BPFDB_CHECKPOINT_END (1U << BPFDB_DIRECTORY_BITS_MAX)
/* Where those begin whose values are to be read otherwise: one behind the other, each with the
 * key and room for the longest. */
#define BPFDB_CHECKPOINT_OTHERS (BPFDB_IO_SIZE - 40 * 1024)
struct bpfdb_checkpoint_other {
	__u64 id; /* of a large value; 0: it is none */
	__u64 len; /* bytes of the value */
	__u64 expires; /* 0: never */
	__u32 key_len;
	__u32 value_type; /* BPFDB_TYPE_ */
	__u64 run; /* file of a cold value; 0: it is in memory */
};
#define BPFDB_CHECKPOINT_OTHER_SIZE (40 + BPFDB_KEY_MAX)
_Static_assert(sizeof(struct bpfdb_checkpoint_other) == 40, "the key is behind it");
/* If the records of one bucket do not fit together, longer values are among the others. */
#define BPFDB_CHECKPOINT_SHORT 4096

/* ---- Engine ------------------------------------------------------------- */

/*
 * Fixed when the engine is created; constants to the verifier. The fields up to `identity` keep
 * their places in every version: a loader compares and sets them without this header
 * (docs/joining.md).
 */
struct bpfdb_config {
	__u32 abi_version; /* of the headers that the object was compiled with */
	/* Id of a map that lives as long as the programs of this object: they hold the
	 * sessions that they open. When the map is gone no program can close these, and the
	 * engine's owner does it. 0: the object has not joined. */
	__u32 holder;
	__u64 layout; /* BPFDB_LAYOUT of these headers: include/bpfdb/layout.h */
	__u64 identity; /* of the engine that the object has joined; 0: of none */
	__u32 versions; /* 1 to BPFDB_VERSIONS_MAX */
	__u32 directory_bits;
	__u32 sessions;
	__u32 segments_max; /* most that segments_limit may be */
	__u32 pages_max;
	__u32 locks_max;
	__u64 idle_limit; /* an interactive transaction idle longer is rolled back */
	__u32 log_ring; /* bytes of a ring of the log, a power of two; 0: no log */
	__u32 log_rings; /* how many: a power of two */
	__u32 port; /* TCP port of the Redis front end, host order */
	__u32 user_sessions; /* buffers of each process for sessions of user space */
	__u32 ordered_tables; /* how many, up to BPFDB_ORDERED_TABLES_MAX */
};
_Static_assert(__builtin_offsetof(struct bpfdb_config, holder) == 4 &&
		       __builtin_offsetof(struct bpfdb_config, layout) == 8 &&
		       __builtin_offsetof(struct bpfdb_config, identity) == 16,
	       "docs/joining.md says so");

/* What versions have in one of the files of cold values. */
struct bpfdb_run_use {
	__u64 values;
	__u64 bytes; /* of these values */
};

/* What a version held before its value went to a file or came back, until no program can be
 * reading it any more: bpf/storage/cold.bpf.h. */
struct bpfdb_retired {
	__u64 next; /* address of the next one of its list; 0: none */
	__u64 data; /* of the version: its data[0] */
	__u64 form;
};

/* One gauge or list head per cache line, where several processors write it. */
struct bpfdb_line {
	__u64 value;
} BPFDB_LINES;

/* The clock that expiry goes by: crates/bpfdb/src/time.rs. */
struct bpfdb_time {
	/* UNIX time - CLOCK_BOOTTIME, nanoseconds: programs read the latter, which does
	 * not jump. User space publishes it, by one store. */
	__s64 offset;
	__u64 fixed; /* not 0: the time, milliseconds, as a test wants it */
	__u64 boot BPFDB_LINES; /* CLOCK_BOOTTIME as a program read it last, for user space */
} BPFDB_LINES;

/* No open transaction judges by a time before this: bpf/operators/expire.bpf.h. */
struct bpfdb_horizon {
	__u64 value;
	__u64 oldest; /* of the sessions looked at in this round */
	__u64 next; /* session to look at next */
} BPFDB_LINES;

/* The running snapshots at a glance: bpf/txn/snapshot.bpf.h. */
struct bpfdb_snapshots {
	__u64 active; /* running (32 bits) | of these, about to take their timestamp (32 bits) */
	__u64 newest; /* no running snapshot has a later timestamp */
	__u64 newest_session; /* which is likely to have that one */
	__u64 ended; /* changes whenever one ends */
	/* Older than this, nanoseconds, a snapshot may be ended if it is in the way; 0: never.
	 * User space writes it at any time. */
	__u64 age_max;
	__u64 swept; /* what `ended` was when the sweeper began its round */
	__u64 sweeping; /* rounds until memory that revoked snapshots kept has come back */
	__u64 pad;
};

struct bpfdb_class {
	__u64 partial; /* list of slabs with free slots: slab | tag (upper 32 bits) */
	__u64 slabs; /* slabs that belong to this class */
	__u64 looked_at; /* as partial: those of them that a reclaim has looked at */
	/* Slab that a processor allocates from; written when it opens another one. */
	__u32 open[BPFDB_ALLOC_SHARDS] BPFDB_LINES;
} BPFDB_LINES;

/* Slots that one shard of processors keeps ready, one of each size class; 0: none. */
struct bpfdb_spares {
	__u64 slots[BPFDB_CLASS_ENTRIES];
} BPFDB_LINES;

/*
 * What the hash of keys is drawn by: bpf/storage/hash.bpf.h. Random, never shown,
 * the same as long as the engine is. What keys of BPFDB_INLINE_MAX bytes need is in
 * the first two lines.
 */
struct bpfdb_hash_secrets {
	__u64 start[2];
	__u64 length[2];
	__u64 finish[2]; /* odd */
	/* Two words for each 8 bytes of the key; the second sum begins two further. */
	__u64 words[2 * (BPFDB_KEY_MAX / 8 + 1)];
};

/* ---- Log ------------------------------------------------------------------ */

/* Does the log take writes, if there is room? */
enum bpfdb_log_gate {
	BPFDB_LOG_GATE_OPEN = 0,
	BPFDB_LOG_GATE_HELD = 1, /* not for now: the disk is late, or the owner ends. LOG_FULL */
	BPFDB_LOG_GATE_CLOSED =
		2, /* until an operator acts: a failed flush, a full disk. LOG_CLOSED */
};

/*
 * A ring of the log: bpf/log/ring.bpf.h. A position counts the bytes that were ever
 * reserved before; its place in the ring is the position modulo the ring's size.
 */
struct bpfdb_log_ring {
	__u64 reserved BPFDB_LINES; /* position behind the last reservation; programs write it */
	__u64 limit BPFDB_LINES; /* reservations end here; the writer of the log writes it */
	__u64 gate; /* enum bpfdb_log_gate */
};

/*
 * A record in a ring: the writes of one commit. The first write follows, another one where
 * the position behind the one before says: each is whole, be it beyond the ring's end.
 */
struct bpfdb_log_record {
	/* BPFDB_LOG_: a secret function of the position | void | length in record grains. Stored
	 * last: until it fits the position, the record is not there. */
	__u64 head;
	__u64 stamp; /* timestamp of the commit */
};

#define BPFDB_LOG_GRAINS_MASK ((1ULL << 25) - 1)
/* The operator failed: nothing was written. */
#define BPFDB_LOG_VOID (1ULL << 25)
#define BPFDB_LOG_TAG_SHIFT 26

/*
 * One write. The key follows, in whole grains, then the value, the same: none if the form
 * is ABSENT; of a large value a struct bpfdb_log_large; else the bytes, one grain at least.
 */
struct bpfdb_log_write {
	__u64 meta; /* form (24 bits) | length of the key */
	__u64 expires; /* 0: never */
};

/* The record holds the value, until the writer of the log gives the holder back. */
struct bpfdb_log_large {
	__u64 id;
	__u64 len;
	__u64 table; /* address of the struct bpfdb_large; 0: given back */
	__u64 reserved;
};

/* Random, as the secrets of the hash: what a client writes is never taken for a head. */
struct bpfdb_log_secrets {
	__u64 factor; /* odd */
	__u64 term;
};

/* Which log the engine's memory belongs to, written by user space. */
struct bpfdb_log_home {
	__u64 log[2]; /* identity of the log */
	__u64 run; /* number of the run that this memory is; 0: it belongs to none yet */
	__u64 batch; /* what the log has up to this batch may be gone from the rings */
	/* Identity of the run: another copy of the log may have one of the same number. */
	__u64 run_id[2];
};

/* Begins a page: the map is one that user space maps. */
struct bpfdb_engine {
	/* One line that every operator reads, and only the timer writes, each 17 ms at most. */
	__u32 abi_version;
	__u32 initialized;
	__u64 zero; /* always 0, unknown to the verifier */
	/* What an object must agree with to open a session: bpf/txn/joined.bpf.h. These keep their
	 * places in every version. */
	__u64 identity; /* random; no other engine has it */
	__u64 layout; /* BPFDB_LAYOUT of the object that created the engine */
	__u64 constants; /* digest of its configuration */
	/* User space writes these at any time. */
	__u32 tracking; /* enum bpfdb_tracking */
	__u32 eviction; /* enum bpfdb_eviction */
	__u64 access_now; /* LRU: the access word of a record that is used now, kept by the timer; LFU:
			   * BPFDB_ACCESS_COUNTED; 0: nothing is noted */
	/* Which session has scanned what, in a transaction that writes: bpf/storage/scan_lock.bpf.h. Only scans
	 * write it. */
	__u64 scan_lock;
	struct bpfdb_line clock; /* epoch clock: see bpf/txn/clock.bpf.h */
	struct bpfdb_line now; /* coarse time, written by the maintenance timer */
	struct bpfdb_snapshots snapshots;
	struct bpfdb_line segments; /* segments added so far (user space writes) */
	struct bpfdb_hash_secrets hash;
	struct bpfdb_line segments_limit; /* memory limit: user space writes it at any time */
	struct bpfdb_line pages_taken; /* pages cut off the segments so far */
	struct bpfdb_line pages_free; /* list of returned pages: page | tag */
	struct bpfdb_line pages_free_count;
	struct bpfdb_line versions; /* history versions */
	struct bpfdb_line garbage; /* cells that the sweeper must visit */
	struct bpfdb_line directory_depth; /* bits of the hash that it goes by */
	struct bpfdb_line directory_latch;
	/* Pages that the directory names, by their level; under its latch. */
	__u64 level_pages[BPFDB_LEVEL_ENTRIES];
	struct bpfdb_line index_pages;
	struct bpfdb_line sweep_cursor;
	struct bpfdb_line sessions_free; /* list of closed sessions: session + 1 | tag */
	struct bpfdb_line sessions_made; /* sessions from here on were never opened */
	struct bpfdb_line owner; /* holder of the owner's sessions of user space */
	struct bpfdb_line memory_asked; /* not 0: an attached process waits for memory */
	struct bpfdb_line reap_cursor;
	struct bpfdb_time time;
	struct bpfdb_horizon horizon;
	struct bpfdb_line expiring; /* versions with an expiry */
	struct bpfdb_line expiry_due; /* no record is to be removed before */
	struct bpfdb_line index_generation; /* index pages ever made */
	struct bpfdb_line large_values; /* begun, ever: the id of the last one */
	struct bpfdb_line large_garbage; /* address of the first without a holder */
	struct bpfdb_line large_collecting; /* latch: these are being freed */
	struct bpfdb_log_secrets log BPFDB_LINES;
	struct bpfdb_log_home log_home;
	struct bpfdb_line log_holds; /* large values that records of the log hold */
	struct bpfdb_line
		durable; /* commits up to this timestamp are on the disk: its writer says so */
	/* Not 0: values are going to files, so there will be memory. User space writes it. */
	struct bpfdb_line demoting;
	/* Pages that are kept for the tables of cold values. User space writes it. */
	struct bpfdb_line tier_reserve;
	struct bpfdb_line retired; /* list of struct bpfdb_retired */
	struct bpfdb_line retiring; /* those of them that wait for the end of a grace period */
	struct bpfdb_run_use runs[BPFDB_RUNS_MAX] BPFDB_LINES; /* by the number of the run */
	__u64 keyspaces[BPFDB_KEYSPACES] BPFDB_LINES; /* records of each, by their keys */
	struct bpfdb_class classes[BPFDB_CLASS_ENTRIES];
	struct bpfdb_spares spares[BPFDB_ALLOC_SHARDS];
	/* Of LFU, which user space writes at any time. The first line has no room for them. */
	__u32 lfu_log_factor BPFDB_LINES;
	__u32 lfu_decay; /* minutes in which a counter loses one; 0: it loses none */
} BPFDB_LINES;

_Static_assert(sizeof(struct bpfdb_line) == BPFDB_LINE_SIZE, "a line of its own");
_Static_assert(sizeof(struct bpfdb_slab) == BPFDB_LINE_SIZE, "no line of two slabs");
_Static_assert(sizeof(struct bpfdb_cell) == BPFDB_CELL_SIZE, "pages are arrays of cells");
_Static_assert(BPFDB_CELL_SIZE == BPFDB_LINE_SIZE, "a cell is a line");
BPFDB_BEGINS_LINE(struct bpfdb_engine, clock);
_Static_assert(__builtin_offsetof(struct bpfdb_engine, layout) == 24,
	       "objects of other versions look for it there");
BPFDB_BEGINS_LINE(struct bpfdb_engine, snapshots);
BPFDB_BEGINS_LINE(struct bpfdb_engine, time);
BPFDB_BEGINS_LINE(struct bpfdb_engine, horizon);
BPFDB_BEGINS_LINE(struct bpfdb_engine, expiring);
BPFDB_BEGINS_LINE(struct bpfdb_engine, classes);
BPFDB_BEGINS_LINE(struct bpfdb_engine, spares);
BPFDB_BEGINS_LINE(struct bpfdb_class, open);

/*
 * A load waits for a store before it whose address has the same lowest 12 bits, until
 * that store has retired: in an operator, behind the cache miss of the last one. Sessions
 * lie at multiples of 512 bytes, and of these 8 lines the operators store to 0 to 4 and 7
 * (the first lock; the key). So the secrets, which every operator loads, are in the others.
 */
_Static_assert(__builtin_offsetof(struct bpfdb_engine, hash) % 512 == 5 * BPFDB_LINE_SIZE &&
		       sizeof(struct bpfdb_session) % 512 == 0 &&
		       __builtin_offsetof(struct bpfdb_session, locks) % 512 ==
			       4 * BPFDB_LINE_SIZE &&
		       __builtin_offsetof(struct bpfdb_session, key) % 512 == 7 * BPFDB_LINE_SIZE,
	       "the secrets of the hash do not alias what operators store");

/* Counters that a front end has for itself: what they count, its own header says. There
 * is room for more, so that the engine's maps stay the same when a front end grows. */
#define BPFDB_FRONT_END_COUNTERS 256

/* Per-processor counters; `bpfdb stats` sums them. */
struct bpfdb_counters {
	/* Of closed and open sessions: summed by user space. */
	__u64 operations[BPFDB_COUNTED_OPERATIONS];
	__u64 statuses[BPFDB_STATUS_COUNT]; /* Errors by cause, and outcomes */
	__u64 conflicts[BPFDB_CONFLICT_COUNT]; /* Errors CONFLICT, by why */
	__u64 memory_lost;
	__u64 latch_retries;
	__u64 read_retries;
	__u64 autocommit_retries;
	__u64 commits_helped;
	__u64 page_splits;
	__u64 page_merges;
	__u64 pages_reclaimed;
	__u64 versions_pruned;
	__u64 snapshots_revoked; /* ended because they were old and in the way */
	__u64 records_swept;
	__u64 records_expired; /* removed by the sweeper because their time was over */
	__u64 records_evicted;
	__u64 sessions_reaped;
	__u64 front_end[BPFDB_FRONT_END_COUNTERS]; /* struct bpfdb_redis_counters */
};

#endif
