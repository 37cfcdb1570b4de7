// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* operators/ordered.bpf.h: the order of bytes, and the way through nodes made by hand. Scans of tables, which
 * user space fills: crates/bpfdb/tests/it/ordered/programs.rs runs the programs at the end. */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpfdb_ordered_scan);
} scans SEC(".maps");

static __always_inline struct bpfdb_ordered_scan *the_scan(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&scans, &zero);
}

/* Some bytes of the node, and a key. */
#define NODE(scan, bytes) __builtin_memcpy((scan)->node, bytes, sizeof(bytes) - 1)
#define KEY(key, text)                                                                             \
	({                                                                                         \
		(key)->len = UNKNOWN(sizeof(text) - 1);                                            \
		__builtin_memcpy((key)->bytes, text, sizeof(text) - 1);                            \
	})

static __always_inline int order(struct bpfdb_ordered_scan *scan, u32 at, u32 len)
{
	return ordered_compare(scan, &scan->to, at, len);
}

TEST(bytes_are_ordered_as_bytes)
{
	struct bpfdb_ordered_scan *scan = the_scan();

	EXPECT(scan);
	NODE(scan, "_abcdefghijkl\0\0\xff");
	KEY(&scan->to, "abcdefghijkl");
	EXPECT(order(scan, 1, 12) == 0);
	EXPECT(order(scan, 1, 11) < 0 && order(scan, 1, 8) < 0 && order(scan, 1, 0) < 0);
	/* A zero more is more. */
	EXPECT(order(scan, 1, 13) > 0 && order(scan, 1, 14) > 0);
	EXPECT(order(scan, 2, 1) > 0 && order(scan, 15, 1) > 0 && order(scan, 13, 2) < 0);
	KEY(&scan->to, "abcdefgi");
	EXPECT(order(scan, 1, 12) < 0);
	KEY(&scan->to, "abcdefgh\xff");
	EXPECT(order(scan, 1, 12) < 0);
	KEY(&scan->to, "");
	EXPECT(order(scan, 1, 0) == 0 && order(scan, 13, 1) > 0);
	return 0;
}

/* A leaf with b, bb, d, and the fence dd behind it. */
#define LEAF "\1\0\3\0\2\0\0\0dd\1\0b\2\0bb\1\0d"

/* What is left of it in this range. */
static __always_inline int left_of(struct bpfdb_ordered_scan *scan)
{
	scan->level = 0;
	scan->more = 0;
	scan->at = ORDERED_NODE_HEADER + 2;
	scan->left = 3;
	return ordered_leaf(scan, 2) == BPFDB_OK ? (int)scan->left : -1;
}

TEST(a_leaf_has_the_rows_of_a_range)
{
	struct bpfdb_ordered_scan *scan = the_scan();

	EXPECT(scan);
	NODE(scan, LEAF);
	scan->has_end = 0;
	KEY(&scan->from, "");
	EXPECT(left_of(scan) == 3 && scan->more && scan->from.len == 2);
	EXPECT(scan->from.bytes[0] == 'd' && scan->from.bytes[1] == 'd');
	KEY(&scan->from, "b");
	EXPECT(left_of(scan) == 3);
	KEY(&scan->from, "ba");
	EXPECT(left_of(scan) == 2 && ordered_number(scan, scan->at) == 2);
	KEY(&scan->from, "da");
	EXPECT(left_of(scan) == 0 && scan->more);
	scan->has_end = 1;
	KEY(&scan->from, "");
	KEY(&scan->to, "bb");
	EXPECT(left_of(scan) == 1 && !scan->more);
	KEY(&scan->from, "b\0");
	KEY(&scan->to, "dd");
	EXPECT(left_of(scan) == 2 && !scan->more);
	KEY(&scan->from, "c");
	KEY(&scan->to, "dd\0");
	EXPECT(left_of(scan) == 1 && scan->more);
	KEY(&scan->from, "c");
	KEY(&scan->to, "a");
	EXPECT(left_of(scan) == 0 && !scan->more);
	return 0;
}

