# Thin verbs over cargo. ARGS is handed on: make run ARGS="--help"
.PHONY: help run run-proxy test test-log applications crashes bench lint fmt soak vm vm-short vm-power vm-preempt vm-programs vm-clang-19 \
	clang-19 clean setup

# Suites of the server that run both ways: clients served through TCP, and clients answered inside
# their own send(). `make test` runs two of them so (scripts/test.sh), `make test-log` these.
BOTH_WAYS := blocks clients conflicts differential_errors durability generated groups limits \
	multi procedures protocol synchronous

# Suites of the server that also run with collections in pages if they have more than four elements.
IN_PAGES := generated hashes_and_sets large_collections

# Suites of the engine and of the server that also run with a log: while clients get their replies at
# once, and while they get them only when the write is durable. `make test` runs two of them so.
WITH_LOG := limits model scripts stress
WITH_LOG_ASYNC := event_loop functions isolation local operation procedures
WITH_LOG_SYNC := clients conflicts connections differential differential_errors functions \
	generated groups isolation large limits long_blocks multi protocol snapshots transactions waiting

SUDO := $(if $(filter 0,$(shell id -u)),,sudo -E)
# Tests and benchmarks load eBPF programs: root runs what cargo built.
ifneq ($(SUDO),)
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER := $(SUDO)
endif

SUITES := RUNNER='$(SUDO)'

help:
	@echo 'make run    build and start the server in the foreground; then: redis-cli SET a 1'
	@echo 'make run-proxy  a private PostgreSQL and the proxy before it; then: psql -h 127.0.0.1 -p 6432 -U postgres postgres'
	@echo 'make test   the tests'
	@echo 'make test-log  the suites of engine and server once more, with a log'
	@echo 'make crashes  servers are killed at any moment, again and again: 3,000 times, or for BPFDB_TEST_CRASH_SECONDS'
	@echo 'make applications  queues and sessions of Go and Java, on bpfdb and on Redis; JDBC and ActiveRecord through the proxy'
	@echo 'make bench  the benchmarks, as docs/benchmarks.md explains them'
	@echo 'make lint   formats, warnings, house rules'
	@echo 'make fmt    put the formats right, and what is generated'
	@echo 'make soak   the long tests, with random load'
	@echo 'make vm     tests on another kernel, in a virtual machine: Debian 13, 6.12'
	@echo 'make vm-short  one of them'
	@echo 'make vm-power  a virtual machine loses its power under load, and starts again; part of make vm'
	@echo 'make vm-preempt  is anybody held up by a client that is preempted?'
	@echo 'make vm-programs  does its verifier take ten thousand random procedures?'
	@echo 'make vm-clang-19  does it take what clang-19 compiles?'
	@echo 'make clang-19  do the programs load when clang-19 compiles them?'
	@echo 'make clean  remove what was built'

setup:
	@scripts/setup.sh

run: setup
	cargo build --release --bin bpfdb
	$(SUDO) target/release/bpfdb serve --dir data $(ARGS)

run-proxy: setup
	cargo build --release -p bpfdb-proxy
	$(SUDO) scripts/run-proxy.sh target/release/bpfdb-proxy $(ARGS)

# ARGS: parts of names, of tests that are run instead of all.
test: setup
	@RUNNER='$(SUDO)' scripts/test.sh $(ARGS)

# The suites of engine and server, with a log.
test-log: setup
	$(SUITES) BPFDB_TEST_LOCAL_CLIENTS=on scripts/suites.sh bpfdb-server $(BOTH_WAYS)
	$(SUITES) BPFDB_TEST_RUN_ENTRIES=4 scripts/suites.sh bpfdb-server $(IN_PAGES)
	$(SUITES) BPFDB_TEST_LOG=async scripts/suites.sh bpfdb-tests $(WITH_LOG)
	$(SUITES) BPFDB_TEST_LOG=async scripts/suites.sh bpfdb-server $(WITH_LOG_ASYNC)
	$(SUITES) BPFDB_TEST_LOG=sync scripts/suites.sh bpfdb-server $(WITH_LOG_SYNC)

# With the profile of `make test`, so that nothing is compiled once more.
crashes: setup
	cargo test --profile ci --workspace --all-features --test it -- --ignored --nocapture crash_loop:: $(ARGS)

# Queues and sessions of Go and Java, JDBC and ActiveRecord as they are; those of Python and Node, and pgx, are in `make test`.
# Besides the tests of PostgreSQL, asyncpg, pgx and SQLAlchemy, through the proxy.
applications: setup
	command -v mvn >/dev/null || $(SUDO) apt-get install -y -qq --no-install-recommends maven default-jdk-headless
	ruby -e 'require "active_record"; require "pg"' 2>/dev/null || \
		$(SUDO) apt-get install -y -qq --no-install-recommends ruby ruby-activerecord ruby-pg
	cargo test --profile ci --workspace --all-features --test it -- --ignored --nocapture queues:: drivers::jdbc drivers::active_record regress:: suites:: $(ARGS)

bench: setup
	cargo build --release -p bpfdb-cli -p bpfdb-proxy -p bpfdb-bench
	$(SUDO) target/release/bpfdb-bench $(ARGS)

# The suites with a log are too long for the checks of a change, too.
soak: setup test-log
	cargo test --release --workspace --all-features --no-fail-fast -- --ignored --nocapture soak $(ARGS)

# What depends on the kernel. Goes on where it was interrupted, as long as the programs are the same.
vm: setup
	$(SUDO) scripts/vm-all.sh
	$(SUDO) scripts/vm-power.sh

# Is everything there after losses of power?
vm-power: setup
	$(SUDO) scripts/vm-power.sh

# Is there an engine, and a server, on the oldest kernel that is promised?
vm-short: setup
	TESTS=multi FILTER=multi::commands_wait_and_are_executed_together \
		$(SUDO) scripts/vm.sh --if-possible $(ARGS)

# Does a client that is preempted in its own send() hold up others?
vm-preempt: setup
	TESTS=preempted FILTER=--ignored APPEND=preempt=full $(SUDO) scripts/vm.sh $(ARGS)

# Does the verifier of the oldest kernel that is promised take whatever is compiled of Lua?
vm-programs: setup
	TESTS=bpfdb-procedures/programs FILTER=--include-ignored LIMIT=7200 $(SUDO) scripts/vm.sh $(ARGS)

vm-clang-19: setup
	VM=1 $(SUDO) scripts/check-clang19.sh

clang-19: setup
	@scripts/check-clang19.sh $(ARGS)

lint: setup
	@scripts/lint.sh $(ARGS)

fmt: setup
	@scripts/lint.sh --fix

clean:
	cargo clean
