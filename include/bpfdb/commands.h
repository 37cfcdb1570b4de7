/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The Redis commands that the kernel answers, as one list. From it follow the numbers
 * below, the kernel's table of names (bpf/redis/commands/name.bpf.h) and its dispatch
 * (dispatch.bpf.h), the counters, the names in `bpfdb stats`, metrics and INFO, and whether kernel
 * or daemon answers according to docs/commands.md. CONTRIBUTING.md shows how to add a command.
 *
 * X(NAME, flags, call): NAME in capitals, at most 16 letters, by the alphabet; flags of
 * enum bpfdb_command_flag; the call that answers a request with this name, given the
 * message `m`, its context `c` and the connection's session `s`.
 */
#ifndef BPFDB_COMMANDS_H
#define BPFDB_COMMANDS_H

#include <linux/types.h>
#include <bpfdb/conflict.h>
#include <bpfdb/connection.h>
#include <bpfdb/redis.h>

/* What a command does to the data. The daemon's definition of the command says the same,
 * and a test compares the two. */
enum bpfdb_command_flag {
	BPFDB_NO_DATA = 0, /* neither reads nor writes */
	BPFDB_READS = 1,   /* and changes nothing */
	BPFDB_WRITES = 2,
	BPFDB_NEEDS_ROOM = 4,   /* may take memory: refused at the memory limit */
	BPFDB_TRANSACTION = 8, /* begins or ends a transaction */
	BPFDB_APART = 16, /* answered by a program of its own: bpf/redis/apart.bpf.h */
};

