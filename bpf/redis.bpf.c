// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The Redis front end: RESP2 over TCP, answered in the kernel. Start reading at
 * net/connection.bpf.h.
 */
#include <bpfdb/bpfdb.bpf.h>

#include "net/accept.bpf.h"
#include "net/verdict.bpf.h"
#include "net/answer.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