/* A count that is not that of the entries: the way over them ends. */
TEST(a_node_has_no_more_entries_than_fit)
{
	struct bpfdb_ordered_scan *scan = the_scan();

	EXPECT(scan);
	/* All entries are the empty key, again and again. */
	NODE(scan, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
	KEY(&scan->from, "b");
	scan->at = ORDERED_NODE_HEADER;
	scan->left = BPFDB_NODE_MAX;
	EXPECT(ordered_pass(scan, &scan->from, false) == BPFDB_CORRUPT);
	return 0;
}

TEST(only_declared_tables_are_scanned_in_transactions)
{
	struct bpfdb_ordered_scan *scan = the_scan();
	struct bpfdb_session *s = test_session();

	EXPECT(s && scan);
	scan->table = config.ordered_tables;
	scan->has_end = 0;
	KEY(&scan->from, "");
	EXPECT(bpfdb_begin(s) == BPFDB_OK);
	EXPECT(bpfdb_ordered_scan(s, scan) == BPFDB_BAD_REQUEST);
	/* As an Error of GET has done. */
	EXPECT(s->state == BPFDB_TXN_FAILED && s->failure == BPFDB_BAD_REQUEST);
	scan->table = 0;
	EXPECT(bpfdb_ordered_scan(s, scan) == BPFDB_WRONG_STATE);
	EXPECT(bpfdb_rollback(s) == BPFDB_OK && bpfdb_begin(s) == BPFDB_OK);
	EXPECT(bpfdb_ordered_scan(s, scan) == BPFDB_OK && !scan->left && !scan->more);
	EXPECT(bpfdb_ordered_next(s, scan) == BPFDB_NOT_FOUND);
	scan->from.len = BPFDB_ORDERED_KEY_MAX + 1;
	EXPECT(bpfdb_ordered_scan(s, scan) == BPFDB_BAD_REQUEST);
	scan->from.len = 0;
	EXPECT(bpfdb_rollback(s) == BPFDB_OK);
	EXPECT(bpfdb_ordered_scan(s, scan) == BPFDB_WRONG_STATE);
	/* Its time is over. */
	s->state = BPFDB_TXN_EXPIRED;
	EXPECT(bpfdb_ordered_scan(s, scan) == BPFDB_TIMED_OUT);
	s->state = BPFDB_TXN_NONE;
	/* A row does not come without its index. */
	ordered_prefix(s, BPFDB_KEYSPACE_ORDERED, 0);
	value_number(s, 1);
	EXPECT(bpfdb_set(s) == BPFDB_NOT_INDEXED && bpfdb_get(s) == BPFDB_NOT_FOUND);
	bpfdb_session_close(s);
	return 0;
}

/* ---- Of tables -------------------------------------------------------------------- */

/* Index of the session of the programs below + 1. */
u32 scanner;

static __always_inline struct bpfdb_session *scanner_session(void)
{
	if (!scanner) {
		int index = bpfdb_session_open(BPFDB_SESSION_EMBEDDED);

		if (index < 0)
			return NULL;
		scanner = index + 1;
	}
	return bpfdb_session(scanner - 1);
}

/* The rows that a scan of one leaf has found: how many, or -status. Their values are numbers, and ascend by 1
 * from `*next` on. */
static __always_inline int count_rows(struct bpfdb_session *s, struct bpfdb_ordered_scan *scan,
				      u64 *next)
{
	int rows = LOAD(engine.zero);

	repeat(i, BPFDB_NODE_MAX)
	{
		if (bpfdb_ordered_next(s, scan) != BPFDB_FOUND)
			break;
		if (bpfdb_get(s) != BPFDB_FOUND)
			return -BPFDB_CONFLICT;
		if (s->value_len != sizeof(u64) || s->value[0] != *next)
			return -BPFDB_CORRUPT;
		(*next)++;
		rows++;
	}
	return rows;
}

/* ctx: table, 1 in a read-write transaction, first and last number of the range. Keys are numbers of eight
 * bytes, the highest byte first; values are the numbers. Returns how many rows one scan has found, or -status; the
 * transaction stays open. */
SEC("raw_tp")
int range_begin(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_ordered_scan *scan = the_scan();
	struct bpfdb_session *s = scanner_session();
	int status;
	u64 next;

	if (!s || !scan)
		return -BPFDB_NO_SESSION;
	status = ctx->args[1] ? bpfdb_begin(s) : bpfdb_begin_read_only(s);
	if (status != BPFDB_OK)
		return -status;
	next = ctx->args[2];
	scan->table = ctx->args[0];
	scan->has_end = 1;
	scan->from.len = scan->to.len = sizeof(u64);
	*(u64 *)scan->from.bytes = __builtin_bswap64(ctx->args[2]);
	*(u64 *)scan->to.bytes = __builtin_bswap64(ctx->args[3]);
	status = bpfdb_ordered_scan(s, scan);
	return status == BPFDB_OK ? count_rows(s, scan, &next) : -status;
}

/* ctx: the number that comes next. The same for the next leaf; 0 when the range has ended. */
SEC("raw_tp")
int range_next(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_ordered_scan *scan = the_scan();
	struct bpfdb_session *s = scanner_session();
	u64 next = ctx->args[0];
	int status;

	if (!s || !scan)
		return -BPFDB_NO_SESSION;
	if (!scan->more)
		return 0;
	status = bpfdb_ordered_scan(s, scan);
	return status == BPFDB_OK ? count_rows(s, scan, &next) : -status;
}

SEC("raw_tp")
int range_end(void *ctx)
{
	struct bpfdb_session *s = scanner_session();

	return s ? -bpfdb_rollback(s) : -BPFDB_NO_SESSION;
}
