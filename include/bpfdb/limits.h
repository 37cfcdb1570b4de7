/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Every bound of the engine, in one place, each with its reason. Bounds that
 * depend on each other are tied by static assertions at the end. Load-time
 * knobs (versions per key, sizes of the tables) are in abi.h, struct
 * bpfdb_config, and bounded by the limits here.
 */
#ifndef BPFDB_LIMITS_H
#define BPFDB_LIMITS_H

/* Longest key, bytes. */
#define BPFDB_KEY_MAX 512
/* Keys that begin with the seven bytes "\0bpfdb\0", here the lower bytes of a little-endian number,
 * are reserved: the front end and the server refuse them to clients. The byte behind them says
 * of which keyspace the rest is a key. */
#define BPFDB_RESERVED_KEYS 0x0000626466706200ULL
#define BPFDB_RESERVED_MASK 0x00ffffffffffffffULL
#define BPFDB_RESERVED_LEN 7
#define BPFDB_KEYSPACE_SHIFT 56
/* Bytes in front of a key that is in a keyspace of its own. */
#define BPFDB_KEYSPACE_PREFIX 8
/* Keyspace 0 has the server's own records, 1 to 15 are the Redis databases of these numbers, whose
 * database 0 has no prefix, and BPFDB_KEYSPACE_PAGES has the pages of large collections. */
#define BPFDB_KEYSPACES 32
#define BPFDB_KEYSPACE_PAGES 16
#define BPFDB_DATABASES 16
/* Ordered tables of an engine, at most: the rows of each are a keyspace of its own, from this one
 * on, and one more has the nodes of their indexes. bpf/operators/ordered.bpf.h. */
#define BPFDB_ORDERED_TABLES_MAX 8
#define BPFDB_KEYSPACE_ORDERED 18
#define BPFDB_KEYSPACE_NODES (BPFDB_KEYSPACE_ORDERED + BPFDB_ORDERED_TABLES_MAX)
/* The key of a node, behind the prefix: the table, the level, and the fence, which is as long as a
 * key of the table may be. */
#define BPFDB_NODE_NAME 2
#define BPFDB_ORDERED_KEY_MAX (BPFDB_KEY_MAX - BPFDB_KEYSPACE_PREFIX - BPFDB_NODE_NAME)
/* In the place of a level: the record that has the height of the index. */
#define BPFDB_NODE_HEIGHT 255
/* Levels of an index: each but the highest has two nodes at least, or it would not be there. */
#define BPFDB_NODE_LEVELS_MAX 48
/* A node is split when it is longer than this, bytes: an insert writes all of a leaf, in memory
 * and in the log, and locks all of it. */
#define BPFDB_NODE_BYTES 1024
/* But it has so many entries at least, however long they are. */
#define BPFDB_NODE_ENTRIES_MIN 4
/* The longest node, bytes: header, fence, entries with two bytes before each. */
#define BPFDB_NODE_MAX 4096
/* In a set of keyspaces: keys without a prefix. */
#define BPFDB_KEYSPACE_NONE 31
/* Longest value in one slot, bytes: half of a slab page, since a longer one would
 * take all of it. What the kernel side reads and writes at once. */
#define BPFDB_VALUE_MAX 32768
/* Longest value, bytes; what is longer than BPFDB_VALUE_MAX is in pieces of this. */
#define BPFDB_PIECE_BITS 15
#define BPFDB_PIECE_SIZE (1 << BPFDB_PIECE_BITS)
#define BPFDB_LARGE_MAX (512 << 20)
/* Bytes of a large value that user space reads or writes in one step. */
#define BPFDB_LARGE_PART (4 * 65536)
/* Keys and values up to this length, bytes, live inside the 64-byte cell. */
#define BPFDB_INLINE_MAX 16
/* A value with an expiry, which takes half of the room, up to this length. */
#define BPFDB_INLINE_EXPIRING_MAX 8

