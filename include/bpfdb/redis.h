/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Bounds and texts of the Redis front end: what its part in the kernel (bpf/redis)
 * and the daemon (crates/bpfdb-server) share besides the list of commands
 * (commands.h) and connections (connection.h).
 */
#ifndef BPFDB_REDIS_H
#define BPFDB_REDIS_H

#include <linux/types.h>

/* Most bytes whose bits the kernel counts: half a microsecond. */
#define BPFDB_BITCOUNT_MAX 4096
/* Commands of a MULTI … EXEC that the kernel executes, MULTI included. */
#define BPFDB_BLOCK_MAX 256

/* Programs that are entered by a tail call, in the map `apart`: that of the commands with BPFDB_APART
 * (commands.h), and that of large collections, which the first one leaves to it. */
#define BPFDB_APART_COMMANDS 0
#define BPFDB_APART_LARGE 1
#define BPFDB_APART_COUNT 2

/* The front end's words of a connection. */
struct bpfdb_redis_connection {
	__u32 resp3; /* replies are in RESP3; the daemon writes it */
	__u32 watching; /* keys that EXEC must find as they were, as the daemon knows, which
			 * writes this: EXEC is the daemon's */
	__u32 command; /* enum bpfdb_command: the last one that the kernel executed, or began */
	__u32 given_up; /* 1: the call of a procedure that comes first has been tried, and is
			 * the daemon's */
	__u32 database; /* of its keys; the daemon, whose command SELECT is, writes it */
	__u32 may_prefetch; /* its client has authenticated, or need not, and executes commands on keys: values
			     * may be read for it. The daemon writes it */
	__u32 meets_large; /* 1: the last command of a program apart was on a large collection, so the
			    * next one goes to the program of those first */
};

/* Those that PUBLISH may be for: the daemon writes it. */
struct bpfdb_audience {
	__u32 is_there; /* 1: a client has subscribed to something */
};

/* Error replies that are not in the list of status.h. */
/* CONFLICT has the text of its cause (conflict.h), then what to do: in a transaction, and
 * without one. Then, where one client holds the key, its id as CLIENT LIST has it. */
#define BPFDB_REPLY_CONFLICT_ACTION "; ROLLBACK and run the transaction again"
#define BPFDB_REPLY_CONFLICT_ACTION_AUTO "; run the command again"
#define BPFDB_REPLY_CONFLICT_HOLDER "; held by client "
#define BPFDB_REPLY_OOM "OOM command not allowed when used memory > 'maxmemory'."
#define BPFDB_REPLY_WRONG_TYPE "WRONGTYPE Operation against a key holding the wrong kind of value"
#define BPFDB_REPLY_FAILED "ERR the transaction has failed; ROLLBACK it and run it again"
#define BPFDB_REPLY_NESTED "ERR a transaction is open already; COMMIT or ROLLBACK it first"
#define BPFDB_REPLY_NO_TRANSACTION "ERR no transaction is open; BEGIN one first"

#endif