#define BPFDB_COMMAND_LIST(X)                                                                      \
	X(APPEND, BPFDB_WRITES | BPFDB_NEEDS_ROOM | BPFDB_APART, command_append(m, c, s))          \
	X(BEGIN, BPFDB_TRANSACTION, command_begin(m, c, s))                                        \
	X(BITCOUNT, BPFDB_READS | BPFDB_APART, command_bitcount(m, c, s))                          \
	X(BLPOP, BPFDB_WRITES | BPFDB_APART, command_pop(m, c, s, POP_LEFT | POP_NAMES_KEY))       \
	X(BRPOP, BPFDB_WRITES | BPFDB_APART, command_pop(m, c, s, POP_RIGHT | POP_NAMES_KEY))      \
	X(COMMIT, BPFDB_TRANSACTION, command_commit(m, c, s))                                      \
	X(DECR, BPFDB_WRITES | BPFDB_NEEDS_ROOM, command_counter(m, c, s, 1, 1))                   \
	X(DECRBY, BPFDB_WRITES | BPFDB_NEEDS_ROOM, command_counter(m, c, s, 1, 2))                 \
	X(DEL, BPFDB_WRITES, command_del(m, c, s))                                                 \
	X(ECHO, BPFDB_NO_DATA, command_echo(m, c))                                                 \
	X(EVALSHA, BPFDB_WRITES | BPFDB_NEEDS_ROOM,                                                \
	  command_call(m, c, s, BPFDB_PROCEDURE_SCRIPT, false))                                    \
	X(EVALSHA_RO, BPFDB_READS, command_call(m, c, s, BPFDB_PROCEDURE_SCRIPT, true))            \
	X(EXEC, BPFDB_TRANSACTION, command_exec(c, s))                                             \
	X(EXISTS, BPFDB_READS, command_exists(m, c, s))                                            \
	X(EXPIRE, BPFDB_WRITES | BPFDB_APART, command_expire(m, c, s, TIME_SECONDS, true))         \
	X(EXPIREAT, BPFDB_WRITES | BPFDB_APART, command_expire(m, c, s, TIME_SECONDS, false))      \
	X(EXPIRETIME, BPFDB_READS, command_ttl(m, c, s, TIME_SECONDS, false))                      \
	X(FCALL, BPFDB_WRITES | BPFDB_NEEDS_ROOM,                                                  \
	  command_call(m, c, s, BPFDB_PROCEDURE_FUNCTION, false))                                  \
	X(FCALL_RO, BPFDB_READS, command_call(m, c, s, BPFDB_PROCEDURE_FUNCTION, true))            \
	X(GET, BPFDB_READS, command_get(m, c, s))                                                  \
	X(GETBIT, BPFDB_READS | BPFDB_APART, command_getbit(m, c, s))                              \
	X(GETDEL, BPFDB_WRITES | BPFDB_APART, command_getdel(m, c, s))                             \
	X(GETEX, BPFDB_WRITES | BPFDB_APART, command_getex(m, c, s))                               \
	X(GETRANGE, BPFDB_READS | BPFDB_APART, command_getrange(m, c, s))                          \
	X(GETSET, BPFDB_WRITES | BPFDB_NEEDS_ROOM, command_getset(m, c, s))                        \
	X(HDEL, BPFDB_WRITES | BPFDB_APART, command_take(m, c, s, BPFDB_TYPE_HASH))                \
	X(HEXISTS, BPFDB_READS | BPFDB_APART,                                                      \
	  command_field(m, c, s, BPFDB_TYPE_HASH, ASKED_PRESENCE))                                 \
	X(HGET, BPFDB_READS | BPFDB_APART, command_field(m, c, s, BPFDB_TYPE_HASH, ASKED_VALUE))   \
	X(HGETALL, BPFDB_READS | BPFDB_APART, command_all(m, c, s, '%', ENTRY_WHOLE))              \
	X(HINCRBY, BPFDB_WRITES | BPFDB_NEEDS_ROOM | BPFDB_APART, command_hincrby(m, c, s))        \
	X(HKEYS, BPFDB_READS | BPFDB_APART, command_all(m, c, s, '*', ENTRY_KEY))                  \
	X(HLEN, BPFDB_READS | BPFDB_APART, command_elements(m, c, s, BPFDB_TYPE_HASH))             \
	X(HMGET, BPFDB_READS | BPFDB_APART, command_hmget(m, c, s))                                \
	X(HMSET, BPFDB_WRITES | BPFDB_NEEDS_ROOM | BPFDB_APART, command_hset(m, c, s, HSET_OK))    \
	X(HSET, BPFDB_WRITES | BPFDB_NEEDS_ROOM | BPFDB_APART, command_hset(m, c, s, HSET_COUNTS)) \
	X(HSETNX, BPFDB_WRITES | BPFDB_NEEDS_ROOM | BPFDB_APART,                                   \
	  command_hset(m, c, s, HSET_ONLY_NEW))                                                    \
	X(HSTRLEN, BPFDB_READS | BPFDB_APART,                                                      \
	  command_field(m, c, s, BPFDB_TYPE_HASH, ASKED_LENGTH))                                   \
	X(HVALS, BPFDB_READS | BPFDB_APART, command_all(m, c, s, '*', ENTRY_VALUE))                \
	X(INCR, BPFDB_WRITES | BPFDB_NEEDS_ROOM, command_counter(m, c, s, 0, 1))                   \
	X(INCRBY, BPFDB_WRITES | BPFDB_NEEDS_ROOM, command_counter(m, c, s, 0, 2))                 \
	X(LINDEX, BPFDB_READS | BPFDB_APART, command_lindex(m, c, s))                              \
	X(LLEN, BPFDB_READS | BPFDB_APART, command_elements(m, c, s, BPFDB_TYPE_LIST))             \
	X(LMOVE, BPFDB_WRITES | BPFDB_NEEDS_ROOM | BPFDB_APART, command_move(m, c, s, MOVE_SAYS))  \
	X(LPOP, BPFDB_WRITES | BPFDB_APART, command_pop(m, c, s, POP_LEFT))                        \
	X(LPUSH, BPFDB_WRITES | BPFDB_NEEDS_ROOM | BPFDB_APART, command_push(m, c, s, LIST_LEFT))  \
	X(LRANGE, BPFDB_READS | BPFDB_APART, command_range(m, c, s, BPFDB_TYPE_LIST, false))       \
	X(MGET, BPFDB_READS, command_mget(m, c, s))                                                \
	X(MSET, BPFDB_WRITES | BPFDB_NEEDS_ROOM, command_mset(m, c, s))                            \
	X(MULTI, BPFDB_TRANSACTION, command_multi(m, c, s))                                        \
	X(PERSIST, BPFDB_WRITES | BPFDB_APART, command_persist(m, c, s))                           \
	X(PEXPIRE, BPFDB_WRITES | BPFDB_APART, command_expire(m, c, s, TIME_MILLISECONDS, true))   \
	X(PEXPIREAT, BPFDB_WRITES | BPFDB_APART,                                                   \
	  command_expire(m, c, s, TIME_MILLISECONDS, false))                                       \
	X(PEXPIRETIME, BPFDB_READS, command_ttl(m, c, s, TIME_MILLISECONDS, false))                \
	X(PING, BPFDB_NO_DATA, command_ping(m, c))                                                 \
	X(PSETEX, BPFDB_WRITES | BPFDB_NEEDS_ROOM, command_setex(m, c, s, TIME_MILLISECONDS))      \
	X(PTTL, BPFDB_READS, command_ttl(m, c, s, TIME_MILLISECONDS, true))                        \
	X(PUBLISH, BPFDB_NO_DATA, command_publish(m, c, s))                                        \
	X(ROLLBACK, BPFDB_TRANSACTION, command_rollback(m, c, s))                                  \
	X(RPOP, BPFDB_WRITES | BPFDB_APART, command_pop(m, c, s, POP_RIGHT))                       \
	X(RPOPLPUSH, BPFDB_WRITES | BPFDB_NEEDS_ROOM | BPFDB_APART,                                \
	  command_move(m, c, s, MOVE_RIGHT_LEFT))                                                  \
	X(RPUSH, BPFDB_WRITES | BPFDB_NEEDS_ROOM | BPFDB_APART, command_push(m, c, s, LIST_RIGHT)) \
	X(SADD, BPFDB_WRITES | BPFDB_NEEDS_ROOM | BPFDB_APART, command_sadd(m, c, s))              \
	X(SCARD, BPFDB_READS | BPFDB_APART, command_elements(m, c, s, BPFDB_TYPE_SET))             \
	X(SET, BPFDB_WRITES | BPFDB_NEEDS_ROOM, command_set(m, c, s))                              \
	X(SETBIT, BPFDB_WRITES | BPFDB_NEEDS_ROOM | BPFDB_APART, command_setbit(m, c, s))          \
	X(SETEX, BPFDB_WRITES | BPFDB_NEEDS_ROOM, command_setex(m, c, s, TIME_SECONDS))            \
	X(SETNX, BPFDB_WRITES | BPFDB_NEEDS_ROOM, command_setnx(m, c, s))                          \
	X(SETRANGE, BPFDB_WRITES | BPFDB_NEEDS_ROOM | BPFDB_APART, command_setrange(m, c, s))      \
	X(SISMEMBER, BPFDB_READS | BPFDB_APART,                                                    \
	  command_field(m, c, s, BPFDB_TYPE_SET, ASKED_PRESENCE))                                  \
	X(SMEMBERS, BPFDB_READS | BPFDB_APART, command_all(m, c, s, '~', ENTRY_KEY))               \
	X(SPOP, BPFDB_WRITES | BPFDB_APART, command_pop(m, c, s, POP_ANY))                         \
	X(SREM, BPFDB_WRITES | BPFDB_APART, command_take(m, c, s, BPFDB_TYPE_SET))                 \
	X(STRLEN, BPFDB_READS, command_strlen(m, c, s))                                            \
	X(SUBSTR, BPFDB_READS | BPFDB_APART, command_getrange(m, c, s))                            \
	X(TOUCH, BPFDB_READS, command_exists(m, c, s))                                             \
	X(TTL, BPFDB_READS, command_ttl(m, c, s, TIME_SECONDS, true))                              \
	X(TYPE, BPFDB_READS, command_type(m, c, s))                                                \
	X(UNLINK, BPFDB_WRITES, command_del(m, c, s))                                              \
	X(ZADD, BPFDB_WRITES | BPFDB_NEEDS_ROOM | BPFDB_APART, command_zadd(m, c, s))              \
	X(ZCARD, BPFDB_READS | BPFDB_APART, command_elements(m, c, s, BPFDB_TYPE_SORTED_SET))      \
	X(ZCOUNT, BPFDB_READS | BPFDB_APART, command_by_score(m, c, s, BY_SCORE_COUNT))            \
	X(ZINCRBY, BPFDB_WRITES | BPFDB_NEEDS_ROOM | BPFDB_APART, command_zincrby(m, c, s))        \
	X(ZRANGE, BPFDB_READS | BPFDB_APART, command_range(m, c, s, BPFDB_TYPE_SORTED_SET, false)) \
	X(ZRANGEBYSCORE, BPFDB_READS | BPFDB_APART, command_by_score(m, c, s, BY_SCORE_UP))        \
	X(ZRANK, BPFDB_READS | BPFDB_APART, command_rank(m, c, s, false))                          \
	X(ZREM, BPFDB_WRITES | BPFDB_APART, command_take(m, c, s, BPFDB_TYPE_SORTED_SET))          \
	X(ZREVRANGE, BPFDB_READS | BPFDB_APART,                                                    \
	  command_range(m, c, s, BPFDB_TYPE_SORTED_SET, true))                                     \
	X(ZREVRANGEBYSCORE, BPFDB_READS | BPFDB_APART, command_by_score(m, c, s, BY_SCORE_DOWN))   \
	X(ZREVRANK, BPFDB_READS | BPFDB_APART, command_rank(m, c, s, true))                        \
	X(ZSCORE, BPFDB_READS | BPFDB_APART, command_zscore(m, c, s))

