"""Freezing a process: never in a transaction, or it would hold up those who are to take over its work."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from resources.ledger import Ledger
from resources.ledger.trials import wait_until_idle

if TYPE_CHECKING:
    import sqlalchemy as sa


def test_nobody_is_frozen_while_another_thread_of_his_is_in_a_transaction(database_url: str) -> None:
    ledger = Ledger(database_url)
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def transaction(_connection: sa.Connection) -> None:
        begun.set()
        may_end.wait()
        ended.set()

    with ThreadPoolExecutor(2) as threads:
        threads.submit(ledger.engine.write, transaction)
        begun.wait()
        waiting = threads.submit(wait_until_idle, ledger.engine)
        with pytest.raises(TimeoutError):
            waiting.result(0.1)
        may_end.set()
        waiting.result()
        assert ended.is_set()
    ledger.close()
