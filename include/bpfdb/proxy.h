/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What the programs of the PostgreSQL proxy (bpf/pg) and its process (crates/bpfdb-proxy) share.
 * bpf/pg/state.bpf.h has the protocol between them.
 */
#ifndef BPFDB_PROXY_H
#define BPFDB_PROXY_H

#include <linux/types.h>

/* That the kernel knows at the same time; powers of two. Others are served by the process alone. */
#define BPFDB_PROXY_CLIENTS 2048
#define BPFDB_PROXY_SERVERS 1024
#define BPFDB_PROXY_POOLS 64
/* Bits in a word of a set. */
#define BPFDB_PROXY_BITS 64

/* A client's word: whose turn it is, and all that decides whether its transaction is over. */
#define BPFDB_PROXY_STATE 0xffULL
#define BPFDB_PROXY_SERVER_SHIFT 8
#define BPFDB_PROXY_SERVER (0xffffULL << BPFDB_PROXY_SERVER_SHIFT)
/* ReadyForQuery messages that are to come. */
#define BPFDB_PROXY_DUE_SHIFT 24
#define BPFDB_PROXY_DUE_MAX 0xffffULL
#define BPFDB_PROXY_DUE (BPFDB_PROXY_DUE_MAX << BPFDB_PROXY_DUE_SHIFT)
#define BPFDB_PROXY_SLOW (1ULL << 40) /* the process serves it, and alone changes the word */
#define BPFDB_PROXY_PINNED (1ULL << 41) /* it keeps its server: the session has state */
#define BPFDB_PROXY_OPEN (1ULL << 42) /* within BEGIN … COMMIT */
#define BPFDB_PROXY_BRINGS (1ULL << 43) /* LINKING: the process is to bring what is parked */
/* The client's unnamed statement. Without one of these flags it is what the process knows. */
#define BPFDB_PROXY_PARSES (1ULL << 44) /* its Parse is kept, of the last batch that was sent */
#define BPFDB_PROXY_PARSED (1ULL << 45) /* that is the only one, and has succeeded */
#define BPFDB_PROXY_FORGOT (1ULL << 46) /* a simple query has ended it */
#define BPFDB_PROXY_HAS (1ULL << 47) /* PARSED, and the client still has the server that has it */
#define BPFDB_PROXY_UNNAMED                                                                        \
	(BPFDB_PROXY_PARSES | BPFDB_PROXY_PARSED | BPFDB_PROXY_FORGOT | BPFDB_PROXY_HAS)
#define BPFDB_PROXY_GENERATION_SHIFT 48

enum bpfdb_proxy_state {
	BPFDB_PROXY_CLOSED = 0, /* no client has this place, or it is not logged in */
	BPFDB_PROXY_IDLE, /* it has no server */
	BPFDB_PROXY_WAITING, /* it has sent a request, which is parked, and no server was free */
	BPFDB_PROXY_LINKING, /* its parked request is on the way to a server */
	BPFDB_PROXY_LINKED, /* a server works for it, or its transaction is open */
	BPFDB_PROXY_RESTING, /* its server is free, and stays with it until another needs it */
};

/* Room for the request of a client that waits, bytes; the last eight stay free. */
#define BPFDB_PROXY_PARKED_MAX 2048

/* What is kept of a batch, bytes. */
#define BPFDB_PROXY_TEXT_MAX 4096

/* The Parse messages of the last batch that begins with one. */
struct bpfdb_proxy_text {
	__u32 length;
	__u8 bytes[BPFDB_PROXY_TEXT_MAX];
};

/* In front of what each of them has behind the name. */
struct bpfdb_proxy_kept {
	__u16 message; /* messages of the batch before it that have an answer each */
	__u16 length;
};

/*
 * Prepared statements that the kernel knows have numbers, which are used again. On a server a statement
 * is called by MARK, the digits of its number, the lowest first, and as many more of the first digit
 * as make the name as long as that of the client: so one takes the place of the other within a
 * message. Names of one byte are those of SINGLES, for the numbers behind those of one digit.
 */
#define BPFDB_PROXY_STATEMENTS 4096
#define BPFDB_PROXY_MARK '~'
#define BPFDB_PROXY_DIGITS "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
#define BPFDB_PROXY_DIGIT_BITS 6
#define BPFDB_PROXY_SINGLES " !#$%&'()*+,-./:;<=>?@[]^`{|}~"
/* A client's name, bytes: shorter than this. */
#define BPFDB_PROXY_NAME_MAX 64
/* Names in one message of a client. */
#define BPFDB_PROXY_NAMED_MAX 64

