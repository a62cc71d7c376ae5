"""The cap on attempts: no launch of any kind passes it, and what is exhausted is seen to be."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from extraction_assets.cli import ExitCode, main
from extraction_assets.collections import load_collections
from extraction_assets.sensor_targets import sensor_target
from extraction_assets.status import collect_status
from extraction_assets.workers.orders import Order, Result
from extraction_assets.workers.set_run import SetRun
from extraction_core.causes import Cause
from extraction_core.errors import ConfigurationError
from extraction_core.states import Select
from resources.environment import read_environment
from sensors.document_inbox import look_at_source
from tests.dagster.support import Place, documents, orchestrating
from tests.factories import a_run, a_selection, ask, claim_one, fail, open_attempt, some_files
from tests.ledger.support import execute, rows
from tests.sensors.support import Watch, launched

if TYPE_CHECKING:
    import dagster as dg

    from resources.ledger import Ledger
    from tests.sandbox_server import SandboxServer
    from tests.workplace import Workplace

KEY = "dell/r700.md"
CAP = 3
NO_WAITING = 0.001


class Attempted:
    """One document that the provider does not manage to answer, run by run, each a launch with its own selection."""

    def __init__(self, workplace: Workplace, sandbox: SandboxServer, instance: dg.DagsterInstance) -> None:
        self.workplace, self._sandbox = workplace, sandbox
        self.collection = workplace.collection(some_files(1), max_attempts=CAP)
        self.watch = Watch(workplace.books.ledger, instance, sensor_target(self.collection))

    def server_fails(self, times: int) -> None:
        """Let the next calls fail."""
        self._sandbox.faults([{"kind": "status", "status": 500, "times": times}])

    def run(self, select: Select = Select.PENDING, **order: Any) -> Result:
        """Launch; every failed try ends the row, so that each is a run of its own."""
        order = Order(select=select, **order)
        return self.workplace.run(self.collection, order, retry_in_run_s=NO_WAITING).result

    def run_what_is_registered(self) -> None:
        """Launch on the document set as the ledger has it, without a look at the source before."""
        (document_set,) = self.watch.ledger.documents.sets(self.collection.name)
        with closing(self.workplace.tools()) as tools:
            SetRun(tools, self.collection, document_set, Order(select=Select.DUE), lambda _line: None).run()

    def exhaust(self) -> None:
        """Use all attempts up."""
        self.server_fails(CAP)
        for _ in range(CAP):
            self.run()

    @property
    def calls(self) -> int:
        """Calls made so far."""
        return len(self.workplace.calls())

    def retry_is_due(self) -> None:
        """Let the time for another try have come."""
        execute(self.workplace.books.ledger, "UPDATE documents SET next_retry_ms = 1 WHERE next_retry_ms IS NOT NULL")


@pytest.fixture
def attempted(workplace: Workplace, sandbox: SandboxServer, instance: dg.DagsterInstance) -> Attempted:
    """One document with :data:`CAP` attempts."""
    return Attempted(workplace, sandbox, instance)


def test_no_launch_passes_the_cap(attempted: Attempted) -> None:
    attempted.exhaust()
    assert attempted.calls == CAP
    for select in (Select.PENDING, Select.FAILED, Select.DUE):
        assert attempted.run(select) is Result.NOTHING_TO_DO
        assert attempted.run(select, documents=[KEY]) is Result.NOTHING_TO_DO
    assert attempted.calls == CAP
    assert [row["reason"] for row in attempted.workplace.books.results] == ["server_error"] * CAP
    assert attempted.workplace.books.result(KEY)["message"].endswith("(all 3 attempts are used)")


def test_an_attempt_counts_from_the_moment_it_is_opened_so_that_a_crash_loop_ends(
    attempted: Attempted, sandbox: SandboxServer
) -> None:
    sandbox.faults([{"kind": "status", "status": 401}])
    assert attempted.run() is Result.LINE_STOPPED
    held = claim_one(attempted.watch.ledger, attempted.workplace.books.runs[0]["run_id"])
    for _ in range(CAP):  # workers that die in their calls, one after another
        open_attempt(attempted.watch.ledger, held)
    attempted.workplace.expire_leases()
    assert attempted.run() is Result.CLOSED
    (row,) = attempted.workplace.books.results
    assert (row["status"], row["reason"]) == ("failed", "exhausted")
    assert attempted.calls == 1
    attempted.watch.lease_runs_out()
    assert launched(attempted.watch.sweep()) == []


def test_the_sensors_leave_an_exhausted_document_alone(attempted: Attempted) -> None:
    attempted.exhaust()
    attempted.retry_is_due()
    look_at_source(attempted.watch.ledger, attempted.watch.target, settle_s=0.0)
    report = attempted.watch.sweep()
    assert (launched(report), report.held_back) == ([], [])


def test_below_the_cap_each_failed_try_is_due_again_when_its_time_has_come(attempted: Attempted) -> None:
    attempted.server_fails(1)
    attempted.run()
    assert launched(attempted.watch.sweep()) == []
    attempted.retry_is_due()
    assert launched(attempted.watch.sweep()) == ["dell"]
    assert attempted.run(Select.DUE) is Result.CLOSED
    assert attempted.workplace.books.result(KEY)["status"] == "completed"
    assert attempted.calls == 2


def test_asking_again_without_a_reset_makes_no_call_and_leaves_no_mark(attempted: Attempted) -> None:
    attempted.exhaust()
    (document_set,) = attempted.watch.ledger.documents.sets(attempted.collection.name)
    assert attempted.watch.ledger.launches.ask_again(document_set.set_id, [KEY], reset=False) == [KEY]
    assert launched(attempted.watch.sweep()) == ["dell"]
    assert attempted.run(Select.DUE) is Result.NOTHING_TO_DO
    assert launched(attempted.watch.sweep()) == []
    assert attempted.calls == CAP


def test_a_reset_by_a_person_gives_a_new_edition_with_a_cap_of_its_own(attempted: Attempted) -> None:
    attempted.exhaust()
    (document_set,) = attempted.watch.ledger.documents.sets(attempted.collection.name)
    attempted.watch.ledger.launches.ask_again(document_set.set_id, [KEY], reset=True)
    assert launched(attempted.watch.sweep()) == ["dell"]
    attempted.server_fails(CAP)
    for _ in range(CAP + 2):
        attempted.run(Select.DUE)
        attempted.retry_is_due()
    assert attempted.calls == 2 * CAP
    assert [row["edition"] for row in attempted.workplace.books.results] == [0] * CAP + [1] * CAP
    assert launched(attempted.watch.sweep()) == []


def test_a_document_that_changed_has_all_its_attempts_again(attempted: Attempted) -> None:
    attempted.exhaust()
    (attempted.workplace.source / KEY).write_text("Model: R700\n\nPrice USD: 77\n")
    look_at_source(attempted.watch.ledger, attempted.watch.target, settle_s=0.0)
    assert launched(attempted.watch.sweep()) == ["dell"]
    attempted.run(Select.DUE)
    assert attempted.workplace.books.result(KEY)["status"] == "completed"
    assert attempted.calls == CAP + 1


def test_a_file_that_was_touched_but_not_changed_is_launched_once_and_not_called_for(attempted: Attempted) -> None:
    attempted.run()
    path = attempted.workplace.source / KEY
    path.write_bytes(path.read_bytes())
    look_at_source(attempted.watch.ledger, attempted.watch.target, settle_s=0.0)
    assert launched(attempted.watch.sweep()) == ["dell"]
    assert attempted.run(Select.DUE) is Result.NOTHING_TO_DO
    assert launched(attempted.watch.sweep()) == []
    assert attempted.calls == 1


def test_a_cap_that_was_lowered_below_what_is_used_is_launched_once_and_not_called_for(attempted: Attempted) -> None:
    attempted.server_fails(1)
    attempted.run()
    attempted.retry_is_due()
    attempted.collection = attempted.workplace.collection(some_files(1), max_attempts=1)
    assert launched(attempted.watch.sweep()) == ["dell"]
    assert attempted.run(Select.DUE) is Result.NOTHING_TO_DO
    assert launched(attempted.watch.sweep()) == []
    assert attempted.calls == 1


def test_a_run_that_ends_in_a_fault_is_not_followed_by_another_for_a_while(attempted: Attempted) -> None:
    attempted.run()
    attempted.workplace.source.rename(attempted.workplace.source.parent / "away")
    execute(attempted.watch.ledger, "UPDATE documents SET due_since_ms = 1")
    assert launched(attempted.watch.sweep()) == ["dell"]
    with pytest.raises(ConfigurationError, match="is not a folder"):
        attempted.run_what_is_registered()
    assert launched(attempted.watch.sweep()) == []
    attempted.watch.lease_runs_out()
    assert launched(attempted.watch.sweep()) == ["dell"]


def test_an_exhausted_document_is_seen_in_metadata_check_and_status_and_no_tag_launches_it(
    place: Place, sandbox: SandboxServer
) -> None:
    place.add("servers", documents(2), max_attempts=1)
    sandbox.faults([{"kind": "status", "status": 500, "times": None, "match": r"Model: R1\b"}])
    with orchestrating(place) as dagster:
        first = dagster.launch("servers")
        selects = ("failed", "pending", "due")
        again = [dagster.launch("servers", tags={"extraction/select": select}) for select in selects]
        evaluations = [
            event.asset_check_evaluation_data
            for event in first.events
            if event.event_type_value == "ASSET_CHECK_EVALUATION"
        ]
    assert len(sandbox.requests()) == 2
    for ran in (first, *again):
        metadata = ran.observed()["extractions"]
        assert (metadata["documents_failed"], metadata["documents_exhausted"]) == (1, 1)
        assert "retry --reset-attempts" in metadata["failures"].records[0].data["remedy"]
        assert ran.checks()["all_documents_extracted"] is False
    (check,) = [one for one in evaluations if one.check_name == "all_documents_extracted"]
    assert check.metadata["documents_exhausted"].value == 1
    status = collect_status(load_collections(place.collections), read_environment(), documents=True).as_json()
    (collection,) = status["collections"]
    assert [one["exhausted"] for one in collection["sets"]] == [1]
    assert {one["document_key"]: one["state"] for one in collection["documents"]} == {
        "000.txt": "completed", "001.txt": "exhausted",
    }  # fmt: skip


def test_the_retry_command_resets_attempts_and_says_which_documents_it_does_not_know(
    ledger: Ledger,
    instance: dg.DagsterInstance,  # noqa: ARG001 - the command finds it by the environment
    environment: None,  # noqa: ARG001 - the same
) -> None:
    command = CliRunner()
    assert command.invoke(main, ["scan", "--collection", "invoices"]).exit_code == ExitCode.ALL_GOOD
    document_set = ledger.documents.sets("invoices")[0]
    key = ledger.documents.of_set(document_set.set_id)[0]["document_key"]
    ask(ledger, document_set, "q", [key])
    held = claim_one(ledger, run_id := a_run(ledger, document_set, keys=[key]))
    for _ in range(CAP):
        attempt = open_attempt(ledger, held)
        assert ledger.attempts.abandoned(attempt.attempt_id, attempt.token, cause=Cause.TIMEOUT, message="slow")
    fail(ledger, held, reason="timeout")
    ledger.finalize(run_id)

    def state() -> str:
        shown = command.invoke(main, ["status", "--collection", "invoices", "--documents", "--json"])
        found = json.loads(shown.stdout)["collections"][0]["documents"]
        return next(one["state"] for one in found if one["document_key"] == key)

    selected = a_selection(document_set, select=Select.DUE, keys=[key])
    assert (state(), ledger.runs.selects(selected)) == ("exhausted", 0)
    retried = command.invoke(
        main,
        ["retry", "--collection", "invoices", "--documents", key, "--documents", "no/such.pdf", "--reset-attempts"],
    )
    assert retried.exit_code == ExitCode.WRONG_USE
    assert f"due: {key}" in retried.stdout
    assert "no such document in invoices: no/such.pdf" in retried.stderr
    assert (state(), ledger.runs.selects(selected)) == ("failed", 1)
    a_run(ledger, document_set, select=Select.DUE, keys=[key])
    assert [row["edition"] for row in rows(ledger, "extraction_results")] == [0, 1]
