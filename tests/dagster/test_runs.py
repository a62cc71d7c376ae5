"""What a Dagster run of one document set does: takes its share, takes what was asked for, says what it did."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from multiprocessing import get_context
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from tests.dagster.location import defs
from tests.dagster.support import PARTITION_TAG, Place, Ran, a_document, documents, elsewhere, orchestrating

if TYPE_CHECKING:
    from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.timeout(300)


def called(sandbox: SandboxServer) -> list[int]:
    """The numbers of the documents that the provider was asked about, sorted; one that was asked twice stands twice."""
    asked = [request["user_text"] for request in sandbox.requests(bodies=True)]
    return sorted(int(re.search(r"Model: R(\d+)", text)[1]) for text in asked)


def refuse(sandbox: SandboxServer, *numbers: int) -> None:
    """Let the provider decline these documents, every time."""
    sandbox.faults([{"kind": "refusal", "times": None, "match": rf"Model: R{number}\b"} for number in numbers])


def servers_job() -> dg.JobDefinition:
    """The job, as another process would find it again."""
    return defs().resolve_job_def("servers_extraction")


def test_a_run_that_comes_second_joins_the_open_extraction_run_and_takes_a_share(
    place: Place, sandbox: SandboxServer
) -> None:
    place.add("servers", documents(8), concurrency=4)
    sandbox.hold("calls", times=8)
    with orchestrating(place) as dagster:
        with elsewhere(place, "servers"):
            sandbox.wait_until_held("calls", 4)
            with elsewhere(place, "servers"):
                sandbox.wait_until_held("calls", 8)
                sandbox.release("calls")
        first, second = dagster.runs()
    assert (first.succeeded, second.succeeded) == (True, True)
    (run,) = place.sql("SELECT status, request_count, completed_count FROM extraction_runs")
    assert run == {"status": "completed", "request_count": 8, "completed_count": 8}
    assert "joined extraction run 1, which was open already (select: pending)" in second.log_lines
    assert called(sandbox) == list(range(8))


def test_two_runs_that_start_at_one_moment_call_once_for_each_document(place: Place, sandbox: SandboxServer) -> None:
    place.add("servers", documents(20), concurrency=4)
    together = get_context("forkserver").Barrier(2)
    with orchestrating(place) as dagster:
        with elsewhere(place, "servers", together), elsewhere(place, "servers", together):
            pass
        assert [ran.succeeded for ran in dagster.runs()] == [True, True]
    assert called(sandbox) == list(range(20))
    assert set(map(tuple, place.states().values())) == {("completed",)}


def test_a_run_on_a_set_that_another_run_holds_ends_well_names_it_and_materializes_nothing(
    place: Place, sandbox: SandboxServer
) -> None:
    place.add("servers", documents(2))
    sandbox.hold("calls", times=2)
    with orchestrating(place) as dagster:
        with elsewhere(place, "servers"):
            sandbox.wait_until_held("calls", 2)
            second = dagster.launch("servers")
            sandbox.release("calls")
        holder = dagster.runs()[0]
    assert second.succeeded
    assert second.observed()["extractions"]["held_by"] == holder.run_id
    assert "extractions" not in second.materialized()
    assert second.checks() == {"all_documents_parsed": True}
    assert holder.materialized()["extractions"]["documents_completed"] == 2


def test_a_reexecuted_run_goes_on_with_the_open_extraction_run(place: Place, sandbox: SandboxServer) -> None:
    place.add("servers", documents(3), concurrency=1)
    sandbox.faults([{"kind": "status", "status": 401, "skip": 1}])
    with orchestrating(place) as dagster:
        stopped = dagster.launch("servers")
        options = dg.ReexecutionOptions.from_failure(stopped.run_id, dagster.instance)
        with dg.execute_job(
            dg.reconstructable(servers_job),
            instance=dagster.instance,
            reexecution_options=options,
            tags={PARTITION_TAG: dagster.only_partition("servers")},
        ) as again:
            assert again.success
    assert not stopped.succeeded
    assert "stopped, documents left as they were: authentication: HTTP 401" in stopped.failure()
    assert place.sql("SELECT status, completed_count FROM extraction_runs") == [
        {"status": "completed", "completed_count": 3}
    ]
    assert len(sandbox.requests()) == 4  # one was refused at the door


def test_with_nothing_to_do_a_good_set_is_materialized_again_without_a_call(
    place: Place, sandbox: SandboxServer
) -> None:
    place.add("servers", documents(2))
    with orchestrating(place) as dagster:
        dagster.launch("servers")
        again = dagster.launch("servers")
    shown = again.materialized()["extractions"]
    assert (shown["result"], shown["documents_completed"]) == ("nothing_to_do", 2)
    assert called(sandbox) == [0, 1]


def test_with_nothing_to_do_a_set_with_failures_is_as_red_as_before(place: Place, sandbox: SandboxServer) -> None:
    place.add("servers", documents(2), max_attempts=1)
    refuse(sandbox, 1)
    with orchestrating(place) as dagster:
        dagster.launch("servers")
        again = dagster.launch("servers")
    assert "1 of 2 documents of . have no result" in again.failure()
    assert again.observed()["extractions"]["result"] == "nothing_to_do"
    assert again.checks()["all_documents_extracted"] is False
    assert "extractions" not in again.materialized()
    assert called(sandbox) == [0, 1]


@pytest.mark.parametrize("how", [{"config": {"select": "failed"}}, {"tags": {"extraction/select": "failed"}}])
def test_select_failed_takes_what_failed_and_nothing_new(place: Place, sandbox: SandboxServer, how: dict) -> None:
    place.add("servers", documents(2))
    refuse(sandbox, 1)
    with orchestrating(place) as dagster:
        dagster.launch("servers")
        sandbox.reset()
        (place.source("servers") / "new.txt").write_text(a_document(7))
        dagster.launch("servers", **how)
    assert called(sandbox) == [1]


def test_select_all_asks_for_every_document_anew(place: Place, sandbox: SandboxServer) -> None:
    place.add("servers", documents(2))
    with orchestrating(place) as dagster:
        dagster.launch("servers")
        dagster.launch("servers", config={"select": "all"})
    assert called(sandbox) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "how",
    [
        {"config": {"documents": ["000.txt", "002.txt"]}},
        {"tags": {"extraction/documents": '["000.txt", "002.txt"]'}},
        {"tags": {"extraction/documents": "000.txt, 002.txt"}},
    ],
    ids=["config", "tag as JSON", "tag with commas"],
)
def test_documents_limits_a_run_to_those_named(place: Place, sandbox: SandboxServer, how: dict) -> None:
    place.add("servers", documents(3))
    with orchestrating(place) as dagster:
        dagster.launch("servers", **how)
    assert called(sandbox) == [0, 2]


def test_the_config_wins_over_the_tags(place: Place, sandbox: SandboxServer) -> None:
    place.add("servers", documents(3))
    tags = {"extraction/select": "no such thing", "extraction/documents": '["000.txt"]'}
    with orchestrating(place) as dagster:
        dagster.launch("servers", tags=tags, config={"select": "pending", "documents": ["001.txt"]})
    assert called(sandbox) == [1]


def test_the_tags_never_lead_a_run_to_another_partition(place: Place, sandbox: SandboxServer) -> None:
    files = {"a/0.txt": a_document(0), "b/1.txt": a_document(1)}
    place.add("servers", files, partition_by={"directory": 1})
    with orchestrating(place) as dagster:
        here = next(key for key in dagster.partitions("servers") if key.startswith("a-"))
        ran = dagster.launch("servers", partition=here, tags={"extraction/documents": '["b/1.txt"]'})
    assert called(sandbox) == []
    assert "not in this set: b/1.txt" in ran.log_lines


@pytest.mark.parametrize("how", [{"config": {"select": "everything"}}, {"tags": {"extraction/select": "everything"}}])
def test_a_wrong_selection_fails_and_names_the_allowed_ones(place: Place, sandbox: SandboxServer, how: dict) -> None:
    place.add("servers", documents(1))
    with orchestrating(place) as dagster:
        ran = dagster.launch("servers", **how)
    assert "select is 'everything'; it must be one of pending, failed, all" in ran.failure()
    assert called(sandbox) == []


def test_documents_that_are_no_json_list_fail_and_name_the_tag(place: Place, sandbox: SandboxServer) -> None:
    place.add("servers", documents(1))
    with orchestrating(place) as dagster:
        ran = dagster.launch("servers", tags={"extraction/documents": '["000.txt"'})
    assert "the tag extraction/documents is not a JSON list" in ran.failure()
    assert called(sandbox) == []


def test_a_partition_that_was_made_by_hand_fails_and_names_the_command_that_makes_them(
    place: Place, sandbox: SandboxServer
) -> None:
    place.add("servers", documents(1))
    with orchestrating(place) as dagster:
        dagster.instance.add_dynamic_partitions("servers_document_sets", ["by-hand"])
        ran = dagster.launch("servers", partition="by-hand")
    assert "servers has no document set 'by-hand' in the ledger" in ran.failure()
    assert "extraction-assets scan --collection servers" in ran.failure()
    assert called(sandbox) == []


def test_the_parsed_documents_alone_cost_no_call(place: Place, sandbox: SandboxServer) -> None:
    place.add("servers", documents(2))
    with orchestrating(place) as dagster:
        ran = dagster.launch("servers", assets=["parsed_documents"])
    assert ran.succeeded
    assert list(ran.materialized()) == ["parsed_documents"]
    assert ran.checks() == {"all_documents_parsed": True}
    assert (called(sandbox), place.states()) == ([], {})


def test_the_extractions_alone_parse_what_they_need(place: Place, sandbox: SandboxServer) -> None:
    place.add("servers", documents(2))
    with orchestrating(place) as dagster:
        ran = dagster.launch("servers", assets=["extractions"])
    assert list(ran.materialized()) == ["extractions"]
    assert ran.checks() == {"all_documents_extracted": True, "files_match_ledger": True}
    assert called(sandbox) == [0, 1]


def test_without_a_key_and_an_address_a_run_says_so_before_anything_is_claimed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.add("servers", documents(1))
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("ANTHROPIC_BASE_URL")
    with orchestrating(place) as dagster:
        ran = dagster.launch("servers")
    assert "ANTHROPIC_API_KEY" in ran.failure()
    assert place.states() == {}
    assert place.sql("SELECT COUNT(*) AS n FROM parse_runs") == [{"n": 0}]


def test_many_documents_and_failures_make_few_events_and_none_of_them_large(
    place: Place, sandbox: SandboxServer
) -> None:
    place.add("servers", documents(200, marked=150, mark="declined here"), concurrency=64)
    sandbox.faults([{"kind": "refusal", "times": None, "match": "declined here"}])
    unknown = [f"missing/{number:060d}" for number in range(500)]
    with orchestrating(place) as dagster:
        ran = dagster.launch("servers", tags={"extraction/documents": ",".join([*documents(200), *unknown])})
    assert ran.observed()["extractions"]["documents_failed"] == 150
    assert ran.entries < 60
    assert max(event_sizes(place, ran)) < 16_000


def event_sizes(place: Place, ran: Ran) -> list[int]:
    """Characters of every entry of a run in Dagster's event log, as stored."""
    with closing(sqlite3.connect(place.dagster_home / "history" / "runs" / f"{ran.run_id}.db")) as connection:
        return [size for (size,) in connection.execute("SELECT length(event) FROM event_logs")]
