"""A real daemon: a provider that comes and goes, and a worker that is killed."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from sensors.probe import FINISHED
from tests.dagster.support import PARTITION_TAG, a_document
from tests.ledger.support import one_row, only_postgres, only_sqlite, rows
from tests.sensors.daemon import running_daemon
from tests.sensors.support import Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import dagster as dg

    from resources.ledger import Ledger
    from tests.dagster.support import Place
    from tests.sandbox_server import SandboxServer

FOLDERS, DOCUMENTS_EACH = 3, 20
DOCUMENTS = FOLDERS * DOCUMENTS_EACH
FLAPS, FLAP_S = 3, 3.0
CAP = 3

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def at_ledger(place: Place, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The place, with its ledger on the database under test."""
    monkeypatch.setenv("EXTRACTION_LEDGER_URL", database_url)
    return place


def set_times(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
    """Give the daemon, and all that it starts, other times than the usual ones."""
    for name, value in seconds.items():
        monkeypatch.setenv(f"EXTRACTION_{name.upper()}", str(value))


@contextmanager
def flapping(sandbox: SandboxServer) -> Iterator[None]:
    """Once the first call has come, let the provider refuse and serve by turns; in the end it serves."""
    ended = threading.Event()

    def serve(fault: Mapping[str, object]) -> None:
        sandbox._ask("DELETE", "faults")
        sandbox.faults([{"times": None, **fault}])

    def flap() -> None:
        well = {"kind": "slow", "seconds": 0.3}
        serve(well)
        while not sandbox.requests():
            if ended.wait(0.1):
                return
        for _ in range(FLAPS):
            serve({"kind": "status", "status": 529})
            ended.wait(FLAP_S)
            serve(well)
            ended.wait(FLAP_S)

    thread = threading.Thread(target=flap)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Observer:
    """Looks at ledger and Dagster over and over, and keeps what must never be seen."""

    def __init__(self, ledger: Ledger, instance: dg.DagsterInstance) -> None:
        self._ledger, self._instance = ledger, instance
        self.twice_active: list[int] = []
        self.twice_in_flight: list[str] = []
        self.longest_queue = 0

    def all_completed(self) -> bool:
        """Take one look. Returns whether every document is completed."""
        found = rows(self._ledger, "extraction_results")
        active = Counter(row["document_id"] for row in found if row["status"] in {"queued", "running"})
        self.twice_active += [document for document, number in active.items() if number > 1]
        in_flight = [run for run in self._instance.get_runs() if run.status not in FINISHED]
        self.longest_queue = max(self.longest_queue, len(in_flight))
        of_set = Counter(run.tags[PARTITION_TAG] for run in in_flight)
        self.twice_in_flight += [key for key, number in of_set.items() if number > 1]
        return len({row["document_id"] for row in found if row["status"] == "completed"}) == DOCUMENTS


@only_postgres
def test_under_a_provider_that_comes_and_goes_every_document_is_paid_for_once_and_the_queue_stays_short(
    at_ledger: Place,
    ledger: Ledger,
    sandbox: SandboxServer,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {
        f"{folder}/{number:02d}.txt": a_document(100 * folder + number)
        for folder in range(FOLDERS)
        for number in range(DOCUMENTS_EACH)
    }
    at_ledger.add("servers", files, partition_by={"directory": 1}, concurrency=4, max_attempts=CAP)
    at_ledger.scan()
    set_times(monkeypatch, lease_s=40, heartbeat_s=1, request_timeout_s=30, retry_in_run_s=1)
    observer = Observer(ledger, instance)
    with flapping(sandbox), running_daemon(at_ledger.root / "daemon.log") as daemon:
        daemon.wait_until(observer.all_completed, within_s=300)
    assert (observer.twice_active, observer.twice_in_flight) == ([], [])
    assert observer.longest_queue <= FOLDERS
    assert len(instance.get_runs()) <= FOLDERS * 2 * (FLAPS + 1)
    assert sandbox.bill()["calls"] == DOCUMENTS
    counted = Counter(row["document_id"] for row in rows(ledger, "attempts") if row["counted"])
    assert set(counted.values()) == {1}
    assert any(row["reason"] == "overloaded" for row in rows(ledger, "attempts"))


@only_sqlite
def test_a_set_whose_worker_was_killed_is_resumed_once_and_what_was_done_is_left_alone(
    at_ledger: Place,
    ledger: Ledger,
    sandbox: SandboxServer,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {f"{number}.txt": a_document(number) for number in range(6)}
    at_ledger.add("servers", files, concurrency=3)
    at_ledger.scan()
    set_times(monkeypatch, lease_s=17, heartbeat_s=1, request_timeout_s=15)
    sandbox.hold("calls", skip=3, times=3)
    with running_daemon(at_ledger.root / "daemon.log") as daemon:
        daemon.wait_until(lambda: len(sandbox.requests()) == 6 and completed(ledger) == 3, within_s=120)
        before = outputs(at_ledger)
        os.kill(one_row(ledger, "workers")["pid"], signal.SIGKILL)
        sandbox.release("calls")
        daemon.wait_until(lambda: completed(ledger) == 6, within_s=120)
        daemon.wait_until(lambda: all(run.status in FINISHED for run in instance.get_runs()), within_s=60)
    assert [run.status for run in instance.get_runs()] == [Status.SUCCESS, Status.FAILURE]
    asked = Counter(request["user_text"] for request in sandbox.requests(bodies=True))
    assert sorted(asked.values()) == [1, 1, 1, 2, 2, 2]
    assert {path: at for path, at in outputs(at_ledger).items() if path in before} == before
    run = one_row(ledger, "extraction_runs")
    assert (run["status"], run["request_count"], run["completed_count"]) == ("completed", 6, 6)
    assert one_row(ledger, "document_sets")["launch_number"] == 2


def completed(ledger: Ledger) -> int:
    """Return how many results are completed."""
    return len(rows(ledger, "extraction_results", "status = 'completed'"))


def outputs(place: Place) -> dict[Path, int]:
    """Return when each result file was written."""
    return {path: path.stat().st_mtime_ns for path in (place.home / "outputs").rglob("extraction.json")}