/* A client's name of a statement; behind the name there are zeros. */
struct bpfdb_proxy_name {
	__u32 client;
	__u32 generation;
	__u8 bytes[BPFDB_PROXY_NAME_MAX];
};

/* Where a message of a client names a statement. */
struct bpfdb_proxy_named {
	__u16 at;
	__u16 length;
	__u32 statement; /* its number */
};

/* An end of a connection on this machine: the address of the side that connected. */
struct bpfdb_proxy_end {
	__u32 address[4]; /* IPv4 as ::ffff:a.b.c.d; network order */
	__u32 port;
	__u32 role; /* enum bpfdb_proxy_role */
};

enum bpfdb_proxy_role {
	BPFDB_PROXY_CLIENT = 1, /* the client's own end */
	BPFDB_PROXY_BACKEND, /* the database's end of a connection of ours */
	BPFDB_PROXY_SINK, /* what has no receiver goes there */
};

/* Which client or server an end is of. */
struct bpfdb_proxy_place {
	__u32 index;
	__u32 generation;
};

/* How far a server's stream of messages has come. */
struct bpfdb_proxy_stream {
	__u32 left; /* bytes that the message still has */
	__u32 have; /* bytes of an unfinished header, in `head` */
	__u8 head[8];
	__u8 type;
	__u8 pad[3];
	__u32 answers; /* messages since the last ReadyForQuery that are each the answer to one of a batch */
};

/* Longest request that is copied within the kernel, bytes. Most are short: their copies take the room of so many. */
#define BPFDB_PROXY_COPY_MAX 2048
#define BPFDB_PROXY_COPY_SHORT 232

/* A request that a client has sent and the kernel has brought, for the mirror of its database. */
struct bpfdb_proxy_copy {
	__u32 client;
	__u32 generation;
	__u32 length;
	__u32 begins; /* a transaction */
	__u32 lost; /* as its client's, at that time */
	__u32 pad;
	__u8 bytes[BPFDB_PROXY_COPY_MAX];
};

struct bpfdb_proxy_client {
	__u64 word;
	__u64 sent; /* bytes to it that the process has given to TCP, ever */
	__u64 received; /* bytes from it that the process has received, ever */
	__u64 digest; /* of its parameters: a server must have the same */
	__u32 pool;
	__u32 parked; /* bytes of the request that waits */
	__u32 due; /* ReadyForQuery messages that this one asks for */
	__u32 unread; /* bytes it was sent since it sent something */
	__u32 copied; /* bytes of what is parked that are in a message already */
	__u32 copies; /* of its requests that were submitted, or are about to be */
	__u64 socket; /* address of its end, to see how much it has not read */
	struct bpfdb_proxy_end end;
	__u64 requests; /* that were brought to a server within the kernel */
	__u64 asked; /* when it sent the last of them, ns of the monotonic clock */
	/* Found in the message that it sends, besides `due`. */
	__u64 unnamed; /* what becomes of its unnamed statement: PARSES, FORGOT, or 0 */
	__u32 batch; /* what has come of a batch, while the message is gone over */
	__u32 uses_unnamed; /* as it was before the message */
	__u32 messages; /* of the batch, so far */
	__u32 parses, kept; /* Parse messages of the batch; bytes that are kept of them */
	__u32 names; /* entries of `named` */
	__u32 answered; /* messages of the last batch, once nothing is due */
	__u32 lost; /* its transactions that a mirror gets nothing of: there was no room for a copy */
	__u32 loses; /* that which is under way is one of them */
	__u32 pad;
	struct bpfdb_proxy_name name; /* the one that is looked up */
	struct bpfdb_proxy_named named[BPFDB_PROXY_NAMED_MAX];
} __attribute__((aligned(128)));

/* What went over a server within the kernel; times in ns. */
struct bpfdb_proxy_traffic {
	__u64 queries; /* ReadyForQuery messages */
	__u64 transactions; /* those outside a transaction block */
	__u64 received, sent; /* bytes of requests, and of replies */
	__u64 query_time, transaction_time, wait_time;
};

#define BPFDB_PROXY_STATEMENT_WORDS (BPFDB_PROXY_STATEMENTS / BPFDB_PROXY_BITS)

