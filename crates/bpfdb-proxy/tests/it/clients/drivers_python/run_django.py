"""What Django does with PostgreSQL, through the proxy or without it: run_django.py PORT USER NAME.

NAME is a part of the name of a database. The program ends with a line "django ok", or fails.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

sys.dont_write_bytecode = True

import django
import psycopg
from django.conf import settings
from django.core.management import call_command

PORT, USER, NAME = int(sys.argv[1]), sys.argv[2], f"django_{sys.argv[3]}"
WORKERS = 8
ROUNDS = 10


def database(**changes):
    same = {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": "127.0.0.1",
        "PORT": PORT,
        "USER": USER,
        "NAME": NAME,
        # Not that of the server: Django sets it in each session.
        "TIME_ZONE": "Asia/Tokyo",
    }
    return same | changes


settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.postgres", "shop"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
    DATABASES={
        # A connection for each request, values within the text.
        "default": database(),
        # Connections that stay, and statements that are prepared at once.
        "prepared": database(
            CONN_MAX_AGE=None,
            CONN_HEALTH_CHECKS=True,
            OPTIONS={"server_side_binding": True, "prepare_threshold": 0},
        ),
        # A pool within the process.
        "pooled": database(OPTIONS={"pool": {"min_size": 2, "max_size": 4}, "prepare_threshold": 2}),
    },
)
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.core.signals import request_finished, request_started  # noqa: E402
from django.db import DataError, IntegrityError, connections, transaction  # noqa: E402
from django.db.models import Count, F, Sum  # noqa: E402
from shop.models import Account, Transfer  # noqa: E402

ALIASES = list(settings.DATABASES)


def execute(text):
    """Outside Django, in a database that is always there."""
    with psycopg.connect(f"host=127.0.0.1 port={PORT} user={USER} dbname=postgres", autocommit=True) as conn:
        conn.execute(text)


def fails(error, call, alias):
    try:
        with transaction.atomic(using=alias):
            call()
    except error:
        return
    raise AssertionError(f"no {error}")


def value(alias, text, *parameters):
    with connections[alias].cursor() as cursor:
        cursor.execute(text, parameters)
        return cursor.fetchone()[0]


def migrations():
    call_command("migrate", verbosity=0)
    call_command("migrate", "shop", "zero", verbosity=0)
    call_command("migrate", "shop", verbosity=0)
    call_command("migrate", "shop", check_unapplied=True, verbosity=0)
    assert Account.objects.count() == WORKERS


def objects(alias):
    accounts = Account.objects.using(alias)
    assert accounts.get(details__number=3).owner == "owner 3"
    assert accounts.aggregate(all=Sum("balance"))["all"] == Decimal(800)
    accounts.filter(owner="owner 3").update(balance=F("balance") + 1)
    accounts.filter(owner="owner 3").update(balance=F("balance") - 1)
    person, is_new = User.objects.using(alias).get_or_create(username=alias)
    assert is_new
    person.delete(using=alias)
    assert accounts.annotate(n=Count("sent")).order_by("id").first().n == accounts.first().sent.count()


def transactions(alias):
    accounts = Account.objects.using(alias)
    done = []
    with transaction.atomic(using=alias):
        first = accounts.select_for_update().get(owner="owner 0")
        first.balance += 5
        first.save(using=alias)
        # Savepoints: one fails, one stays.
        fails(IntegrityError, lambda: accounts.create(owner="owner 0", balance=0), alias)
        fails(IntegrityError, lambda: accounts.filter(owner="owner 1").update(balance=-1), alias)
        with transaction.atomic(using=alias):
            accounts.filter(owner="owner 1").update(balance=F("balance") - 5)
        transaction.on_commit(lambda: done.append(1), using=alias)
        assert not done
    assert done
    assert accounts.get(owner="owner 0").balance - accounts.get(owner="owner 1").balance == 10
    try:
        with transaction.atomic(using=alias):
            accounts.all().delete()
            raise RuntimeError
    except RuntimeError:
        pass
    with transaction.atomic(using=alias, durable=True):
        accounts.filter(owner="owner 0").update(balance=100)
        accounts.filter(owner="owner 1").update(balance=100)
    fails(DataError, lambda: value(alias, "select %s::int / 0", 1), alias)
    assert accounts.count() == WORKERS


def cursors(alias):
    """Cursors of the server: in a transaction, and one that outlives its own."""
    users = User.objects.using(alias)
    users.bulk_create([User(username=f"user {number}") for number in range(500)], batch_size=100)
    with transaction.atomic(using=alias):
        assert sum(1 for _ in users.iterator(chunk_size=50)) == 500
    seen = 0
    for user in users.only("username").iterator(chunk_size=50):
        seen += 1
        if seen % 100 == 0:
            assert users.filter(username=user.username).exists()
    assert seen == 500
    users.all().delete()


def locks(alias):
    """A lock of the session is held while the session is asked for other things."""
    assert value(alias, "select pg_try_advisory_lock(42)") is True
    with psycopg.connect(f"host=127.0.0.1 port={PORT} user={USER} dbname={NAME}", autocommit=True) as other:
        for _ in range(ROUNDS):
            assert other.execute("select pg_try_advisory_lock(42)").fetchone() == (False,)
            with transaction.atomic(using=alias):
                assert Account.objects.using(alias).count() == WORKERS
        assert value(alias, "select pg_advisory_unlock(42)") is True
        assert other.execute("select pg_try_advisory_xact_lock(42)").fetchone() == (True,)


def request(work):
    """As the handler of requests does it: connections that are too old are closed on both sides of it."""
    request_started.send(sender=None)
    try:
        return work()
    finally:
        request_finished.send(sender=None)


def move(alias, worker, number):
    """Money from one account to another, by a transaction."""
    assert value(alias, "show timezone") == "Asia/Tokyo"
    names = sorted(f"owner {n % WORKERS}" for n in (worker + number, worker + number + 1))
    with transaction.atomic(using=alias):
        accounts = Account.objects.using(alias).select_for_update().order_by("owner")
        source, target = accounts.filter(owner__in=names)
        Account.objects.using(alias).filter(pk=source.pk).update(balance=F("balance") - 1)
        Account.objects.using(alias).filter(pk=target.pk).update(balance=F("balance") + 1)
        Transfer.objects.using(alias).create(source=source, target=target, amount=1)


def requests(alias):
    """More threads than servers; with connections that stay all of them are open at once."""
    together = threading.Barrier(WORKERS, timeout=180)

    def work(worker):
        for number in range(ROUNDS):
            together.wait()
            request(lambda: move(alias, worker, number))
        connections.close_all()

    with ThreadPoolExecutor(WORKERS) as all_of_them:
        for done in [all_of_them.submit(work, worker) for worker in range(WORKERS)]:
            done.result()
    accounts = Account.objects.using(alias)
    assert accounts.aggregate(all=Sum("balance"))["all"] == Decimal(800)
    assert Transfer.objects.using(alias).count() == WORKERS * ROUNDS
    Transfer.objects.using(alias).all().delete()
    accounts.update(balance=100)


execute(f"drop database if exists {NAME} with (force)")
execute(f"create database {NAME}")
migrations()
for one in ALIASES:
    for part in (objects, transactions, cursors, locks):
        request(lambda: part(one))
        connections.close_all()
    requests(one)
    connections.close_all()
connections["pooled"].close_pool()
execute(f"drop database {NAME} with (force)")
print("django ok")
