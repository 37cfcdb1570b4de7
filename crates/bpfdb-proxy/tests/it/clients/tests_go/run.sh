#!/bin/sh
# Runs the tests of pgx at a port; among its output a line "--- PASS: NAME" or "--- FAIL: NAME" for each.
#   run.sh PORT USER [pooled]    pooled: those that are meant for transaction pooling
set -u

export CGO_ENABLED=0 GOTOOLCHAIN=auto
at="host=127.0.0.1 port=$1 user=$2 dbname=postgres sslmode=disable"
cd pgx
if [ "${3:-}" = pooled ]; then
	PGX_TEST_PGBOUNCER_CONN_STRING=$at go test -vet=off -v -count=1 -run Pgbouncer .
	exit
fi
for what in 'create extension hstore' 'create extension ltree' 'create domain uint64 as numeric(20,0)'; do
	psql -X -q -h 127.0.0.1 -p "$1" -U "$2" -d postgres -c "$what" || exit
done
# Packages use the same tables: one after the other.
PGX_TEST_DATABASE=$at PGX_TEST_TCP_CONN_STRING=$at go test -vet=off -v -count=1 -p 1 -timeout 400s ./...
exit 0
