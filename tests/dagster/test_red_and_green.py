"""Red and green, as a webserver shows them.

With 0, 1, 50 and 100 of 100 documents failing, with no document at all, and with a good retry after each.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.dagster.support import PROJECT_ROOT, Orchestrator, Place, Ran, a_document, documents, orchestrating
from tests.webserver import Webserver, running_webserver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sandbox_server import SandboxServer

DOCUMENTS = 100
FAILING = (0, 1, 50, 100)
MARK = "declined here"
pytestmark = pytest.mark.timeout(300)

SHOWN = """
query($asset: AssetKeyInput!) { assetNodeOrError(assetKey: $asset) { ... on AssetNode {
  partitionStats { numPartitions numMaterialized numFailed numMaterializing }
  assetPartitionStatuses { ... on DefaultPartitionStatuses { materializedPartitions failedPartitions } }
  assetChecksOrError { ... on AssetChecks { checks {
    name
    partitionStatuses { ... on AssetCheckDefaultPartitionStatuses { succeededPartitions failedPartitions } }
    executionForLatestMaterialization { evaluation { severity success } }
  } } }
  assetMaterializations(limit: 1) { runId metadataEntries { ...values } }
  assetObservations(limit: 1) { runId metadataEntries { ...values } }
} } }
fragment values on MetadataEntry {
  label ... on IntMetadataEntry { intValue } ... on TextMetadataEntry { text }
  ... on TableMetadataEntry { table { records } }
}
"""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What the webserver shows of an asset after a run."""

    ran: Ran
    asset: dict[str, Any]

    @property
    def colour(self) -> str:
        """Green, red or neither, of the asset's only partition: by the counts and by the lists, which must agree."""
        stats, statuses = self.asset["partitionStats"], self.asset["assetPartitionStatuses"]
        counted = (stats["numMaterialized"], stats["numFailed"], stats["numMaterializing"])
        listed = (len(statuses["materializedPartitions"]), len(statuses["failedPartitions"]), 0)
        assert counted == listed
        assert stats["numPartitions"] == 1
        return {(1, 0, 0): "green", (0, 1, 0): "red", (0, 0, 0): "neither"}[counted]

    @property
    def checks(self) -> dict[str, bool]:
        """Check -> whether the partition passed."""
        found = {check["name"]: check["partitionStatuses"] for check in self.asset["assetChecksOrError"]["checks"]}
        assert all(len(one["succeededPartitions"]) + len(one["failedPartitions"]) == 1 for one in found.values())
        return {name: bool(one["succeededPartitions"]) for name, one in found.items()}

    @property
    def severities(self) -> set[str]:
        """The severities of the evaluations."""
        checks = self.asset["assetChecksOrError"]["checks"]
        return {check["executionForLatestMaterialization"]["evaluation"]["severity"] for check in checks}

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of what the run materialized or else observed: whole numbers, texts and tables."""
        events = self.asset["assetMaterializations"] + self.asset["assetObservations"]
        (event,) = [event for event in events if event["runId"] == self.ran.run_id]
        return {entry["label"]: _value(entry) for entry in event["metadataEntries"]}


class Stage:
    """Collections, Dagster and a webserver that all see one instance."""

    def __init__(self, place: Place, orchestrator: Orchestrator, webserver: Webserver, sandbox: SandboxServer) -> None:
        self.place, self.sandbox = place, sandbox
        self._orchestrator, self._webserver = orchestrator, webserver

    def run(self, collection: str, *, refuse: bool = False) -> Shown:
        """Run a collection's only set, while marked documents are declined or not, and look at its extractions."""
        self.sandbox.reset()
        if refuse:
            self.sandbox.faults([{"kind": "refusal", "times": None, "match": MARK}])
        ran = self._orchestrator.launch(collection)
        return Shown(ran=ran, asset=self.look(collection))

    def look(self, collection: str, asset: str = "extractions") -> dict[str, Any]:
        """Return what the webserver says of an asset."""
        return self._webserver.ask(SHOWN, asset={"path": [collection, asset]})["assetNodeOrError"]


@dataclass(frozen=True, kw_only=True)
class Story:
    """A set of which so many documents fail, and a good retry."""

    failing: int
    first: Shown
    retry: Shown


@pytest.fixture(scope="module")
def stage(
    tmp_path_factory: pytest.TempPathFactory, furnished: Place, sandbox_process: SandboxServer
) -> Iterator[Stage]:
    place = Place(tmp_path_factory.mktemp("place"), like=furnished)
    for failing in FAILING:
        place.add(f"failing_{failing}", documents(DOCUMENTS, marked=failing, mark=MARK), concurrency=64)
    place.add("tolerant", documents(DOCUMENTS, marked=50, mark=MARK), concurrency=64, fail_above=0.6)
    place.add("emptied", {"gone.txt": a_document(1)})
    place.add("tampered", documents(2))
    place.add("unreadable", {"bad.pdf": b"%PDF-1.7 cut off", "good.txt": a_document(1)})
    with ExitStack() as stack:
        monkeypatch = stack.enter_context(pytest.MonkeyPatch.context())
        place.enter(monkeypatch)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", sandbox_process.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
        orchestrator = stack.enter_context(orchestrating(place))
        webserver = stack.enter_context(
            running_webserver(
                "-m", "tests.dagster.location", "-d", str(PROJECT_ROOT),
                cwd=PROJECT_ROOT, variables=os.environ, log=place.root / "webserver.log",
            )
        )  # fmt: skip
        yield Stage(place, orchestrator, webserver, sandbox_process)


