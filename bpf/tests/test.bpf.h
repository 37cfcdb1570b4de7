/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Tests of BPF in BPF. A program named test_* returns 0, or the line of the
 * first expectation that failed. crates/bpfdb/tests/it/units.rs gives each
 * object an engine of its own and runs its programs.
 */
#ifndef BPFDB_TESTS_TEST_BPF_H
#define BPFDB_TESTS_TEST_BPF_H

#include <bpfdb/bpfdb.bpf.h>

#define TEST(name)                                                                                 \
	SEC("raw_tp")                                                                              \
	int test_##name(void *ctx)

#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return __LINE__;                                                           \
	} while (0)

/* A helper with expectations of its own. */
#define PASS(call)                                                                                 \
	do {                                                                                       \
		int line_ = (call);                                                                \
		if (line_)                                                                         \
			return line_;                                                              \
	} while (0)

/* A value that the compiler does not know. */
#define UNKNOWN(n) (LOAD(engine.zero) + (n))

static __always_inline struct bpfdb_session *test_session(void)
{
	int index = bpfdb_session_open(BPFDB_SESSION_EMBEDDED);

	return index < 0 ? NULL : bpfdb_session(index);
}

/* An inline key. */
static __always_inline void key_number(struct bpfdb_session *s, u64 n)
{
	s->key[0] = n;
	s->key[1] = 0;
	s->key_len = sizeof(n);
}

/* A key of `len` bytes, stored outside the cell if that is more than 16. */
__noinline int key_long(struct bpfdb_session *s NONNULL, u64 n, u32 len)
{
	if (len > BPFDB_KEY_MAX)
		return BPFDB_KEY_TOO_LARGE;
	for (u32 i = 0; i < BPFDB_KEY_MAX / 8; i++)
		s->key[i] = 0;
	for (u32 i = 0; i < BPFDB_KEY_MAX / 8; i++)
		if (i * 8 < len)
			s->key[i] = n + i;
	s->key_len = len;
	return BPFDB_OK;
}

static __always_inline void value_number(struct bpfdb_session *s, u64 n)
{
	s->value[0] = n;
	s->value[1] = 0;
	s->value_len = sizeof(n);
}

static __always_inline int set_number(struct bpfdb_session *s, u64 key, u64 value)
{
	key_number(s, key);
	value_number(s, value);
	return bpfdb_set(s);
}

static __always_inline int get_number(struct bpfdb_session *s, u64 key)
{
	key_number(s, key);
	return bpfdb_get(s);
}

static __always_inline bool has_number(struct bpfdb_session *s, u64 key, u64 value)
{
	return get_number(s, key) == BPFDB_FOUND && s->value_len == sizeof(value) &&
	       s->value[0] == value;
}

/* The cell of the session's key; NULL if it has no record. */
static __always_inline struct bpfdb_cell *cell_of_key(struct bpfdb_session *s, u64 *address)
{
	struct bpfdb_cell *cell = NULL;
	u64 header;

	*address = 0;
	if (key_prepare(s) != BPFDB_OK || record_find(s, &cell, address, &header) != BPFDB_OK)
		return NULL;
	return cell;
}

#endif
