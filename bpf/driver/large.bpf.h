/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Large values of user space, in steps of BPFDB_LARGE_PART: struct bpfdb_request
 * says what it asks for. */
#ifndef BPFDB_DRIVER_LARGE_BPF_H
#define BPFDB_DRIVER_LARGE_BPF_H

#include "../operators/large.bpf.h"
#include "io.bpf.h"

/* GET found a large value, cold or not: says so in the request, FOUND_LARGE or RETRY. Its form is
 * in the request with any outcome. */
__noinline int large_tell(struct bpfdb_session *s NONNULL, u32 buffer, u32 at)
{
	struct bpfdb_request *request = io_at(buffer, at);
	struct bpfdb_place *place = io_at(buffer, value_offset(at, s->key_len));
	struct bpfdb_large *large = bpfdb_at(s->value[0]);

	if (!request || !place || !large)
		return RETRY;
	if (request->value_room < sizeof(*place))
		return BPFDB_BAD_REQUEST;
	request->offset = LOAD(large->len);
	request->large = LOAD(large->id);
	place->run = LOAD(large->place.run);
	place->offset = LOAD(large->place.offset);
	place->checksum = LOAD(large->place.checksum);
	return bpfdb_still_valid(s) ? BPFDB_FOUND_LARGE : RETRY;
}

/* Copies a piece's worth of bytes between the buffer and the value. */
static __always_inline void piece_load(void *piece, const void *from, u32 len)
{
	if (len <= BPFDB_PIECE_SIZE)
		bpf_probe_read_kernel(piece, len, from);
}

/* `len` bytes from the buffer into the value, from its byte `start` on: OK, or
 * what bpfdb_large_piece says. */
static __always_inline int parts_load(struct bpfdb_session *s, u32 buffer, u32 from, u64 start,
				      u32 len)
{
	u32 done = LOAD(engine.zero);

	repeat(i, BPFDB_LARGE_PART / BPFDB_PIECE_SIZE)
	{
		u32 some = len - done < BPFDB_PIECE_SIZE ? len - done : BPFDB_PIECE_SIZE;
		u64 address = 0;
		void *piece, *bytes;
		int status;

		if (done >= len)
			break;
		status = bpfdb_large_piece(s, (start + done) >> BPFDB_PIECE_BITS, &address);
		if (status != BPFDB_OK)
			return status;
		piece = bpfdb_at(address);
		bytes = io_at(buffer, from + done);
		if (!piece || !bytes)
			return BPFDB_CORRUPT;
		piece_load(piece, bytes, some);
		done += some;
	}
	return BPFDB_OK;
}

__noinline int large_write(struct bpfdb_session *s NONNULL, u32 buffer, u32 at)
{
	struct bpfdb_request *request = io_at(buffer, at);
	u64 start, whole;
	u32 len;
	int status;

	if (!request)
		return BPFDB_BAD_REQUEST;
	start = request->offset;
	whole = request->large;
	len = request->value_len;
	if (!whole)
		return bpfdb_large_discard(s);
	if (start % BPFDB_PIECE_SIZE || len > BPFDB_LARGE_PART || start > whole ||
	    len > whole - start || (len % BPFDB_PIECE_SIZE && len != whole - start))
		return BPFDB_BAD_REQUEST;
	if (!start) {
		status = bpfdb_large_begin(s, whole);
		if (status != BPFDB_OK)
			return status;
	}
	return parts_load(s, buffer, value_offset(at, s->key_len), start, len);
}

/* `len` bytes from the session's large value, from its byte `start` on, into the
 * buffer: OK; RETRY or any bytes if it was given up. */
static __always_inline int parts_store(u64 table, u32 buffer, u32 to, u64 start, u32 len)
{
	u32 done = LOAD(engine.zero);

	/* The first and the last piece need not be whole. */
	repeat(i, BPFDB_LARGE_PART / BPFDB_PIECE_SIZE)
	{
		struct bpfdb_large *large = bpfdb_at(table);
		u64 at = start + done, inside = at & PIECE_MASK, address;
		u32 some = BPFDB_PIECE_SIZE - inside;
		void *piece, *bytes;

		if (done >= len)
			break;
		if (some > len - done)
			some = len - done;
		address = large ? large_piece(large, at >> BPFDB_PIECE_BITS) : 0;
		piece = address ? bpfdb_at(address) : NULL;
		bytes = io_at(buffer, to + done);
		if (!piece || !bytes)
			return RETRY;
		piece_load(bytes, piece + inside, some);
		done += some;
	}
	return BPFDB_OK;
}

static __always_inline int large_read_once(struct bpfdb_session *s, u32 buffer, u32 at)
{
	struct bpfdb_request *request = io_at(buffer, at);
	u32 len;
	int status;

	if (!request)
		return BPFDB_BAD_REQUEST;
	/* Not more pieces than have a place in the buffer, which begins anew behind its
	 * end. */
	len = request->value_room;
	if (request->offset % 8 || len > BPFDB_LARGE_PART ||
	    request->offset % BPFDB_PIECE_SIZE + len > BPFDB_LARGE_PART)
		return BPFDB_BAD_REQUEST;
	status = bpfdb_large_find(s, request->large);
	if (status != BPFDB_FOUND)
		return status;
	status = parts_store(s->value[0], buffer, value_offset(at, s->key_len), request->offset,
			     len);
	return status == BPFDB_OK && bpfdb_still_valid(s) ? BPFDB_FOUND : RETRY;
}

/* NOT_FOUND: the key has another value, or none. EXHAUSTED: the record's header changed during
 * every copy, be it that it was locked and nothing written: a reader by parts begins anew, and
 * takes a snapshot at some point. */
__noinline int large_read(struct bpfdb_session *s NONNULL, u32 buffer, u32 at)
{
	repeat(i, BPFDB_COPY_TRIES)
	{
		int status = large_read_once(s, buffer, at);

		if (status != RETRY)
			return status;
	}
	return BPFDB_EXHAUSTED;
}

#endif
