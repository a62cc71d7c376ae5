"""Recording a result: file and row change together, for the holder of the row alone."""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from extraction_core.errors import OutputPathError, OutputStoreFullError
from extraction_core.failpoints import Failpoint, Failpoints, no_failpoints
from resources.ledger.attempts import KeptAnswer
from resources.ledger.tables import extraction_results
from resources.output import OutputStore
from resources.recorder import Recording, ResultRecorder
from tests.factories import a_plan, a_run, answer, claim_one, open_attempt

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from resources.ledger import Ledger
    from resources.ledger.claims import Held
    from tests.conftest import MakeLedger

WAIT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Desk:
    """One worker's ledger, store and recorder."""

    ledger: Ledger
    store: OutputStore
    recorder: ResultRecorder

    def record(self, held: Held, attempt_id: int, value: object) -> bool:
        return self.recorder.record(recording(self.ledger, held, attempt_id, value))

    def row(self, held: Held) -> dict[str, Any]:
        return dict(self.ledger.results.get(held.row_id) or {})

    def output(self, held: Held) -> Path:
        return self.store.root / "servers" / self.row(held)["document_key"] / "extraction.json"


@pytest.fixture
def make_desk(make_ledger: MakeLedger, tmp_path: Path) -> Callable[[Failpoints], Desk]:
    """Open another worker's desk on the same database and folder."""

    def make(failpoints: Failpoints = no_failpoints) -> Desk:
        ledger, store = make_ledger(failpoints), OutputStore(tmp_path / "outputs", failpoints)
        return Desk(ledger=ledger, store=store, recorder=ResultRecorder(ledger, store, failpoints))

    return make


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    return make_desk()


def recording(ledger: Ledger, held: Held, attempt_id: int, value: object) -> Recording:
    row = ledger.results.get(held.row_id)
    assert row is not None
    return Recording(
        held=held,
        attempt_id=attempt_id,
        collection="servers",
        document_key=row["document_key"],
        value=value,
        notes=("surrounding_text",),
    )


def answered(ledger: Ledger, held: Held) -> int:
    attempt = open_attempt(ledger, held)
    answer(ledger, attempt)
    return attempt.attempt_id


def expire_leases(ledger: Ledger) -> None:
    past = (
        sa.update(extraction_results)
        .where(extraction_results.c.lease_expires_ms.is_not(None))
        .values(lease_expires_ms=1)
    )
    ledger.engine.write(lambda connection: connection.execute(past))


def overtake(ledger: Ledger, run_id: int) -> Held:
    """Take over a row whose holder is not heard of any more."""
    expire_leases(ledger)
    assert ledger.results.reclaim(run_id) == 1
    return claim_one(ledger, run_id, worker="successor")


def temp_files(desk: Desk) -> list[Path]:
    return list(desk.store.root.rglob(".t-*"))


def raise_at(step: Failpoint, code: int) -> Failpoints:
    def failpoint(name: Failpoint) -> None:
        if name == step:
            raise OSError(code, os.strerror(code))

    return failpoint


class PauseAt:
    """Failpoints that stop at the named one until told to go on."""

    def __init__(self, step: Failpoint) -> None:
        self.step, self.reached, self.go_on = step, threading.Event(), threading.Event()

    def __call__(self, name: Failpoint) -> None:
        if name == self.step:
            self.reached.set()
            assert self.go_on.wait(WAIT_S)


def test_a_recorded_result_has_its_file_and_the_row_says_which(desk: Desk) -> None:
    held = claim_one(desk.ledger, a_run(desk.ledger))
    assert desk.record(held, answered(desk.ledger, held), {"model": "R770"})
    row = desk.row(held)
    assert ("completed", ["surrounding_text"]) == (row["status"], row["notes"])
    assert desk.store.sha256(row["output_path"]) == row["output_sha256"]
    assert desk.output(held).stat().st_size == row["output_bytes"]
    assert temp_files(desk) == []


def test_a_worker_that_slept_before_its_last_transaction_and_was_overtaken_changes_nothing(
    make_desk: Callable[..., Desk],
) -> None:
    pause = PauseAt(Failpoint.BEGIN_COMPLETE)
    sleeper, successor = make_desk(pause), make_desk()
    run_id = a_run(sleeper.ledger, documents=1)
    held = claim_one(sleeper.ledger, run_id, worker="sleeper")
    attempt_id = answered(sleeper.ledger, held)
    outcome: list[bool] = []
    thread = threading.Thread(target=lambda: outcome.append(sleeper.record(held, attempt_id, {"by": "the sleeper"})))
    thread.start()
    try:
        assert pause.reached.wait(WAIT_S)
        taken = overtake(successor.ledger, run_id)
        assert successor.record(taken, attempt_id, {"by": "the successor"})
        row, file = successor.row(taken), successor.output(taken)
        before = (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_ino)
    finally:
        pause.go_on.set()
        thread.join(WAIT_S)
    assert outcome == [False]
    assert row == successor.row(taken)
    assert before == (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_ino)
    assert b"the successor" in before[0]
    assert temp_files(sleeper) == []


