/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The buffers in which user space hands over requests and finds replies. Each process
 * has its own, so no two can use one buffer. The id of this map is the holder of the
 * process's sessions: it lives exactly as long as the process has the programs that use
 * it, or the memory mapped. (Constants would not do: the maintenance timer keeps those
 * of a process that died.)
 */
#ifndef BPFDB_DRIVER_IO_BPF_H
#define BPFDB_DRIVER_IO_BPF_H

#include <bpfdb/types.bpf.h>

struct io_buffer {
	__u8 bytes[BPFDB_IO_SIZE + BPFDB_IO_PAD];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct io_buffer);
} io SEC(".maps");

static __always_inline void *io_at(u32 buffer, u32 offset)
{
	struct io_buffer *b = bpf_map_lookup_elem(&io, &buffer);
	u64 o = offset;

	if (!b)
		return NULL;
	OPAQUE(o);
	o &= BPFDB_IO_SIZE - 8;
	return b->bytes + o;
}

/* The request's value is where its key ends. */
static __always_inline u32 value_offset(u32 offset, u32 key_len)
{
	if (key_len > BPFDB_KEY_MAX)
		key_len = 0;
	return offset + sizeof(struct bpfdb_request) + ((key_len + 7) & ~7u);
}

#endif
