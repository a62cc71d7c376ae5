"""A run that is cancelled, and one that is merely stopped: `dagster asset materialize`, hit by signals in mid-call."""

from __future__ import annotations

import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from tests.dagster.support import PROJECT_ROOT, Orchestrator, Place, documents, orchestrating
from tests.webserver import BIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sandbox_server import SandboxServer

DOCUMENTS = 12
IN_FLIGHT = 4
ANSWERED = 4
WAIT_S = 200
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def dagster(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Orchestrator]:
    """Dagster on a set of twelve documents, of which four are called at a time."""
    monkeypatch.setenv("EXTRACTION_CANCEL_GRACE_S", "0.2")
    place.add("servers", documents(DOCUMENTS), concurrency=IN_FLIGHT)
    with orchestrating(place) as dagster:
        yield dagster


@contextmanager
def materializing(place: Place, dagster: Orchestrator, sandbox: SandboxServer) -> Iterator[subprocess.Popen[bytes]]:
    """Run Dagster's own command, with four documents answered and four calls held back by the sandbox."""
    command = [
        str(BIN / "dagster"), "asset", "materialize", "-m", "tests.dagster.location", "-d", str(PROJECT_ROOT),
        "--select", "*", "--partition", dagster.only_partition("servers"),
    ]  # fmt: skip
    sandbox.hold("calls", times=IN_FLIGHT, skip=ANSWERED)
    with (
        (place.root / "materialize.log").open("w") as log,
        subprocess.Popen(command, cwd=PROJECT_ROOT, stdout=log, stderr=log) as process,
    ):
        try:
            sandbox.wait_until_held("calls", IN_FLIGHT)
            yield process
        finally:
            process.kill()


def test_a_cancelled_run_ends_its_unfinished_documents_cancelled(
    place: Place, dagster: Orchestrator, sandbox: SandboxServer
) -> None:
    with materializing(place, dagster, sandbox) as process:
        (run,) = dagster.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        dagster.instance.report_run_canceling(run)
        process.send_signal(signal.SIGINT)
        process.wait(WAIT_S)
    states = sorted(state for (state,) in place.states().values())
    assert states == ["cancelled"] * (DOCUMENTS - ANSWERED) + ["completed"] * ANSWERED
    assert place.sql("SELECT status, cancelled_count, completed_count, request_count FROM extraction_runs") == [
        {"status": "cancelled", "cancelled_count": 8, "completed_count": 4, "request_count": 12}
    ]
    assert place.sql("SELECT DISTINCT status FROM attempts ORDER BY status") == [
        {"status": "abandoned"},
        {"status": "answered"},
    ]
    assert dagster.read(run.run_id).status is dg.DagsterRunStatus.CANCELED


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_run_that_is_stopped_leaves_its_documents_to_the_next_which_asks_for_nothing_twice(
    place: Place, dagster: Orchestrator, sandbox: SandboxServer, number: signal.Signals
) -> None:
    with materializing(place, dagster, sandbox) as process:
        process.send_signal(number)
        process.wait(WAIT_S)
    assert process.returncode != 0
    states = sorted(state for (state,) in place.states().values())
    assert states == ["completed"] * ANSWERED + ["queued"] * (DOCUMENTS - ANSWERED)
    assert place.sql("SELECT status FROM extraction_runs") == [{"status": "open"}]
    assert place.sql("SELECT COUNT(*) AS n FROM attempts WHERE status = 'abandoned'") == [{"n": IN_FLIGHT}]
    stopped = {request["document_sha256"] for request in sandbox.requests() if request["fault"] == "hold"}

    second = dagster.launch("servers")

    assert second.succeeded
    assert place.sql("SELECT status, completed_count FROM extraction_runs") == [
        {"status": "completed", "completed_count": DOCUMENTS}
    ]
    asked = [request["document_sha256"] for request in sandbox.requests()]
    assert len(asked) == DOCUMENTS + IN_FLIGHT
    assert {document for document in asked if asked.count(document) > 1} == stopped