/* By which the kernel counts them. */
#define BPFDB_COMMAND_NUMBER(name, flags, call) BPFDB_COMMAND_##name,
enum bpfdb_command { BPFDB_COMMAND_LIST(BPFDB_COMMAND_NUMBER) BPFDB_COMMAND_COUNT };

/* Errors that the kernel replies, by their first word. */
enum bpfdb_error_reply {
	BPFDB_ERROR_REPLY_ERR = 0,
	BPFDB_ERROR_REPLY_CONFLICT = 1,
	BPFDB_ERROR_REPLY_OOM = 2,
	BPFDB_ERROR_REPLY_WRONGTYPE = 3,
	BPFDB_ERROR_REPLY_COUNT = 4,
};

/* What the transport and the Redis front end count, in `front_end` of struct bpfdb_counters. */
struct bpfdb_redis_counters {
	struct bpfdb_net_counters net;
	__u64 error_replies[BPFDB_ERROR_REPLY_COUNT];
	__u64 conflicts[BPFDB_CONFLICT_COUNT]; /* of these, CONFLICT by why */
	__u64 commands[BPFDB_COMMAND_COUNT];        /* answered in the kernel */
	__u64 commands_failed[BPFDB_COMMAND_COUNT]; /* of these, with an error */
};

#endif
