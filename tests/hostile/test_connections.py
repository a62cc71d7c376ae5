"""Connections that are not to be had: too many on the server, too many threads here, a server that does not answer."""

from __future__ import annotations

from contextlib import closing
from time import monotonic
from typing import TYPE_CHECKING

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from extraction_core.errors import LedgerError
from resources.ledger import Ledger
from resources.ledger.engine import POOL_SIZE, LedgerEngine, is_transient
from tests.ledger.support import PATIENCE_S, in_background, together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hostile.line import Line

pytestmark = pytest.mark.postgres
MOST = 2
A_MOMENT = sa.text("SELECT 1 FROM pg_sleep(0.02)")


@pytest.fixture
def limited_url(migrated_postgres: str) -> Iterator[str]:
    """The address of the database for a user who may have two connections."""
    role = "of_few_connections"
    with psycopg.connect(migrated_postgres, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT {MOST}".encode())
        yield sa.make_url(migrated_postgres).set(username=role).render_as_string(hide_password=False)
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [role])
        admin.execute(f"DROP ROLE {role}".encode())


def ask(engine: LedgerEngine) -> int:
    """Hold a connection for a moment."""
    return engine.read(lambda connection: connection.execute(A_MOMENT).scalar_one())


def test_a_server_that_has_no_connection_left_is_waited_for(limited_url: str) -> None:
    with (
        psycopg.connect(limited_url),
        psycopg.connect(limited_url),
        pytest.raises(psycopg.OperationalError, match="too many connections"),
    ):
        psycopg.connect(limited_url)
    with closing(LedgerEngine(limited_url)) as engine:
        assert together(3 * MOST, lambda _: ask(engine)) == [1] * 3 * MOST


def test_threads_without_a_connection_of_the_pool_wait_for_one(migrated_postgres: str) -> None:
    with closing(LedgerEngine(migrated_postgres)) as engine:
        assert together(3 * POOL_SIZE, lambda _: ask(engine)) == [1] * 3 * POOL_SIZE
        assert engine.raw.pool.status().startswith(f"Pool size: {POOL_SIZE}  Connections in pool: {POOL_SIZE} ")


def test_a_pool_that_had_no_connection_for_long_is_asked_again() -> None:
    assert is_transient(exc.TimeoutError("QueuePool limit of size 6 overflow 0 reached, connection timed out"))


def test_a_server_that_accepts_and_does_not_answer_is_given_up_and_tried_again(line: Line) -> None:
    line.fall_silent()
    url = sa.make_url(line.url).update_query_dict({"connect_timeout": "2"})  # the shortest that there is
    engine = LedgerEngine(url.render_as_string(hide_password=False))
    with closing(engine), in_background(lambda: ask(engine)) as asking:
        assert line.wait_for_silenced(2, PATIENCE_S)
        line.speak_again()
        assert asking.result() == 1


def test_a_server_that_refuses_us_is_not_asked_again_and_again(line: Line) -> None:
    nobody = sa.make_url(line.url).set(username="nobody_knows").render_as_string(hide_password=False)
    begun = monotonic()
    with pytest.raises(LedgerError, match=r'role "nobody_knows" does not exist\. Check EXTRACTION_LEDGER_URL'):
        Ledger(nobody)
    assert monotonic() - begun < PATIENCE_S
