"""What drivers of Python do with PostgreSQL, through the proxy or without it: run.py PORT USER NAME.

NAME is a part of the names of tables.
Each client ends with a line "NAME ok". Whatever fails ends the program.
"""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

import asyncpg
import psycopg
import psycopg_pool
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

PORT, USER, NAME = int(sys.argv[1]), sys.argv[2], sys.argv[3]
DSN = f"host=127.0.0.1 port={PORT} user={USER} dbname=postgres"
WORKERS = 8
ROUNDS = 30


def table(name):
    return f"drivers_{name}_{NAME}"


def fails(state, call):
    try:
        call()
    except psycopg.Error as error:
        assert error.sqlstate == state, (error.sqlstate, error)
        return
    raise AssertionError(f"no error {state}")


def psycopg_statements(conn):
    # Prepared from the second execution on; then used on whatever server there is.
    conn.prepare_threshold = 1
    for number in range(ROUNDS):
        with conn.transaction():
            assert conn.execute("select %s + 1", (number,)).fetchone() == (number + 1,)
            assert conn.execute("select %s::text", (str(number),)).fetchone() == (str(number),)
        assert conn.execute("select %s::int8 * 2", (number,), prepare=True).fetchone() == (2 * number,)
    binary = conn.cursor(binary=True)
    assert binary.execute("select %s::bytea", (b"\0\xff",)).fetchone() == (b"\0\xff",)


def psycopg_transactions(conn, name):
    conn.execute(f"drop table if exists {name}")
    conn.execute(f"create table {name} (a int primary key, b text)")
    with conn.transaction():
        conn.execute(f"insert into {name} values (1, 'one')")
        try:
            with conn.transaction():
                conn.execute(f"insert into {name} values (2, 'two')")
                raise psycopg.Rollback()
        except psycopg.Rollback:
            pass
    fails("23505", lambda: conn.execute(f"insert into {name} values (1, 'again')"))
    fails("42P01", lambda: conn.execute("select * from there_is_none"))
    conn.cursor().executemany(f"insert into {name} values (%s, %s)", [(n, str(n)) for n in range(10, 200)])
    with conn.pipeline():
        cursors = [conn.execute(f"select count(*) + %s from {name}", (n,)) for n in range(20)]
    assert [cursor.fetchone()[0] for cursor in cursors] == [191 + n for n in range(20)]
    with conn.transaction(), conn.cursor(name="here") as cursor:
        cursor.itersize = 7
        cursor.execute(f"select a from {name} order by a")
        assert sum(row[0] for row in cursor) == 1 + sum(range(10, 200))


def psycopg_copies(conn, name):
    with conn.cursor() as cursor:
        with cursor.copy(f"copy {name} from stdin") as copy:
            for number in range(1000, 3000):
                copy.write_row((number, "x" * 100))
        with cursor.copy(f"copy (select b from {name} where a >= 1000) to stdout") as copy:
            assert sum(len(piece) for piece in copy) == 2000 * 101
    def broken():
        with conn.cursor() as cursor, cursor.copy(f"copy {name} from stdin") as copy:
            copy.write("no number\tx\n")
    fails("22P02", broken)
    assert conn.execute("select 1").fetchone() == (1,)


def psycopg_listens():
    with psycopg.connect(DSN, autocommit=True) as hears, psycopg.connect(DSN, autocommit=True) as tells:
        hears.execute("listen drivers")
        tells.execute("notify drivers, 'news'")
        assert next(hears.notifies(timeout=10)).payload == "news"


def psycopg_pools():
    def work(pool, worker):
        for number in range(ROUNDS):
            with pool.connection() as conn:
                text = f"{worker}-{number}"
                assert conn.execute("select %s::text", (text,)).fetchone() == (text,)

    with psycopg_pool.ConnectionPool(DSN, min_size=2, max_size=4) as pool, ThreadPoolExecutor(WORKERS) as all_of_them:
        for done in [all_of_them.submit(work, pool, worker) for worker in range(WORKERS)]:
            done.result()


