#!/bin/sh
# Runs the tests of a driver at a port; a line "PASSED NAME", "FAILED NAME …" or "ERROR NAME …" for each.
#   run.sh asyncpg|sqlalchemy PORT USER
set -u

export PGHOST=127.0.0.1 PGPORT="$2" PGUSER="$3" PGDATABASE=postgres
# The installed library, and not sqlalchemy/lib.
export PYTHONNOUSERSITE=1
tests() {
	../venv/bin/python -m pytest -q -p no:cacheprovider --timeout 60 "$@"
}
cd "$1"
case $1 in
asyncpg)
	# This one looks at asyncpg's own sources.
	tests -rpfE --ignore tests/test__sourcecode.py tests
	;;
sqlalchemy)
	for what in 'create extension hstore' 'create extension citext' 'create schema test_schema' \
		'create schema test_schema_2'; do
		psql -X -q -c "$what" || exit
	done
	tests -rpfE --maxfail=100000 --dburi "postgresql+psycopg://$3@127.0.0.1:$2/postgres" \
		test/dialect/postgresql test/dialect/test_suite.py test/engine/test_execute.py test/engine/test_pool.py \
		test/engine/test_reconnect.py test/engine/test_transaction.py
	;;
esac
# Some may fail: which of them do is what the caller compares.
exit 0
