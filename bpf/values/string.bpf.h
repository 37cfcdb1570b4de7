/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Strings as values: from where an operand is into the session, for the next SET.
 *
 * An operand of up to 16 bytes is read as two words of map memory, a longer one is copied from an
 * address. Front ends say by functions where both are. Those are arguments of inlined functions:
 * so there is one body, nothing is called by address, and the network moves its window only for
 * an operand that is read there.
 */
#ifndef BPFDB_VALUES_STRING_BPF_H
#define BPFDB_VALUES_STRING_BPF_H

#include "../operators/set.bpf.h"

/* Not an outcome of the engine: the body does not know this case, and has changed nothing. It
 * compares as an Error, so a transaction is rolled back for it. */
#define LEFT_TO_USER_SPACE (BPFDB_STATUS_COUNT + 1)

/* Map memory with an operand of up to 16 bytes: as many may be read there, however long it is. */
typedef const u8 *operand_words(void *operand, u32 len);
/* The kernel's address of an operand. */
typedef const void *operand_bytes(void *operand);

/* An operand of `len` bytes becomes the value of the next SET: OK or an Error. `most`, a
 * constant: no operand of this front end is longer. */
static __always_inline enum bpfdb_status value_fill(struct bpfdb_session *s, u32 len, u32 most,
						    operand_words *words, operand_bytes *bytes,
						    void *operand)
{
	enum bpfdb_status status = bpfdb_value_alloc(s, len);
	const u8 *from;
	void *slot;

	if (status != BPFDB_OK)
		return status;
	if (len <= BPFDB_INLINE_MAX) {
		from = words(operand, len);
		s->value[0] = low_bytes(load8(from), len);
		s->value[1] = len > 8 ? low_bytes(load8(from + 8), len - 8) : 0;
		return BPFDB_OK;
	}
	/* clang 22 knows the lengths of some callers, and would leave out this bound; the
	 * verifier does not. */
	OPAQUE(len);
	if (len > most)
		return BPFDB_CORRUPT;
	slot = bpfdb_at(s->value[0]);
	if (!slot)
		return BPFDB_CORRUPT;
	bpf_probe_read_kernel(slot, len, bytes(operand));
	return BPFDB_OK;
}

static __always_inline const u8 *memory_words(void *operand, u32 len)
{
	return operand;
}

static __always_inline const void *memory_bytes(void *operand)
{
	return operand;
}

/* The same with an operand in map memory, of which 16 bytes may be read. */
static __always_inline enum bpfdb_status value_from_memory(struct bpfdb_session *s, const u8 *from,
							   u32 len, u32 most)
{
	return value_fill(s, len, most, memory_words, memory_bytes, (void *)from);
}

/* SET of the value that was taken in, if that came to OK; it expires at `expires`, 0: never. Else
 * what it came to. */
static __always_inline enum bpfdb_status value_set(struct bpfdb_session *s,
						   enum bpfdb_status status, u64 expires)
{
	if (status != BPFDB_OK)
		return status;
	/* Only now: it would count for the next SET of the session. */
	s->expires = expires;
	return bpfdb_set(s);
}

#endif