def test_a_result_of_a_newer_run_is_not_touched_by_a_worker_of_an_older_one(make_desk: Callable[..., Desk]) -> None:
    pause = PauseAt(Failpoint.BEGIN_COMPLETE)
    sleeper, other = make_desk(pause), make_desk()
    run_id = a_run(sleeper.ledger, documents=1)
    held = claim_one(sleeper.ledger, run_id)
    attempt_id = answered(sleeper.ledger, held)
    outcome: list[bool] = []
    thread = threading.Thread(target=lambda: outcome.append(sleeper.record(held, attempt_id, {"run": "old"})))
    thread.start()
    try:
        assert pause.reached.wait(WAIT_S)
        expire_leases(other.ledger)
        other.ledger.results.request_cancel(run_id)
        other.ledger.results.reclaim(run_id)
        assert other.ledger.finalize(run_id)
        (document_set,) = other.ledger.documents.sets("servers")
        newer = claim_one(other.ledger, a_run(other.ledger, document_set))
        opened = other.ledger.attempts.open(newer, a_plan(), 3)
        assert isinstance(opened, KeptAnswer)
        assert other.record(newer, opened.attempt_id, {"run": "new"})
    finally:
        pause.go_on.set()
        thread.join(WAIT_S)
    assert outcome == [False]
    assert b'"new"' in other.output(newer).read_bytes()
    assert other.row(held)["status"] == "cancelled"


@pytest.mark.parametrize("step", [Failpoint.WRITE_OUTPUT, Failpoint.SYNC_OUTPUT, Failpoint.REPLACE_OUTPUT])
@pytest.mark.parametrize(("code", "error"), [(errno.ENOSPC, OutputStoreFullError), (errno.EACCES, OutputPathError)])
def test_a_failed_write_leaves_the_row_held_the_old_file_and_the_answer_to_be_used_again(
    make_desk: Callable[..., Desk], step: Failpoint, code: int, error: type[Exception]
) -> None:
    failing, good = make_desk(raise_at(step, code)), make_desk()
    held = claim_one(good.ledger, a_run(good.ledger, documents=1))
    attempt_id = answered(good.ledger, held)
    good.output(held).parent.mkdir(parents=True)
    good.output(held).write_bytes(b"the old file")
    with pytest.raises(error):
        failing.record(held, attempt_id, {"model": "R770"})
    assert good.row(held)["status"] == "running"
    assert good.output(held).read_bytes() == b"the old file"
    assert temp_files(good) == []
    opened = good.ledger.attempts.open(held, a_plan(), 3)
    assert isinstance(opened, KeptAnswer)
    assert good.record(held, opened.attempt_id, {"model": "R770"})


def test_a_transaction_that_fails_after_all_leaves_no_temp_file(make_desk: Callable[..., Desk]) -> None:
    class LostError(Exception):
        pass

    def lose(name: Failpoint) -> None:
        if name == Failpoint.BEGIN_COMPLETE:
            raise LostError

    desk = make_desk(lose)
    held = claim_one(desk.ledger, a_run(desk.ledger))
    with pytest.raises(LostError):
        desk.record(held, answered(desk.ledger, held), {})
    assert temp_files(desk) == []


def test_the_redo_after_a_crash_before_the_commit_writes_the_same_bytes(make_desk: Callable[..., Desk]) -> None:
    crashing, good = make_desk(raise_at(Failpoint.COMMIT_COMPLETE, errno.EINTR)), make_desk()
    run_id = a_run(good.ledger, documents=1)
    held = claim_one(good.ledger, run_id)
    attempt_id = answered(good.ledger, held)
    with pytest.raises(OSError, match="Interrupted"):
        crashing.record(held, attempt_id, {"b": 1, "a": [1]})
    first = good.output(held).read_bytes()
    assert good.row(held)["status"] == "running"
    taken = overtake(good.ledger, run_id)
    assert good.record(taken, attempt_id, {"b": 1, "a": [1]})
    assert first == good.output(taken).read_bytes()
    assert good.row(taken)["output_sha256"] == good.store.sha256(good.row(taken)["output_path"])