/* Files of cold values that may be there at a time (docs/tier.md): each has counters of its own. */
#define BPFDB_RUNS_MAX 1024

/* A segment is the unit in which memory is added to a running engine. */
#define BPFDB_SEGMENT_BITS 24
#define BPFDB_SEGMENT_SIZE (1 << BPFDB_SEGMENT_BITS)
/* Unused tail of a segment: lets the verifier see that any offset inside the
 * segment may be followed by one access of up to a page. */
#define BPFDB_SEGMENT_PAD 65536
/* Most segments: 4096 of 16 MiB, 64 GiB. */
#define BPFDB_SEGMENTS_MAX 4096

/* A page is the unit in which a segment is handed to the index or to a size
 * class. */
#define BPFDB_PAGE_BITS 16
#define BPFDB_PAGE_SIZE (1 << BPFDB_PAGE_BITS)
#define BPFDB_PAGES_PER_SEGMENT (1 << (BPFDB_SEGMENT_BITS - BPFDB_PAGE_BITS))

/* An index page is an array of cells; a cell holds one record. */
#define BPFDB_CELL_SIZE 64
#define BPFDB_CELL_BITS 10
#define BPFDB_CELLS_PER_PAGE (BPFDB_PAGE_SIZE / BPFDB_CELL_SIZE)
/* A record lies at most this many cells behind its home cell. */
#define BPFDB_NEIGHBOURHOOD 32
/* Occupied cells of a page, four fifths of them, at which it is split. */
#define BPFDB_SPLIT_CELLS 820
/* Cells that a page must have to be split: with fewer that lie anywhere, a full neighbourhood is no
 * chance (less than once in 10^13 pages), its keys were chosen; or records were deleted beside each
 * other (BPFDB_SPLIT_NEAR_MIN). */
#define BPFDB_SPLIT_CELLS_MIN (BPFDB_CELLS_PER_PAGE / 8)
/* A split of a crowded page is worth it if the half with fewer records gets one of so many: at least
 * 32, a quarter of BPFDB_SPLIT_CELLS_MIN. */
#define BPFDB_SPLIT_SHARE 4
/* Bits of the hash, from the next one on, of which one must divide the records so. Of a page that was merged from one
 * that had many and one that had few, as eviction leaves them, the first bits do not: splits by these only prepare
 * the one that helps. Keys that were chosen with the secrets of the hash can so cost so many pages each time that one
 * is worth it, one for 8 records. No more than BPFDB_SPLITS_MAX, all of which one request can make. */
#define BPFDB_SPLIT_BITS 4
/* A page is also split, however few records it has, if all BPFDB_NEIGHBOURHOOD cells within reach of a
 * home are taken and the half with fewer of these records gets at least so many. Chance gives fewer 3
 * times in a million. The other 28 may be in the way of the next split again: keys that were chosen with
 * the secrets of the hash can so cost a page for every 4 records. */
#define BPFDB_SPLIT_NEAR_MIN (BPFDB_NEIGHBOURHOOD / 8)
/* While a split is unfinished, new records must leave room for the buckets that have not
 * moved. The sibling takes none from so many occupied cells on (820 that are split bring 410
 * or a few more), and none so far from its home. At half of its cells a neighbourhood is all
 * taken at one of 500 homes. */
#define BPFDB_SIBLING_CELLS (BPFDB_CELLS_PER_PAGE / 2)
#define BPFDB_SIBLING_REACH (BPFDB_NEIGHBOURHOOD * 3 / 4)
/* Nor does the page, from so many cells of both on: if the split must be undone, all of them
 * go back to the page. */
#define BPFDB_HALVES_CELLS (BPFDB_CELLS_PER_PAGE * 15 / 16)
/* Splits of one request. One makes room, unless all keys of a neighbourhood agree in
 * the bit that it goes by. */
