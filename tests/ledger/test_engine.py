"""Transactions: how they begin, wait and are run again, and which addresses are accepted."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from extraction_core.errors import ConfigurationError
from extraction_core.failpoints import Failpoint
from resources.ledger.engine import LedgerEngine
from tests.factories import Crash, CrashAt, a_run, a_set, claim
from tests.ledger.support import PATIENCE_S, execute, in_background, one_row, only_postgres, only_sqlite, rows

if TYPE_CHECKING:
    from pathlib import Path

    from resources.ledger import Ledger
    from tests.conftest import MakeLedger

END_OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def locking(database_url: str) -> sqlite3.Connection:
    """Return a connection that holds the write lock, as another process would."""
    connection = sqlite3.connect(database_url.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return connection


@only_sqlite
def test_a_writer_waits_for_a_lock_of_another_process(ledger: Ledger, database_url: str) -> None:
    run_id, about_to_begin = a_run(ledger), threading.Event()
    event.listen(ledger.engine.raw, "checkout", lambda *_: about_to_begin.set())
    other = locking(database_url)
    with in_background(lambda: claim(ledger, run_id, 3)) as claiming, closing(other):
        assert about_to_begin.wait(PATIENCE_S)
        other.execute("ROLLBACK")
        assert len(claiming.result()) == 3


@only_sqlite
def test_a_locked_database_is_tried_again_until_the_lock_goes(ledger: Ledger, database_url: str) -> None:
    run_id, tries, third_try = a_run(ledger), [], threading.Event()

    def do_not_wait(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute("PRAGMA busy_timeout = 0")
        tries.append(1)
        if len(tries) == 3:
            third_try.set()

    event.listen(ledger.engine.raw, "checkout", do_not_wait)
    other = locking(database_url)
    with in_background(lambda: claim(ledger, run_id, 3)) as claiming, closing(other):
        assert third_try.wait(PATIENCE_S)
        other.execute("ROLLBACK")
        assert len(claiming.result()) == 3


@only_sqlite
def test_a_write_transaction_has_the_lock_from_its_beginning(ledger: Ledger, database_url: str) -> None:
    def begin_another(_: sa.Connection) -> None:
        with closing(
            sqlite3.connect(database_url.removeprefix("sqlite:///"), timeout=0, isolation_level=None)
        ) as other:
            other.execute("BEGIN IMMEDIATE")

    with pytest.raises(sqlite3.OperationalError, match="database is locked"):
        ledger.engine.write(begin_another)


@only_sqlite
def test_readers_are_not_kept_waiting_by_a_writer(ledger: Ledger, database_url: str) -> None:
    a_run(ledger)
    before = rows(ledger, "extraction_results")
    with closing(locking(database_url)) as other:
        other.execute("DELETE FROM extraction_results")
        assert rows(ledger, "extraction_results") == before


@only_sqlite
def test_a_sqlite_ledger_is_durable_and_checks_its_references(ledger: Ledger) -> None:
    names = ("journal_mode", "synchronous", "foreign_keys")
    found = ledger.engine.read(
        lambda connection: [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]
    )
    assert found == ["wal", 2, 1]


def test_a_reference_to_nothing_is_refused(ledger: Ledger) -> None:
    a_run(ledger)
    with pytest.raises(sa.exc.IntegrityError, match=r"(?i)foreign key"):
        execute(ledger, "UPDATE extraction_results SET run_id = 12345")


@only_postgres
def test_connections_that_the_server_ended_are_replaced(ledger: Ledger, database_url: str) -> None:
    run_id = a_run(ledger)
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute(END_OTHERS.encode())
    assert len(claim(ledger, run_id, 3)) == 3


@only_postgres
def test_a_transaction_whose_connection_breaks_is_run_again_as_a_whole(ledger: Ledger, database_url: str) -> None:
    run_id = a_run(ledger)
    passes = []

    def transaction(connection: sa.Connection) -> int:
        passes.append(1)
        connection.execute(sa.text("UPDATE extraction_runs SET unexpected_count = unexpected_count + 1"))
        if len(passes) == 1:
            with psycopg.connect(database_url, autocommit=True) as other:
                other.execute(END_OTHERS.encode())
        return connection.execute(sa.text("SELECT unexpected_count FROM extraction_runs")).scalar_one()

    assert ledger.engine.write(transaction) == 1
    assert len(passes) == 2
    assert ledger.runs.get(run_id)["unexpected_count"] == 1


@only_postgres
def test_transactions_that_deadlock_are_run_again_until_both_are_through(
    ledger: Ledger, make_ledger: MakeLedger
) -> None:
    ids = [
        row["result_id"] for row in rows(ledger, "extraction_results", f"run_id = {a_run(ledger, a_set(ledger, 2))}")
    ]
    both_hold_one, ledgers, passes = threading.Barrier(2, timeout=PATIENCE_S), [ledger, make_ledger()], [0, 0]
    update = sa.text("UPDATE extraction_results SET reclaims = reclaims + 1 WHERE result_id = :id")

    def update_both(number: int) -> None:
        order = ids if number else ids[::-1]

        def transaction(connection: sa.Connection) -> None:
            passes[number] += 1
            connection.execute(update, {"id": order[0]})
            if passes[number] == 1:
                both_hold_one.wait()
            connection.execute(update, {"id": order[1]})

        ledgers[number].engine.write(transaction)

    with in_background(lambda: update_both(0)) as other:
        update_both(1)
        other.result()
    assert sum(passes) > 2
    assert [row["reclaims"] for row in rows(ledger, "extraction_results")] == [2, 2]


def test_an_error_that_would_come_again_is_raised_at_once(ledger: Ledger) -> None:
    passes = []

    def transaction(connection: sa.Connection) -> None:
        passes.append(1)
        connection.execute(sa.text("SELECT no_such_column FROM documents"))

    with pytest.raises(sa.exc.DBAPIError, match="no_such_column"):
        ledger.engine.write(transaction)
    assert len(passes) == 1


def test_a_crash_before_a_commit_leaves_nothing_of_the_transaction(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(CrashAt(Failpoint.COMMIT_CLAIM))
    run_id = a_run(ledger)
    before = rows(ledger, "extraction_results")
    with pytest.raises(Crash):
        claim(ledger, run_id, 3)
    assert rows(ledger, "extraction_results") == before
    assert len(claim(ledger, run_id, 3)) == 3


def test_an_uncommitted_write_is_seen_by_nobody_else(ledger: Ledger, make_ledger: MakeLedger) -> None:
    a_run(ledger, documents=1)
    other = make_ledger()

    def transaction(connection: sa.Connection) -> str:
        connection.execute(sa.text("UPDATE extraction_results SET reason = 'mine'"))
        return one_row(other, "extraction_results")["reason"]

    assert ledger.engine.write(transaction) is None
    assert one_row(other, "extraction_results")["reason"] == "mine"


@pytest.mark.parametrize("url", ["sqlite:///ledger.db", "sqlite:///./ledger.db", "sqlite://", "sqlite:///:memory:"])
def test_a_sqlite_address_without_an_absolute_file_is_refused(url: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^EXTRACTION_LEDGER_URL: names no absolute file.*sqlite:////absolute"
    ):
        LedgerEngine(url)


@pytest.mark.parametrize("url", ["mysql://user:secret@host/ledger", "user:secret@host"])
def test_an_address_of_another_kind_is_refused_without_telling_it(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^EXTRACTION_LEDGER_URL") as refusal:
        LedgerEngine(url)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg", "postgresql+psycopg2"])
def test_the_password_of_an_address_is_hidden(scheme: str) -> None:
    with closing(LedgerEngine(f"{scheme}://user:secret@127.0.0.1:1/ledger")) as engine:
        assert engine.url == "postgresql+psycopg://user:***@127.0.0.1:1/ledger"
        assert "secret" not in repr(engine.raw)


def test_the_folder_of_a_sqlite_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "ledger.db"
    with closing(LedgerEngine(f"sqlite:///{path}")) as engine:
        assert engine.read(lambda connection: connection.execute(sa.text("SELECT 1")).scalar()) == 1
    assert path.exists()
