"""A set whose documents a service parses: in flight for every door, and one run when all its jobs have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import dagster as dg
import pytest

from extraction_assets.components import DocumentCollection
from extraction_assets.dagster_look import sensors_of
from extraction_assets.jobs import build_extraction_job
from extraction_assets.sensor_targets import sensor_target
from extraction_assets.workers.orders import Order, Result
from extraction_core.states import Select
from resources.parsing import ReductoParseProvider
from sensors.parse_poller import build_parse_poller, parse_poller_name
from tests.dagster.support import Orchestrator
from tests.factories import COLLECTION, a_collection, some_files
from tests.reducto.support import LOOK, SUBMIT, ParsePlace
from tests.sensors.support import Watch, held_back, launched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.dagster.support import Place
    from tests.sandbox_server import SandboxServer


@pytest.fixture
def reducto(sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> SandboxServer:
    """The sandbox, and the environment that leads Reducto's SDK to it."""
    monkeypatch.setenv("REDUCTO_BASE_URL", sandbox.url)
    monkeypatch.setenv("REDUCTO_API_KEY", "parse-key")
    return sandbox


@pytest.fixture
def parsing(
    tmp_path: Path,
    database_url: str,
    reducto: SandboxServer,
    environment: None,  # noqa: ARG001 - read by the sensors
) -> Iterator[ParsePlace]:
    """A workplace whose documents are parsed by the service, where the sensors of this folder look."""
    with ParsePlace(tmp_path, database_url, reducto, ReductoParseProvider()) as opened:
        yield cast("ParsePlace", opened)


def tick(watch: Watch) -> list[str | None]:
    """Evaluate the parse poller; returns the partitions that it asks runs for."""
    sensor = build_parse_poller(watch.target, build_extraction_job(watch.target.collection))
    result = cast("dg.SensorResult", sensor(dg.build_sensor_context(instance=watch.instance)))
    return [request.partition_key for request in result.run_requests or []]


def test_a_set_at_the_service_is_in_flight_and_one_run_follows_its_last_job(
    parsing: ParsePlace, instance: dg.DagsterInstance
) -> None:
    collection = parsing.collection(some_files(2), parse="reducto")
    watch = Watch(parsing.books.ledger, instance, sensor_target(collection))
    parsing.sandbox.faults([{"kind": "job_status", "path": LOOK, "status": "Pending"}])
    assert parsing.run(collection, Order(select=Select.DUE)).result is Result.SUBMITTED
    (held,) = held_back(watch.sweep()).values()
    assert held.startswith("in flight: 2 parse jobs, the first of dell/r70")
    assert tick(watch) == []

    parsing.later(10)
    assert tick(watch) == []  # one job has ended, the other goes on
    assert sorted(row["job_state"] for row in parsing.books.parse_runs) == ["completed", "submitted"]
    parsing.later(60)
    (document_set,) = watch.ledger.documents.sets(COLLECTION)
    assert tick(watch) == [document_set.partition_key]
    assert tick(watch) == []
    assert launched(watch.sweep()) == []
    assert len(parsing.submits()) == 2

    assert parsing.run(collection, Order(select=Select.DUE)).result is Result.CLOSED
    watch.lease_runs_out()
    assert (tick(watch), launched(watch.sweep()), watch.due()) == ([], [], [])
    parsing.books.assert_settled()


def test_what_a_dead_launch_left_parsed_is_asked_for_again(parsing: ParsePlace, instance: dg.DagsterInstance) -> None:
    collection = parsing.one()
    watch = Watch(parsing.books.ledger, instance, sensor_target(collection))
    parsing.run(collection, Order(select=Select.DUE))
    parsing.later(10)
    assert len(tick(watch)) == 1
    watch.lease_runs_out()
    assert launched(watch.sweep()) == ["dell"]


def test_the_parse_poller_is_there_for_collections_that_use_it(tmp_path: Path) -> None:
    def names(**ways: str) -> set[str]:
        component = DocumentCollection(a_collection(tmp_path / "docs", **ways))
        return {one.name for one in component.build_defs(cast("dg.ComponentLoadContext", None)).sensors or []}

    assert names(parse="reducto") - names() == {parse_poller_name(COLLECTION)}
    assert names(parse="reducto") == names(scans="reducto") == set(sensors_of(COLLECTION, parses_by_jobs=True))


def test_a_dagster_run_that_submitted_is_green_and_materializes_nothing(
    place: Place, instance: dg.DagsterInstance, reducto: SandboxServer
) -> None:
    reducto.parse_seconds(None)
    place.add("scans", {"a.txt": "Model: R700\n\nPrice USD: 1000\n"}, parse="reducto")
    place.scan()
    ran = Orchestrator(instance).launch("scans")
    assert (ran.succeeded, ran.materialized(), ran.checks()) == (True, {}, {})
    observed = ran.observed()
    parsed, extracted = observed["parsed_documents"], observed["extractions"]
    assert (parsed["parse_jobs"], parsed["parse_jobs_open"], parsed["parse_pages_billed"]) == (1, 1, 0)
    assert (extracted["result"], extracted["held_by"]) == ("submitted", "1 parse jobs (a.txt)")


def test_a_key_that_the_service_refuses_makes_the_dagster_run_red_and_materializes_nothing(
    place: Place, instance: dg.DagsterInstance, reducto: SandboxServer
) -> None:
    reducto.faults([{"kind": "status", "status": 401, "path": SUBMIT}])
    place.add("scans", {"a.txt": "Model: R700\n\nPrice USD: 1000\n"}, parse="reducto")
    place.scan()
    ran = Orchestrator(instance).launch("scans", assets=["parsed_documents"])
    assert (ran.succeeded, ran.materialized(), set(ran.observed())) == (False, {}, {"parsed_documents"})
    assert "the parse service takes no job: HTTP 401" in ran.failure()
    assert place.sql("SELECT status FROM parse_runs") == [{"status": "queued"}]
