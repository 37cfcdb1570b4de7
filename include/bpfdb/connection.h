/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Connections: what the transport in the kernel (bpf/net) and the daemon
 * (crates/bpfdb-server) share. bpf/net/connection.bpf.h tells the protocol
 * between them. What is only about Redis is in redis.h.
 */
#ifndef BPFDB_CONNECTION_H
#define BPFDB_CONNECTION_H

#include <linux/types.h>
#include <bpfdb/attempts.h>
#include <bpfdb/limits.h>
#include <bpfdb/redis.h>

/* Bytes of requests that the parser looks at without loading again. */
#define BPFDB_WINDOW 2048
/* Behind the window: one access of up to a key may begin at its last byte. */
#define BPFDB_WINDOW_PAD (BPFDB_KEY_MAX + 16)
/* Longest request that the kernel assembles from parts, bytes. */
#define BPFDB_REQUEST_MAX (BPFDB_VALUE_MAX + BPFDB_KEY_MAX + 256)
/* Longest value that the kernel puts into a reply, bytes: the packet window of
 * a program ends at 32 KiB. */
#define BPFDB_REPLY_VALUE_MAX (28 * 1024)
/* Reply bytes after which the kernel sends what it has. */
#define BPFDB_REPLY_BATCH (64 * 1024)
/* Send buffer of a connection, bytes. When half of it is taken, the daemon
 * answers: it can wait for the client to read, a program cannot. */
#define BPFDB_SEND_BUFFER (1 << 20)
/* Bytes that may have arrived and not been taken in yet. What the kernel holds
 * for a program does not close the window of TCP, so that a client which sends
 * without end and reads nothing must lose its connection at some point; one
 * that sends faster than the kernel's worker runs should not. */
#define BPFDB_UNANSWERED_MAX (64 << 20)
/* More for a connection that sends a long argument to the daemon, in steps of this many
 * bytes, while all connections together have not more than this. */
#define BPFDB_GRANT (64 << 20)
#define BPFDB_GRANTS_MAX (1ULL << 30)
/* A message of a local client that is longer goes through TCP, bytes: one
 * sendmsg() may bring more than a program finds linear memory for. */
#define BPFDB_LOCAL_MESSAGE_MAX (128 * 1024)
/* Replies that a local client has not read, bytes; then its requests go through
 * TCP, which lets it wait. */
#define BPFDB_LOCAL_UNREAD_MAX (256 * 1024)
/* The same, messages: each takes the kernel 1 KiB besides its bytes. */
#define BPFDB_LOCAL_MESSAGES_MAX 1024
/* A local client sees the answer to its SYN within this time, nanoseconds. */
#define BPFDB_LOCAL_HANDSHAKE_MAX 10000000000ULL
/* Replies that a client on this machine must have received by recvmsg() before it is answered
 * in its own send(): what it reads by splice() would be TCP's only. */
#define BPFDB_LOCAL_READS 4
/* Messages of a local client until its connection is known to be one of ours;
 * after that it is left alone for good. */
#define BPFDB_LOCAL_TRIES 16
_Static_assert(BPFDB_REPLY_BATCH + BPFDB_REPLY_VALUE_MAX + 64 < BPFDB_SEND_BUFFER / 2,
	       "the replies of one run fit what is left of the send buffer");
_Static_assert(BPFDB_REPLY_VALUE_MAX + 64 < 32768, "a reply fits the packet window");

/* `arrived`: flags | bytes that arrived from the client, ever. */
#define BPFDB_CONNECTION_DAEMON (1ULL << 63) /* the daemon answers */
#define BPFDB_CONNECTION_CLOSED (1ULL << 62) /* the socket is gone */
#define BPFDB_CONNECTION_BROKEN (1ULL << 61) /* to be closed by the daemon */
/* The daemon answers, for ever: the socket is in no map, and no program sees it. */
#define BPFDB_CONNECTION_PLAIN (1ULL << 60)
#define BPFDB_CONNECTION_BYTES (BPFDB_CONNECTION_PLAIN - 1)

/* `cookie`: flag | cookie of the socket. Cookies are small numbers. */
#define BPFDB_COOKIE_RETIRED (1ULL << 63) /* to be freed by its last user */

/* `client`: flag | cookie of the client's own socket, if it is on this machine.
 * While the flag is set a program runs in that client's sendmsg(). */
#define BPFDB_CLIENT_RUNNING (1ULL << 63)

/* How a connection is served, and why not in its client's own send(). */
enum bpfdb_way {
	BPFDB_WAY_REMOTE =
		0, /* its client's socket is not known: not on this machine, or left out */
	BPFDB_WAY_FOREIGN, /* a program of others owns its client's socket */
	BPFDB_WAY_UNDECIDED, /* the client has not received enough to know how it does */
	BPFDB_WAY_LOCAL, /* in its send() */
	BPFDB_WAY_SPLICED, /* the client reads by splice() */
	BPFDB_WAY_LEFT, /* the client has filled its send buffer */
	BPFDB_WAY_COUNT,
};

/* The two ends of a connection, the same for both: addresses as of IPv6. */
struct bpfdb_flow {
	__u32 client[4];
	__u32 server[4];
	__u32 client_port; /* host order */
	__u32 server_port;
};

/* What the daemon wants of all connections: 0 or 1. */
struct bpfdb_gate {
	__u32 closed; /* the daemon answers first: who are the clients? */
	__u32 paused; /* the kernel answers nothing: CLIENT PAUSE */
	__u32 plain; /* new connections are plain TCP: the daemon answers nearly all of them */
};

