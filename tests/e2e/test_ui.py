"""What a person does in the UI, by the requests that its pages send: launch a set, watch it turn green, read an error."""

from __future__ import annotations

import json
import os
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from extraction_assets.collections import load_collection, load_collections
from extraction_assets.local import running_daemon
from extraction_assets.sample_documents.catalogue import expected_values
from extraction_assets.scanning import scan_collections
from extraction_core.errors import ConfigurationError
from extraction_core.partitions import partition_key
from extraction_core.result_document import output_path
from resources.environment import read_environment
from tests.dagster.support import PROJECT_ROOT, Place
from tests.project_copy import ProjectCopy
from tests.webserver import Webserver, running_webserver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.timeout(600)

LOCATION = {"repositoryLocationName": "document_extraction", "repositoryName": "__repository__"}
BY_ASSET, BY_BACKFILL = "server/hpe/synergy", "server/lenovo/thinkedge"
ASSETS = [["servers", "parsed_documents"], ["servers", "extractions"]]
LONGEST_RUN_S = 300.0
LOOK_EVERY_S = 0.5

SENSORS = """
query($location: RepositorySelector!) { sensorsOrError(repositorySelector: $location) {
  ... on Sensors { results { id name } } } }
"""
STOP_SENSOR = "mutation($id: String!) { stopSensor(id: $id) { __typename } }"
LAUNCH_RUN = """
mutation($params: ExecutionParams!) { launchRun(executionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } } }
"""
LAUNCH_BACKFILL = """
mutation($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
  __typename ... on LaunchBackfillSuccess { backfillId } } }
"""
RUNS = """
query($filter: RunsFilter!) { runsOrError(filter: $filter) { ... on Runs { results { runId status } } } }
"""
ASSET = """
query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode {
  partitionStats { numMaterialized numFailed }
  assetPartitionStatuses { ... on DefaultPartitionStatuses { materializedPartitions } }
} } }
"""
LOADING = """
{ workspaceOrError { ... on Workspace { locationEntries { locationOrLoadError {
  __typename ... on PythonError { message causes { message } } } } } } }
"""


@pytest.fixture
def place(tmp_path: Path, sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> Place:  # noqa: ARG001 - it leads the calls to itself
    """A place of its own, where the sample collections were scanned."""
    place = Place(tmp_path)
    place.enter(monkeypatch)
    scan_collections(load_collections(), read_environment())
    return place


@pytest.fixture
def ui(place: Place) -> Iterator[Webserver]:
    """The project's webserver with a daemon; the sensors are switched off, so that only the test launches."""
    log = place.root / "webserver.log"
    with running_webserver("-w", "workspace.yaml", cwd=PROJECT_ROOT, variables=os.environ, log=log) as ui:
        for sensor in ui.ask(SENSORS, location=LOCATION)["sensorsOrError"]["results"]:
            ui.ask(STOP_SENSOR, id=sensor["id"])
        with running_daemon(dict(os.environ), place.root / "daemon.log"):
            yield ui


def test_a_set_that_is_launched_in_the_ui_turns_green_and_its_files_are_right(
    place: Place, ui: Webserver, sandbox: SandboxServer
) -> None:
    materialize = {
        "selector": {**LOCATION, "pipelineName": "__ASSET_JOB", "assetSelection": [{"path": path} for path in ASSETS]},
        "mode": "default",
        "runConfigData": {},
        "executionMetadata": {"tags": [{"key": "dagster/partition", "value": partition_key(BY_ASSET)}]},
    }
    launched = ui.ask(LAUNCH_RUN, params=materialize)["launchRun"]
    backfill = {
        "selector": {"repositorySelector": LOCATION, "partitionSetName": "servers_extraction_partition_set"},
        "partitionNames": [partition_key(BY_BACKFILL)],
    }
    filled = ui.ask(LAUNCH_BACKFILL, params=backfill)["launchPartitionBackfill"]

    ended = wait_until_ended(ui, runIds=[launched["run"]["runId"]])
    ended += wait_until_ended(ui, tags=[{"key": "dagster/backfill", "value": filled["backfillId"]}])

    assert ended == ["SUCCESS", "SUCCESS"], (place.root / "daemon.log").read_text()
    for path in ASSETS:
        shown = ui.ask(ASSET, key={"path": path})["assetNodeOrError"]
        assert shown["partitionStats"] == {"numMaterialized": 2, "numFailed": 0}
        green = set(shown["assetPartitionStatuses"]["materializedPartitions"])
        assert green == {partition_key(BY_ASSET), partition_key(BY_BACKFILL)}
    expected = {
        key: values for key, values in expected_values()["servers"].items() if key.startswith((BY_ASSET, BY_BACKFILL))
    }
    written = {key: place.home / "outputs" / output_path("servers", key) for key in expected}
    assert {key: json.loads(file.read_text(), parse_float=Decimal) for key, file in written.items()} == expected
    assert len(sandbox.requests()) == len(expected)


def test_a_mistake_in_a_collection_is_shown_with_the_words_of_the_terminal(tmp_path: Path) -> None:
    project = ProjectCopy(tmp_path)
    file = project.defs / "invoices" / "defs.yaml"
    file.write_text(file.read_text().replace("mode: realtime", "mode: slow"))
    with pytest.raises(ConfigurationError) as caught:
        load_collection(file)
    variables = {**os.environ, "PYTHONPATH": str(project.root), "DAGSTER_HOME": str(project.dagster_home)}
    log = tmp_path / "webserver.log"
    with running_webserver("-w", "workspace.yaml", cwd=project.root, variables=variables, log=log) as ui:
        (entry,) = ui.ask(LOADING)["workspaceOrError"]["locationEntries"]
    shown = entry["locationOrLoadError"]
    assert shown["__typename"] == "PythonError"
    assert str(caught.value) in "\n".join(error["message"] for error in [shown, *shown["causes"]])


def wait_until_ended(ui: Webserver, **runs: Any) -> list[str]:
    """Wait until there are such runs and all of them have ended. Returns their statuses."""
    deadline = time.monotonic() + LONGEST_RUN_S
    while time.monotonic() < deadline:
        found = ui.ask(RUNS, filter=runs)["runsOrError"]["results"]
        statuses = [run["status"] for run in found]
        if statuses and {"SUCCESS", "FAILURE", "CANCELED"}.issuperset(statuses):
            return statuses
        time.sleep(LOOK_EVERY_S)
    message = f"not ended within {LONGEST_RUN_S:g} s: {found}"
    raise TimeoutError(message)
