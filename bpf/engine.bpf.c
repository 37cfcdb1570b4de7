// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The engine's own programs: creation, sessions of user space through
 * BPF_PROG_RUN, maintenance. Front ends are other objects on the same maps.
 */
#include <bpfdb/bpfdb.bpf.h>

#include "driver/create.bpf.h"
#include "driver/driver.bpf.h"
#include "driver/timer.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
