/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* From the name of a command to its body. */
#ifndef BPFDB_COMMANDS_DISPATCH_BPF_H
#define BPFDB_COMMANDS_DISPATCH_BPF_H

#include "connection.bpf.h"
#include "counter.bpf.h"
#include "exec.bpf.h"
#include "keys.bpf.h"
#include "multi.bpf.h"
#include "read.bpf.h"
#include "set.bpf.h"
#include "string.bpf.h"
#include "take.bpf.h"
#include "write.bpf.h"
#include "transaction.bpf.h"

/* The command's number stays, for those who count. */
#define RUN(name, call) ((c->command = BPFDB_COMMAND_##name), call)

static __always_inline int command_run(struct sk_msg_md *m, struct bpfdb_connection *c,
				       struct bpfdb_session *s)
{
	switch (c->name) {
	case WORD('g', 'e', 't', 0, 0, 0, 0, 0): return RUN(GET, command_get(m, c, s));
	case WORD('s', 'e', 't', 0, 0, 0, 0, 0):
		return RUN(SET, c->argc == 2 ? command_set(m, c, s) : command_set_if(m, c, s));
	case WORD('i', 'n', 'c', 'r', 0, 0, 0, 0): return RUN(INCR, command_counter(m, c, s, 0, 1));
	case WORD('d', 'e', 'c', 'r', 0, 0, 0, 0): return RUN(DECR, command_counter(m, c, s, 1, 1));
	case WORD('i', 'n', 'c', 'r', 'b', 'y', 0, 0):
		return RUN(INCRBY, command_counter(m, c, s, 0, 2));
	case WORD('d', 'e', 'c', 'r', 'b', 'y', 0, 0):
		return RUN(DECRBY, command_counter(m, c, s, 1, 2));
	case WORD('d', 'e', 'l', 0, 0, 0, 0, 0): return RUN(DEL, command_del(m, c, s));
	case WORD('e', 'x', 'i', 's', 't', 's', 0, 0): return RUN(EXISTS, command_exists(m, c, s));
	case WORD('m', 'g', 'e', 't', 0, 0, 0, 0): return RUN(MGET, command_mget(m, c, s));
	case WORD('m', 's', 'e', 't', 0, 0, 0, 0): return RUN(MSET, command_mset(m, c, s));
	case WORD('s', 't', 'r', 'l', 'e', 'n', 0, 0): return RUN(STRLEN, command_strlen(m, c, s));
	case WORD('a', 'p', 'p', 'e', 'n', 'd', 0, 0): return RUN(APPEND, command_append(m, c, s));
	case WORD('b', 'e', 'g', 'i', 'n', 0, 0, 0): return RUN(BEGIN, command_begin(m, c, s));
	case WORD('c', 'o', 'm', 'm', 'i', 't', 0, 0): return RUN(COMMIT, command_commit(m, c, s));
	case WORD('r', 'o', 'l', 'l', 'b', 'a', 'c', 'k'):
		return RUN(ROLLBACK, command_rollback(m, c, s));
	case WORD('m', 'u', 'l', 't', 'i', 0, 0, 0): return RUN(MULTI, command_multi(m, c, s));
	case WORD('e', 'x', 'e', 'c', 0, 0, 0, 0): return RUN(EXEC, command_exec(c, s));
	case WORD('p', 'i', 'n', 'g', 0, 0, 0, 0): return RUN(PING, command_ping(m, c));
	case WORD('e', 'c', 'h', 'o', 0, 0, 0, 0): return RUN(ECHO, command_echo(m, c));
	case WORD('s', 'e', 't', 'e', 'x', 0, 0, 0):
		return RUN(SETEX, command_setex(m, c, s, TIME_SECONDS));
	case WORD('p', 's', 'e', 't', 'e', 'x', 0, 0):
		return RUN(PSETEX, command_setex(m, c, s, TIME_MILLISECONDS));
	case WORD('s', 'e', 't', 'n', 'x', 0, 0, 0): return RUN(SETNX, command_setnx(m, c, s));
	case WORD('e', 'x', 'p', 'i', 'r', 'e', 0, 0):
		return RUN(EXPIRE, command_expire(m, c, s, TIME_SECONDS, true));
	case WORD('p', 'e', 'x', 'p', 'i', 'r', 'e', 0):
		return RUN(PEXPIRE, command_expire(m, c, s, TIME_MILLISECONDS, true));
	case WORD('t', 't', 'l', 0, 0, 0, 0, 0):
		return RUN(TTL, command_ttl(m, c, s, TIME_SECONDS, true));
	case WORD('p', 't', 't', 'l', 0, 0, 0, 0):
		return RUN(PTTL, command_ttl(m, c, s, TIME_MILLISECONDS, true));
	case WORD('g', 'e', 't', 'r', 'a', 'n', 'g', 'e'):
		return RUN(GETRANGE, command_getrange(m, c, s));
	case WORD('s', 'u', 'b', 's', 't', 'r', 0, 0):
		return RUN(SUBSTR, command_getrange(m, c, s));
	case WORD('g', 'e', 't', 'b', 'i', 't', 0, 0): return RUN(GETBIT, command_getbit(m, c, s));
	case WORD('b', 'i', 't', 'c', 'o', 'u', 'n', 't'):
		return RUN(BITCOUNT, command_bitcount(m, c, s));
	case WORD('s', 'e', 't', 'r', 'a', 'n', 'g', 'e'):
		return RUN(SETRANGE, command_setrange(m, c, s));
	case WORD('s', 'e', 't', 'b', 'i', 't', 0, 0): return RUN(SETBIT, command_setbit(m, c, s));
	case WORD('g', 'e', 't', 's', 'e', 't', 0, 0): return RUN(GETSET, command_getset(m, c, s));
	case WORD('g', 'e', 't', 'd', 'e', 'l', 0, 0): return RUN(GETDEL, command_getdel(m, c, s));
	case WORD('g', 'e', 't', 'e', 'x', 0, 0, 0):
		return RUN(GETEX, c->argc == 1 ? command_get(m, c, s) : command_getex(m, c, s));
	case WORD('t', 'y', 'p', 'e', 0, 0, 0, 0): return RUN(TYPE, command_type(m, c, s));
	case WORD('t', 'o', 'u', 'c', 'h', 0, 0, 0): return RUN(TOUCH, command_exists(m, c, s));
	case WORD('u', 'n', 'l', 'i', 'n', 'k', 0, 0): return RUN(UNLINK, command_del(m, c, s));
	case WORD('p', 'e', 'r', 's', 'i', 's', 't', 0):
		return RUN(PERSIST, command_persist(m, c, s));
	case WORD('e', 'x', 'p', 'i', 'r', 'e', 'a', 't'):
		return RUN(EXPIREAT, command_expire(m, c, s, TIME_SECONDS, false));
	case NAME_PEXPIREAT:
		return RUN(PEXPIREAT, command_expire(m, c, s, TIME_MILLISECONDS, false));
	case NAME_EXPIRETIME: return RUN(EXPIRETIME, command_ttl(m, c, s, TIME_SECONDS, false));
	case NAME_PEXPIRETIME:
		return RUN(PEXPIRETIME, command_ttl(m, c, s, TIME_MILLISECONDS, false));
	default: return SLOW;
	}
}

#endif
