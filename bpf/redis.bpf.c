// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The Redis front end: RESP over TCP, answered in the kernel. Start reading at
 * net/connection.bpf.h for how bytes come and go, and at redis/answer.bpf.h for what
 * becomes of them.
 */
#include <bpfdb/bpfdb.bpf.h>

/* First, for it defines what a context is. */
#include "redis/answer.bpf.h"

#include "redis/apart.bpf.h"
#include "redis/large.bpf.h"
#include "redis/park.bpf.h"
#include "redis/prefetch.bpf.h"
#include "net/programs.bpf.h"

NET_PROGRAMS(redis)

char LICENSE[] SEC("license") = "Dual MIT/GPL";
