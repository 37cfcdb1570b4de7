/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The memory in which a message of a Redis client is answered. */
#ifndef BPFDB_REDIS_CONTEXT_BPF_H
#define BPFDB_REDIS_CONTEXT_BPF_H

#include "../net/context_words.bpf.h"
#include "../tier/place.bpf.h"
#include "../values/big_head.bpf.h"
#include "../values/packed_entry.bpf.h"
#include <bpfdb/connection.h>
#include <bpfdb/redis.h>

struct context {
	CONTEXT_WORDS;

	/* The connection's words (bpfdb/redis.h), while the message is answered. */
	struct bpfdb_redis_connection own;

	/* The request. */
	u32 argc; /* arguments that follow the command's name */
	u32 arg; /* the argument parsed last: position, length */
	u32 arg_len;
	u32 end; /* position behind the arguments that were checked */
	u64 name; /* the command's, in small letters, or its number */
	s64 number; /* the argument parsed last, as one */

	/* Commands in a row that were not counted yet: which, how many. */
	u32 run_command;
	u32 run;

	/* Calls of other programs in this run: of procedures, of redis_apart, and of redis_large. */
	u32 calls;
	u32 frame; /* number of a procedure's */
	/* The collection is user space's, or redis_large's; an Error says nothing to redis_apart, and to
	 * redis_large that another program would not fare better. */
	u32 is_large;

	/* What one step of a command leaves to a later one. */
	union {
		struct { /* SET, GETEX, EXPIRE and their kin */
			u32 options; /* see commands/set.bpf.h */
			u32 changed; /* was there something to do? */
			u64 deadline; /* when the value expires; 0: never */
		};
		u32 keys_found; /* DEL, EXISTS: of their keys, so far */
		struct { /* APPEND, SETRANGE, SETBIT */
			u32 new_len; /* of the value, bytes */
			u32 old_bit; /* what the bit was */
		};
		u32 counted_to; /* BITCOUNT: position in the value */
		struct { /* what the daemon is to answer: see redis/prefetch.bpf.h */
			u32 prefetch_arguments; /* passed over so far */
			u32 prefetch_keys; /* looked up so far */
			u32 prefetch_next; /* the next argument is a key whose value is needed */
			u32 prefetch_all; /* and all that follow it are */
			u32 prefetch_begun; /* reads that have begun */
			u32 prefetch_many; /* there is more than one value to be read */
			struct prefetch_place prefetch_first; /* the first of them, if any */
			struct prefetch_place prefetch_found; /* that of the last key */
		};
		struct { /* collections */
			struct packed_entry entry; /* found, or to be written */
			u64 expires; /* when the collection does, which stays */
			u32 count; /* elements of the collection that was found */
			u32 elements; /* added or taken, so far */
			u32 length; /* elements of the list that results */
			u32 moved; /* a member was taken out, to be put in elsewhere */
			/* Large ones: see commands/large.bpf.h. */
			u32 first; /* position of the key in the request */
			u32 has_run; /* the page that was found has entries */
			u64 head_cell; /* where the head was seen: record, its header, value */
			u64 head_header;
			u64 head_address;
			u64 child[2]; /* of a page of the tree: place, elements below it */
			u64 parent; /* place of that page */
			u32 chosen; /* where the entry of such a child is */
			u32 order_len;
			u64 scores[2]; /* sortable ones of a member: old, new */
			u32 replied; /* entries of those that are replied in reverse order */
			union {
				u8 order[256]; /* of a member: what separators are compared with */
				u16 places[128]; /* of entries in reverse order, in their run */
			};
			struct big_head head;
		};
	};

	/* MULTI … EXEC: see commands/multi_exec.bpf.h. */
	u32 block; /* is being executed */
	u32 block_reads; /* none of its commands changes anything */
	u32 block_count; /* commands between MULTI and EXEC */
	u32 block_first; /* position of the first of them */
	u32 block_out; /* bytes of replies before the one to MULTI */
	u32 block_queued; /* place of the next +QUEUED, from the reply to MULTI on */
	u32 block_body; /* bytes of replies before the one to the first command */
	u32 block_done; /* commands executed, MULTI included */
	u32 block_tries;
	u64 block_found; /* the session's gets_found and gets_missed before it */
	u64 block_missed;
	u8 block_commands[BPFDB_BLOCK_MAX]; /* which: enum bpfdb_command */

	/* The reply. */
	u64 header; /* marker and number before it: resp_reply.bpf.h */
	u32 header_len; /* bytes of `header` that count */
	u32 text_start; /* where an integer in `text` begins */
	u8 text[64];
};

#endif