#define BPFDB_SPLITS_MAX 4
/* Most directory bits: 2^22 index pages would hold 4 G cells. */
#define BPFDB_DIRECTORY_BITS_MAX 22
/* Entries of the table of levels: a power of two, so that a mask bounds it. */
#define BPFDB_LEVEL_ENTRIES 32

/* Size classes: 32, 48, 64, ... 128, 160, 192, 224, 256, ... 4096, and the 15th,
 * 14th, ... 2nd part of a page, and all of it; bpf/storage/slab.bpf.h. */
#define BPFDB_CLASSES 42
/* Entries of the class table: a power of two, so that a mask bounds it. */
#define BPFDB_CLASS_ENTRIES 64
/* Slots are addressed in units of this many bytes. */
#define BPFDB_GRAIN 16
/* Processors with an open slab of their own, and spares; with more, two share by
 * remainder. What no processor uses costs 384 bytes. A power of two. */
#define BPFDB_ALLOC_SHARDS 64

/* Pages that only the locks of transactions, and DELETE, may take: what frees memory must not
 * fail for lack of it. This part of the limit, one divided by so many; at least and at most so
 * many pages, the latter for the locks of the longest transaction. */
#define BPFDB_RESERVE_SHARE 64
#define BPFDB_RESERVE_MIN 2
#define BPFDB_RESERVE_MAX 1024

/* Versions of a record: the newest plus what running snapshots need.
 * 1 means single-version mode. */
#define BPFDB_VERSIONS_MAX 8

/* Locks of one transaction: the first few in the session, then blocks, then pages. */
#define BPFDB_LOCKS_INLINE 8
#define BPFDB_LOCKS_PER_BLOCK 64
#define BPFDB_LOCK_BLOCKS 15
/* Entries of the block table: a power of two, so that a mask bounds it. The last one names
 * the table of lock pages. */
#define BPFDB_LOCK_BLOCK_ENTRIES 16
/* Near locks: those in the session and in blocks. A record names one of them by its number.
 * All others are far locks: they lie in pages, and a record finds its own by its key
 * (bpf/txn/far.bpf.h). */
#define BPFDB_LOCKS_NEAR (BPFDB_LOCKS_INLINE + BPFDB_LOCKS_PER_BLOCK * BPFDB_LOCK_BLOCKS)
#define BPFDB_LOCKS_PER_PAGE 1024
#define BPFDB_LOCK_PAGES 1024
/* Lists by which far locks are found: as many heads of 32 bits as a page holds. */
#define BPFDB_LOCK_LISTS (BPFDB_PAGE_SIZE / 4)
#define BPFDB_LOCKS_MAX (BPFDB_LOCKS_NEAR + BPFDB_LOCKS_PER_PAGE * BPFDB_LOCK_PAGES)
/* Locks that one operator releases: COMMIT and ROLLBACK of more go on in steps, each less
 * than a millisecond. */
#define BPFDB_LOCKS_STEP 1024

/* Read locks on one record at a time. */
#define BPFDB_READERS_MAX 1023
/* Sessions, user-space and network together. */
#define BPFDB_SESSIONS_MAX 65536
/* Places for the timestamps of removed records, by hash. A power of two. */
#define BPFDB_REMOVALS 65536
/* Sessions are scanned for running snapshots in groups of this many. */
#define BPFDB_SNAPSHOT_GROUP 64

/* A ring of the log: bytes, a power of two. */
#define BPFDB_LOG_RING_MIN (1 << 20)
#define BPFDB_LOG_RING_MAX (1 << 28)
/* Room behind it for a record that begins near its end: that of one write. */
#define BPFDB_LOG_PAD 36864
/* Most rings; processors with the same number modulo that share one. */
#define BPFDB_LOG_RINGS_MAX 64
/* Keys and values in a record lie at multiples of this many bytes. */
#define BPFDB_LOG_GRAIN 16
/* Records at multiples of this: the head and the beginning of the first write, which no
 * end of the ring parts. */
#define BPFDB_LOG_RECORD_GRAIN 32
/* A transaction may fill this part of a ring: one divided by so many. */
#define BPFDB_LOG_SHARE 2