struct bpfdb_proxy_server {
	__u32 owner; /* client plus 1; 0: none; or BPFDB_PROXY_PROCESS */
	__u32 generation;
	__u32 active; /* logged in, the database on this machine */
	__u32 pool;
	__u64 digest; /* of its parameters */
	__u64 socket; /* address of the database's end, to see whether it is sending */
	__u32 unread; /* bytes it was sent since it sent something */
	__u32 stage; /* client plus 1 whose reply is in front of an appended byte */
	struct bpfdb_proxy_stream stream;
	struct bpfdb_proxy_end end;
	/* Found in the bytes that are looked at. */
	__u32 readies;
	__u8 status, ended, leaves_state, slow;
	__u32 idles; /* ReadyForQuery messages outside a transaction block */
	__u32 answered; /* `answers` before the last ReadyForQuery */
	__u32 parsed; /* the last ParseComplete: 1, and the ReadyForQuery messages before it; 0: there is none */
	/* Times on the monotonic clock, ns; 0: there is none. */
	__u64 asked; /* of the request whose reply is to come */
	__u64 begun; /* of the transaction's first request */
	struct bpfdb_proxy_traffic traffic;
	/* Statements that it has, and of these those that were used since the process has looked: bits
	 * by their numbers. Only the process says what it has, while the server is its own. */
	__u64 statements[BPFDB_PROXY_STATEMENT_WORDS];
	__u64 used[BPFDB_PROXY_STATEMENT_WORDS];
} __attribute__((aligned(128)));

#define BPFDB_PROXY_CLIENT_WORDS (BPFDB_PROXY_CLIENTS / BPFDB_PROXY_BITS)
#define BPFDB_PROXY_SERVER_WORDS (BPFDB_PROXY_SERVERS / BPFDB_PROXY_BITS)

struct bpfdb_proxy_pool {
	__u64 free[BPFDB_PROXY_SERVER_WORDS]; /* servers that may be free */
	__u64 waiting[BPFDB_PROXY_CLIENT_WORDS]; /* clients that may be WAITING */
	__u32 wanted; /* clients that wait in the process */
	__u32 is_full; /* it has all servers that it may have: a client that finds none waits */
	__u32 next_client; /* where the last search for one that waits has ended */
	__u32 is_mirrored; /* the process gets a copy of each request */
	__u32 copies_unwoken; /* it looks for copies by itself: none wakes it */
} __attribute__((aligned(128)));

/* Both numbers are for a person. */
struct bpfdb_proxy_counters {
	__u64 slow_request; /* given to the process: what is asked */
	__u64 slow_order; /* bytes were under way through TCP */
	__u64 slow_unread; /* too much was not read */
	__u64 slow_server; /* no server was free, or none with the same parameters */
	__u64 slow_mirror; /* there was no room for a copy within a transaction, or it would be too long */
	__u64 slow_statement; /* the server lacked a statement, or the unnamed one was elsewhere */
	__u64 sending; /* a server was not taken: its last reply was under way */
	__u64 ungiven; /* an appended byte was not needed */
	__u64 waits; /* requests that were parked */
	__u64 handed; /* servers that went from one client to the next within the database's send() */
};

struct bpfdb_proxy_all {
	struct bpfdb_proxy_client clients[BPFDB_PROXY_CLIENTS];
	struct bpfdb_proxy_server servers[BPFDB_PROXY_SERVERS];
	struct bpfdb_proxy_pool pools[BPFDB_PROXY_POOLS];
	struct bpfdb_proxy_counters counters;
};

/* What the programs are verified with. */
struct bpfdb_proxy_constants {
	__u64 network; /* cookie of the proxy's network namespace */
	__u32 port; /* where clients connect */
	__u32 pad;
};

/* To the process. */
enum bpfdb_proxy_event_kind {
	BPFDB_PROXY_FREE = 1, /* a server of the pool `index` is free, which the process wants */
	BPFDB_PROXY_TAKE, /* the client `index` is SLOW, and has sent nothing that would say so */
};

struct bpfdb_proxy_event {
	__u32 kind;
	__u32 index;
};

/* The owner of a server that the process uses for a client. */
#define BPFDB_PROXY_PROCESS 0xffffffffU

/* What the program pg_take returns besides a server plus 1. */
#define BPFDB_PROXY_NONE 0
#define BPFDB_PROXY_BUSY 0x80000000U /* one is free in a moment */

#endif