def with_psycopg():
    name = table("psycopg")
    with psycopg.connect(DSN, autocommit=True) as conn:
        psycopg_statements(conn)
        psycopg_transactions(conn, name)
        psycopg_copies(conn, name)
        cancelled = conn
        with ThreadPoolExecutor(1) as other:
            sleeps = other.submit(fails, "57014", lambda: cancelled.execute("select pg_sleep(60)"))
            while not sleeps.done():
                conn.cancel_safe()
                try:
                    sleeps.result(timeout=0.2)
                except TimeoutError:
                    pass
        conn.execute(f"drop table {name}")
    psycopg_listens()
    psycopg_pools()


async def with_asyncpg():
    name = table("asyncpg")
    pool = await asyncpg.create_pool(
        host="127.0.0.1", port=PORT, user=USER, database="postgres", min_size=2, max_size=4
    )
    async with pool.acquire() as conn:
        await conn.execute(f"drop table if exists {name}; create table {name} (a int, b jsonb, c numeric[])")
        rows = [(n, f'{{"n": {n}}}', [n, None]) for n in range(500)]
        await conn.executemany(f"insert into {name} values ($1, $2, $3)", rows)
        await conn.copy_records_to_table(name, records=rows)
        async with conn.transaction():
            seen = 0
            async for row in conn.cursor(f"select * from {name} where a < $1", 100, prefetch=13):
                seen += row["a"]
            assert seen == 2 * sum(range(100))
        try:
            async with conn.transaction():
                await conn.execute(f"delete from {name}")
                await conn.fetch("select 1 / $1::int", 0)
            raise AssertionError("it divides by zero")
        except asyncpg.DivisionByZeroError:
            pass
        statement = await conn.prepare("select $1::int4 + $2::int4")
        for number in range(ROUNDS):
            assert await statement.fetchval(number, 1) == number + 1
            assert await conn.fetchval(f"select count(*) from {name}") == 1000

    async def work(worker):
        for number in range(ROUNDS):
            async with pool.acquire() as conn:
                text = f"{worker}-{number}"
                assert await conn.fetchval("select $1::text", text) == text

    await asyncio.gather(*(work(worker) for worker in range(WORKERS)))
    async with pool.acquire() as conn:
        await conn.execute(f"drop table {name}")
    await pool.close()


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = table("sqlalchemy")
    id: Mapped[int] = mapped_column(primary_key=True)
    balance: Mapped[int]


def with_sqlalchemy():
    url = f"postgresql+psycopg://{USER}@127.0.0.1:{PORT}/postgres"
    engine = sa.create_engine(url, pool_size=3, max_overflow=2, pool_pre_ping=True, pool_recycle=1)
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([Account(id=n, balance=100) for n in range(4)])
        session.commit()

    def work(worker):
        for number in range(ROUNDS):
            with Session(engine) as session, session.begin():
                first, second = sorted([(worker + number) % 4, (worker + 1) % 4])
                taken = [session.get(Account, n, with_for_update=True) for n in (first, second)]
                taken[0].balance -= 1
                taken[1].balance += 1

    with ThreadPoolExecutor(WORKERS) as all_of_them:
        for done in [all_of_them.submit(work, worker) for worker in range(WORKERS)]:
            done.result()
    with engine.connect().execution_options(isolation_level="SERIALIZABLE") as conn:
        assert conn.scalar(sa.text("show transaction_isolation")) == "serializable"
        assert conn.scalar(sa.select(sa.func.sum(Account.balance))) == 400
        conn.rollback()
    with engine.connect() as conn:
        assert conn.scalar(sa.text("show transaction_isolation")) == "read committed"
    try:
        with Session(engine) as session, session.begin():
            session.add(Account(id=1, balance=0))
        raise AssertionError("there is one with this number")
    except sa.exc.IntegrityError:
        pass
    Base.metadata.drop_all(engine)
    engine.dispose()


with_psycopg()
print("psycopg ok")
asyncio.run(with_asyncpg())
print("asyncpg ok")
with_sqlalchemy()
print("sqlalchemy ok")