/* Operators in one batch of BPF_PROG_RUN. */
#define BPFDB_BATCH_MAX 1024
/* Buckets that one step of a scan visits: most of them are a cache miss, so a
 * step takes less than a millisecond. */
#define BPFDB_SCAN_BUCKETS_MAX 4096
/* Buckets, and bytes of entries, after which one step of a checkpoint ends: some 10
 * microseconds. */
#define BPFDB_CHECKPOINT_STEP_BUCKETS 64
#define BPFDB_CHECKPOINT_STEP_BYTES 8192

_Static_assert(BPFDB_VALUE_MAX <= BPFDB_PAGE_SIZE, "a value must fit one slab page");
_Static_assert(BPFDB_CLASSES <= BPFDB_CLASS_ENTRIES, "every class has its entry");
_Static_assert(BPFDB_PAGE_SIZE == 2 * BPFDB_PIECE_SIZE, "two pieces are a page");
_Static_assert(BPFDB_LARGE_PART % BPFDB_PAGE_SIZE == 0, "a part is whole pieces");
_Static_assert(BPFDB_SEGMENT_PAD >= BPFDB_PAGE_SIZE, "page-sized access at any offset");
_Static_assert(BPFDB_CELLS_PER_PAGE == 1 << BPFDB_CELL_BITS, "the home is ten bits of the hash");
_Static_assert(BPFDB_NEIGHBOURHOOD == 32, "the neighbourhood bitmap has 32 bits");
_Static_assert(BPFDB_DIRECTORY_BITS_MAX < BPFDB_LEVEL_ENTRIES, "each level has an entry");
_Static_assert(BPFDB_SPLIT_CELLS_MIN > BPFDB_NEIGHBOURHOOD, "one home never makes a split");
_Static_assert(BPFDB_SPLIT_CELLS > BPFDB_SPLIT_CELLS_MIN, "a crowded page may be split");
_Static_assert(BPFDB_SPLIT_CELLS < BPFDB_CELLS_PER_PAGE, "before it is full");
_Static_assert(BPFDB_SPLIT_BITS <= BPFDB_SPLITS_MAX, "the last split of a request helps");
_Static_assert(BPFDB_SPLITS_MAX <= 7, "an operator counts them in three bits");
_Static_assert(BPFDB_LOCKS_NEAR < (1 << 10) - 1,
	       "lock index field of a cell is 10 bits, and its last value says: a far lock");
_Static_assert(BPFDB_LOCK_BLOCKS < BPFDB_LOCK_BLOCK_ENTRIES, "the table of pages has its entry");
_Static_assert(BPFDB_LOCKS_MAX >= 1000000, "what docs/network.md promises");
_Static_assert(BPFDB_LOCKS_STEP >= BPFDB_LOCKS_NEAR, "near locks are released in one step");
_Static_assert(BPFDB_SESSIONS_MAX <= (1 << 16), "session field of a cell is 16 bits");
_Static_assert(BPFDB_LOG_PAD >= 1024 + BPFDB_KEY_MAX + BPFDB_VALUE_MAX, "one write fits the pad");
_Static_assert(BPFDB_KEYSPACES == 32 && BPFDB_KEYSPACE_NONE == BPFDB_KEYSPACES - 1,
	       "a set of keyspaces has 32 bits");
_Static_assert(BPFDB_KEYSPACE_NODES < BPFDB_KEYSPACE_NONE, "ordered tables have their keyspaces");
_Static_assert(8 + BPFDB_ORDERED_KEY_MAX +
			       (BPFDB_NODE_ENTRIES_MIN + 1) * (2 + BPFDB_ORDERED_KEY_MAX) <=
		       BPFDB_NODE_MAX,
	       "before a node is split it has one entry too many");
_Static_assert(BPFDB_VERSIONS_MAX <= 8, "a version array fits the aux block");

#endif
