"""What psycopg2 does with PostgreSQL, through the proxy or without it: run_psycopg2.py PORT USER NAME PASSWORD.

NAME is a part of the names of tables.
It ends with a line "psycopg2 ok". Whatever fails ends the program.
"""

import io
import select
import sys
from concurrent.futures import ThreadPoolExecutor

import psycopg2
import psycopg2.extensions
import psycopg2.extras
import psycopg2.pool

PORT, USER, NAME, PASSWORD = sys.argv[1:5]
TABLE = f"drivers_psycopg2_{NAME}"
DSN = {"host": "127.0.0.1", "port": int(PORT), "user": USER, "dbname": "postgres"}
WORKERS = 8
ROUNDS = 30


def connect(**more):
    return psycopg2.connect(**DSN, password=PASSWORD, **more)


def fails(state, call):
    try:
        call()
    except psycopg2.Error as error:
        assert error.pgcode == state, (error.pgcode, error)
        return
    raise AssertionError(f"no error {state}")


def one(cursor, query, arguments=None):
    cursor.execute(query, arguments)
    return cursor.fetchone()[0]


def refused():
    try:
        psycopg2.connect(**DSN, password="wrong")
    except psycopg2.OperationalError as error:
        assert "password authentication failed" in str(error), error
        return
    raise AssertionError("a wrong password is taken")


def transactions(conn):
    with conn, conn.cursor() as cursor:
        cursor.execute(f"drop table if exists {TABLE}")
        cursor.execute(f"create table {TABLE} (a int primary key, b text)")
    with conn, conn.cursor() as cursor:
        cursor.execute(f"insert into {TABLE} values (%s, %s)", (1, "it's one"))
        cursor.execute("savepoint here")
        fails("23505", lambda: cursor.execute(f"insert into {TABLE} values (1, 'again')"))
        fails("25P02", lambda: cursor.execute("select 1"))
        cursor.execute("rollback to here")
        rows = [(n, str(n)) for n in range(10, 200)]
        psycopg2.extras.execute_values(cursor, f"insert into {TABLE} values %s", rows)
    with conn.cursor() as cursor:
        cursor.execute(f"delete from {TABLE}")
        conn.rollback()
        assert one(cursor, f"select count(*) from {TABLE}") == 191
        fails("42P01", lambda: cursor.execute("select * from there_is_none"))
        conn.rollback()
    # A cursor of the server.
    with conn, conn.cursor(name="here") as cursor:
        cursor.itersize = 7
        cursor.execute(f"select a from {TABLE} order by a")
        assert sum(row[0] for row in cursor) == 1 + sum(range(10, 200))
    conn.set_session(isolation_level="SERIALIZABLE", readonly=True)
    with conn, conn.cursor() as cursor:
        assert one(cursor, "show transaction_isolation") == "serializable"
        fails("25006", lambda: cursor.execute(f"delete from {TABLE}"))
    conn.set_session(isolation_level="DEFAULT", readonly=False)
    with conn, conn.cursor() as cursor:
        assert one(cursor, "show transaction_isolation") == "read committed"


def copies(conn):
    with conn, conn.cursor() as cursor:
        rows = "".join(f"{1000 + n}\t{'x' * 100}\n" for n in range(2000))
        cursor.copy_expert(f"copy {TABLE} from stdin", io.StringIO(rows))
        out = io.StringIO()
        cursor.copy_expert(f"copy (select b from {TABLE} where a >= 1000) to stdout", out)
        assert len(out.getvalue()) == 2000 * 101
    with conn.cursor() as cursor:
        broken = io.StringIO("no number\tx\n")
        fails("22P02", lambda: cursor.copy_expert(f"copy {TABLE} from stdin", broken))
        conn.rollback()
        assert one(cursor, f"select count(*) from {TABLE}") == 2191
        conn.rollback()


def statements_of_sql(conn):
    # The session has them: they keep the server for this connection.
    with conn.cursor() as cursor:
        cursor.execute("prepare doubled (int) as select $1 * 2")
        conn.commit()
        for number in range(ROUNDS):
            assert one(cursor, "execute doubled (%s)", (number,)) == 2 * number
            conn.commit()
        cursor.execute("deallocate doubled")
        conn.commit()


def cancels(conn):
    with conn.cursor() as cursor, ThreadPoolExecutor(1) as other:
        sleeps = other.submit(fails, "57014", lambda: cursor.execute("select pg_sleep(60)"))
        while not sleeps.done():
            conn.cancel()
            try:
                sleeps.result(timeout=0.2)
            except TimeoutError:
                pass
        sleeps.result()
        conn.rollback()
        assert one(cursor, "select 1") == 1
        conn.rollback()


def listens():
    hears, tells = connect(), connect()
    for conn in (hears, tells):
        conn.autocommit = True
    with hears.cursor() as cursor:
        cursor.execute(f"listen {TABLE}_news")
    with tells.cursor() as cursor:
        cursor.execute(f"notify {TABLE}_news, 'news'")
    while not hears.notifies:
        assert select.select([hears], [], [], 30)[0], "no news"
        hears.poll()
    assert hears.notifies.pop().payload == "news"
    hears.close()
    tells.close()


def pools():
    pool = psycopg2.pool.ThreadedConnectionPool(WORKERS, WORKERS, password=PASSWORD, **DSN)

    def work(worker):
        for number in range(ROUNDS):
            conn = pool.getconn()
            with conn, conn.cursor() as cursor:
                text = f"{worker}-{number}"
                assert one(cursor, "select %s", (text,)) == text
                assert one(cursor, f"select count(*) from {TABLE}") == 2191
            pool.putconn(conn)

    with ThreadPoolExecutor(WORKERS) as all_of_them:
        for done in [all_of_them.submit(work, worker) for worker in range(WORKERS)]:
            done.result()
    pool.closeall()


refused()
first = connect()
transactions(first)
copies(first)
statements_of_sql(first)
cancels(first)
pools()
with first, first.cursor() as last:
    last.execute(f"drop table {TABLE}")
first.close()
listens()
print("psycopg2 ok")
