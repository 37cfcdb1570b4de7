/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Tables (docs/tables.md), asked by programs: what an embedding program includes. The process that has the table open gives it
 * its maps before it is loaded (Chains::share_with of the crate bpfdb-table).
 *
 *   request->operation = BPFDB_TABLE_GET; …
 *   token = bpfdb_table_ask(request);
 *   …                                       (now, in a later run, in a timer)
 *   switch (bpfdb_table_take(token, answer)) {
 *   case BPFDB_TABLE_FOUND: …
 */
#ifndef BPFDB_TABLE_BPF_H
#define BPFDB_TABLE_BPF_H

#include "../../table/ask.bpf.h"

#endif