/* One connection; its index is that of its session. */
struct bpfdb_connection {
	__u64 arrived;
	__u64 cookie; /* of the socket; 0: not in use; see BPFDB_COOKIE_RETIRED */
	__u64 answered; /* bytes of requests that the kernel answered */
	__u64 handed; /* bytes that went to the daemon through the worker */
	__u64 passed; /* bytes that went to the daemon directly */
	__u64 consumed; /* bytes that the daemon received; it writes this */
	__u64 replied; /* bytes of replies that the kernel sent */
	__u64 sent; /* bytes of replies that the daemon sent; it writes this */
	__u64 client; /* see BPFDB_CLIENT_RUNNING; 0: none is known */
	__u64 local; /* requests answered in the client's own send() */
	__u64 granted; /* bytes beyond BPFDB_UNANSWERED_MAX that may wait */
	__u32 patient; /* a long argument may be on its way: nobody has looked yet, or what
			* waited when somebody looked was little, or the daemon, which
			* writes this too, says so */
	__u32 watching; /* keys that EXEC must find as they were, as the daemon knows, which
			 * writes this: EXEC is the daemon's */
	__u32 sequence; /* TCP sequence number at which replied was 0 */
	__u32 rebase; /* the daemon sent something: sequence is to be taken anew */
	__u32 corked; /* size up to which a split request is being assembled, or 0 */
	__u32 answers; /* requests answered in this message */
	__u32 resp3; /* replies are in RESP3; the daemon writes it */
	__u32 parts; /* how often the split request was looked at */
	__u32 client_first; /* TCP sequence number of the client's first byte */
	__u32 server_first; /* and of the first one to the client */
	__u32 way; /* enum bpfdb_way */
	__u32 padding;
	struct bpfdb_flow flow;

	/* Scratch of the program that answers; positions count from the first
	 * byte of the message. */
	__u64 source; /* kernel address of the message */
	__u32 size;
	__u32 window_at;  /* position of the window */
	__u32 window_end; /* position behind it */
	__u32 request; /* position of the request being answered */
	__u32 piece; /* of that which the next reply is for: also a part of that request */
	__u32 at;      /* position of the parser */
	__u32 complete_size; /* bytes of the message that would complete the request */
	__u32 end;     /* position behind the arguments that were checked */
	__u32 arg;     /* the argument parsed last: position, length */
	__u32 arg_len;
	__u32 argc; /* arguments that follow the command's name */
	__u32 out;  /* bytes of replies at the front of the message */
	__u32 room; /* replies may be written up to here */
	__u32 gaps; /* bytes inserted into the message to make room */
	__u32 command; /* enum bpfdb_command: being executed */
	__u32 run_command; /* commands in a row that were not counted yet: which, */
	__u32 run; /* how many */
	__u32 frame; /* of the procedure that is being called: its number */
	__u16 calls; /* of procedures, in this run of the program */
	__u16 given_up; /* 1: the call that comes first has been tried, and is the daemon's */
	__u32 options;  /* of SET: see bpf/redis/commands/set.bpf.h */
	__s64 number; /* the argument parsed last, as one */
	__u64 deadline; /* when the command's value expires; 0: never */
	__u64 name; /* the command's, in small letters, or its number */

	/* What one step of a command leaves to a later one. */
	__u32 changed;    /* SET with a condition, EXPIRE, PERSIST: was there something to do? */
	__u32 keys_found; /* DEL, EXISTS: of their keys, so far */
	__u32 new_len;    /* APPEND, SETRANGE: of the value, bytes */
	__u32 old_bit;    /* SETBIT: what the bit was */
	__u32 counted_to; /* BITCOUNT: position in the value */
	__u32 text_start; /* where an integer in `text` begins */

	/* MULTI … EXEC: see bpf/redis/commands/multi_exec.bpf.h. */
	__u32 block; /* is being executed */
	__u32 block_reads; /* none of its commands changes anything */
	__u32 block_count; /* commands between MULTI and EXEC */
	__u32 block_first; /* position of the first of them */
	__u32 block_out; /* bytes of replies before the one to MULTI */
	__u32 block_queued; /* place of the next +QUEUED, from the reply to MULTI on */
	__u32 block_body; /* bytes of replies before the one to the first command */
	__u32 block_done; /* commands executed, MULTI included */
	__u32 block_tries;
	__u32 header_len; /* bytes of `header` that count */
	__u64 header; /* marker and number before a reply: bpf/redis/resp_reply.bpf.h */
	__u64 block_found; /* the session's gets_found and gets_missed before it */
	__u64 block_missed;
	__u8 block_commands[BPFDB_BLOCK_MAX]; /* which: enum bpfdb_command */
	__u8 text[64];
	__u8 window[BPFDB_WINDOW + BPFDB_WINDOW_PAD];
};

/* What the programs tell the daemon. */
struct bpfdb_handover {
	__u64 cookie;
	__u32 connection;
	__u32 reserved;
};

/* What the transport counts, first in `front_end` of struct bpfdb_counters. */
struct bpfdb_net_counters {
	__u64 bytes_received; /* of requests answered in the kernel */
	__u64 bytes_sent;     /* of its replies */
	__u64 requests_local; /* of the requests, inside the client's own send() */
	__u64 connections_passed; /* times that a connection was handed to the daemon */
	__u64 bytes_passed;       /* of requests that were */
};

#endif
