/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* SADD. SISMEMBER, SREM and SCARD are of hash.bpf.h and collection.bpf.h. */
#ifndef BPFDB_COMMANDS_SET_TYPE_BPF_H
#define BPFDB_COMMANDS_SET_TYPE_BPF_H

#include "../../values/integer_set.bpf.h"
#include "hash.bpf.h"

/* The argument parsed last becomes an element: a step for collection_set(). A new one is counted in
 * c->elements. A subprogram, to keep the stack below the operators short. */
__noinline enum bpfdb_status element_add(struct context *c NONNULL, struct bpfdb_session *s NONNULL)
{
	enum bpfdb_status status = collection_get_for_update(c, s, BPFDB_TYPE_SET);

	if (status >= BPFDB_FIRST_ERROR)
		return status;
	status = set_add(s, arg_as_entry(c), arg_as_key(c), status == BPFDB_FOUND);
	c->elements += status == BPFDB_OK;
	return status;
}

__noinline enum result command_sadd(struct sk_msg_md *m, struct context *c NONNULL,
				    struct bpfdb_session *s NONNULL)
{
	bool own = short_needed(s);
	u32 first = c->at;
	enum result result;
	enum bpfdb_status status;

	if (c->argc < 2 || c->argc > ELEMENTS_MAX + 1 || (c->argc > 2 && !parts_are_undone(c, own)))
		return PASS_TO_DAEMON;
	result = elements_check(c);
	if (result != DONE)
		return result;
	status = WITHOUT_CONFLICT(own, EACH_ARG(c, s, own, first, element_add(c, s)));
	return REPLY_WRITTEN(m, c, s, status, reply_header(m, c, ':', c->elements));
}

#endif