@pytest.fixture(scope="module", params=FAILING, ids="{}-of-100-failing".format)
def story(request: pytest.FixtureRequest, stage: Stage) -> Story:
    collection = f"failing_{request.param}"
    return Story(failing=request.param, first=stage.run(collection, refuse=True), retry=stage.run(collection))


def test_a_set_is_green_only_when_no_document_failed(story: Story) -> None:
    assert story.first.colour == ("red" if story.failing else "green")
    assert story.first.ran.succeeded is not bool(story.failing)


def test_the_check_of_completeness_fails_with_any_document_and_the_files_match_regardless(story: Story) -> None:
    assert story.first.checks == {"all_documents_extracted": not story.failing, "files_match_ledger": True}


def test_the_counts_add_up_to_the_request_count(story: Story) -> None:
    shown = story.first.metadata
    ended = {name: shown[f"{name}_count"] for name in ("completed", "failed", "cancelled")}
    assert ended == {"completed": DOCUMENTS - story.failing, "failed": story.failing, "cancelled": 0}
    assert shown["request_count"] + shown["unexpected_count"] == sum(ended.values()) == shown["documents"] == DOCUMENTS


def test_the_failures_are_listed_with_their_cause(story: Story) -> None:
    listed = story.first.metadata.get("failures", [])
    assert len(listed) == min(story.failing, len(listed))
    assert bool(listed) is bool(story.failing)
    assert {row["cause"] for row in listed} <= {"refused"}


def test_after_a_good_retry_the_set_is_green(story: Story) -> None:
    assert story.retry.colour == "green"
    assert story.retry.checks == {"all_documents_extracted": True, "files_match_ledger": True}
    assert story.retry.ran.succeeded


def test_a_retry_asks_for_the_failed_documents_only(story: Story) -> None:
    shown = story.retry.metadata
    if story.failing:
        assert shown["request_count"] == shown["completed_count"] == story.failing
    else:
        assert shown["result"] == "nothing_to_do"
    assert (shown["documents"], shown["documents_completed"]) == (DOCUMENTS, DOCUMENTS)


def test_half_the_documents_may_fail_where_the_collection_says_so_and_the_check_warns(stage: Stage) -> None:
    first = stage.run("tolerant", refuse=True)
    assert (first.colour, first.ran.succeeded) == ("green", True)
    assert first.checks == {"all_documents_extracted": False, "files_match_ledger": True}
    assert first.severities == {"WARN"}
    assert first.metadata["failed_count"] == 50
    retry = stage.run("tolerant")
    assert (retry.colour, retry.checks["all_documents_extracted"]) == ("green", True)


def test_an_empty_set_is_green_and_so_is_one_that_got_a_document(stage: Stage) -> None:
    path = stage.place.source("emptied") / "gone.txt"
    path.unlink()
    empty = stage.run("emptied")
    assert (empty.colour, empty.ran.succeeded, empty.metadata["documents"]) == ("green", True, 0)
    assert empty.checks == {"all_documents_extracted": True, "files_match_ledger": True}
    path.write_text(a_document(1))
    filled = stage.run("emptied")
    assert (filled.colour, filled.metadata["request_count"], filled.metadata["completed_count"]) == ("green", 1, 1)


def test_a_file_that_was_changed_by_hand_fails_the_check_of_files(stage: Stage) -> None:
    assert stage.run("tampered").checks["files_match_ledger"]
    (stage.place.home / "outputs" / "tampered" / "001.txt" / "extraction.json").write_text("{}\n")
    assert stage.run("tampered").checks == {"all_documents_extracted": True, "files_match_ledger": False}


def test_a_document_that_cannot_be_parsed_makes_both_assets_red_and_does_not_keep_the_others(stage: Stage) -> None:
    shown = stage.run("unreadable")
    parsed = Shown(ran=shown.ran, asset=stage.look("unreadable", "parsed_documents"))
    assert (shown.colour, parsed.colour) == ("red", "red")
    assert parsed.checks == {"all_documents_parsed": False}
    assert shown.metadata["documents_completed"] == shown.metadata["documents_failed"] == 1


def _value(entry: dict[str, Any]) -> Any:
    if "table" in entry:
        return [json.loads(record) for record in entry["table"]["records"]]
    return entry.get("intValue", entry.get("text"))
