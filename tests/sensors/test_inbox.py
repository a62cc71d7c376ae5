"""The inbox: new, changed and removed documents, seen by name and stat data alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from extraction_assets.collections import load_collections
from extraction_assets.partitions import add_document_sets
from extraction_assets.sensor_targets import sensor_target
from extraction_assets.workers.orders import Order
from extraction_core.errors import ConfigurationError
from extraction_core.partitions import partition_key
from extraction_core.states import Select
from resources.ledger.documents import Registration
from sensors.document_inbox import look_at_source
from tests.core.handed_cases import NAMES, needs_cases
from tests.dagster.support import a_document
from tests.factories import a_collection, a_run, ask, claim_one, complete, some_files
from tests.ledger.support import in_background, only_sqlite, rows
from tests.sensors.support import PARTITION_TAG, PROJECT_ROOT, Watch, held_back, launched, opened_below

if TYPE_CHECKING:
    from pathlib import Path

    import dagster as dg

    from extraction_core.failpoints import Failpoint
    from resources.ledger import Ledger
    from tests.conftest import MakeLedger
    from tests.dagster.support import Place
    from tests.sandbox_server import SandboxServer
    from tests.workplace import Workplace

SETTLE_S = 30.0
LONGEST_NAME = 255
"""Bytes of a name that a file system holds."""
KEY_SHAPE = re.compile(r"[a-z0-9-]{1,50}")


@pytest.fixture
def docs(watch: Watch) -> Path:
    """The source: three documents in one folder, changed long ago."""
    a_collection(watch.folder / "docs", some_files(3))
    return watch.folder / "docs"


def look(watch: Watch, *, settle_s: float = 0.0, seconds_on: float = 0.0) -> Registration:
    """Look at the source, as if so many seconds later."""
    return look_at_source(watch.ledger, watch.target, settle_s=settle_s, now=lambda: time.time() + seconds_on)


def changes(registration: Registration) -> tuple[int, int, int]:
    """Return how many documents are new, changed and removed."""
    return registration.new, registration.changed, registration.removed


def known(watch: Watch) -> dict[str, bool]:
    """Return document key -> whether it is present."""
    return {row["document_key"]: row["removed_ms"] is None for row in rows(watch.ledger, "documents")}


def due(watch: Watch) -> set[str]:
    """Return the keys of documents that are marked due."""
    return {row["document_key"] for row in rows(watch.ledger, "documents", "due_since_ms IS NOT NULL")}


def extracted(watch: Watch) -> None:
    """Let one run have extracted everything that is there."""
    (document_set,) = watch.ledger.documents.sets(watch.target.collection.name)
    ask(watch.ledger, document_set, "q")
    run_id = a_run(watch.ledger, document_set)
    for _ in range(watch.active()):
        complete(watch.ledger, claim_one(watch.ledger, run_id))
    watch.ledger.finalize(run_id)


def test_new_changed_and_removed_documents_are_found(watch: Watch, docs: Path) -> None:
    assert changes(look(watch)) == (3, 0, 0)
    assert due(watch) == {"dell/r700.md", "dell/r701.md", "dell/r702.md"}
    extracted(watch)
    assert (changes(look(watch)), due(watch)) == ((0, 0, 0), set())
    (docs / "dell" / "r700.md").write_text("Model: R700\n\nPrice USD: 7\n")
    (docs / "dell" / "r701.md").unlink()
    (docs / "dell" / "r799.md").write_text("Model: R799\n\nPrice USD: 9\n")
    assert changes(look(watch)) == (1, 1, 1)
    assert due(watch) == {"dell/r700.md", "dell/r799.md"}


def test_a_removed_document_leaves_what_is_pending_and_keeps_its_result(watch: Watch, docs: Path) -> None:
    look(watch)
    extracted(watch)
    before = rows(watch.ledger, "extraction_results")
    for path in (docs / "dell").iterdir():
        path.unlink()
    assert changes(look(watch)) == (0, 0, 3)
    assert launched(watch.sweep()) == []
    (row,) = watch.ledger.reports.sets(watch.target.collection.name)
    assert (row["documents"], row["pending"]) == (0, 0)
    assert rows(watch.ledger, "extraction_results") == before


def test_a_removed_document_that_was_never_asked_for_is_not_launched_and_is_when_it_is_back(
    watch: Watch, docs: Path
) -> None:
    look(watch)
    (docs / "dell").rename(docs.parent / "away")
    look(watch)
    assert launched(watch.sweep()) == []
    (docs.parent / "away").rename(docs / "dell")
    assert changes(look(watch))[0] == 3
    assert launched(watch.sweep()) == ["dell"]


def test_a_file_that_is_still_being_written_waits_until_it_has_settled(watch: Watch, docs: Path) -> None:
    assert changes(look(watch, settle_s=SETTLE_S)) == (0, 0, 0)
    assert launched(watch.sweep()) == []
    assert changes(look(watch, settle_s=SETTLE_S, seconds_on=SETTLE_S + 1)) == (3, 0, 0)
    with (docs / "dell" / "r700.md").open("a") as slow:  # the next piece moves its time on
        slow.write("\nTotal due: 510.10 EUR\n")
    before = rows(watch.ledger, "documents")
    assert changes(look(watch, settle_s=SETTLE_S)) == (0, 0, 0)
    assert rows(watch.ledger, "documents") == before
    assert changes(look(watch, settle_s=SETTLE_S, seconds_on=SETTLE_S + 1)) == (0, 1, 0)


def test_a_file_that_was_changed_in_the_future_does_not_wait_for_it(watch: Watch, docs: Path) -> None:
    ahead = time.time() + 86_400
    for path in (docs / "dell").iterdir():
        os.utime(path, (ahead, ahead))
    assert changes(look(watch, settle_s=SETTLE_S)) == (3, 0, 0)


def test_unfinished_transfers_and_files_of_the_system_are_no_documents(watch: Watch, docs: Path) -> None:
    names = ("a.pdf.part", "b.docx.tmp", "c.crdownload", "~$d.docx", "._e.txt", ".hidden.txt", "Thumbs.db", ".DS_Store")
    for name in names:
        (docs / "dell" / name).write_text("no document")
    assert changes(look(watch)) == (3, 0, 0)
    (docs / "dell" / "a.pdf.part").rename(docs / "dell" / "a.pdf")
    assert changes(look(watch)) == (1, 0, 0)


def test_a_thousand_new_files_in_one_folder_are_one_launch(watch: Watch) -> None:
    a_collection(watch.folder / "docs", {f"dell/{number:04d}.txt": f"Model: R{number}" for number in range(1000)})
    assert changes(look(watch)) == (1000, 0, 0)
    assert launched(watch.sweep()) == ["dell"]


def test_a_source_that_is_gone_is_an_error_that_removes_nothing(watch: Watch, docs: Path) -> None:
    look(watch)
    before = rows(watch.ledger, "documents")
    docs.rename(docs.parent / "elsewhere")
    with pytest.raises(ConfigurationError, match="is not a folder"):
        look(watch)
    docs.write_text("a file in its place")
    with pytest.raises(ConfigurationError, match="is not a folder"):
        look(watch)
    assert rows(watch.ledger, "documents") == before


def test_a_document_that_cannot_be_looked_at_is_left_as_it_was(watch: Watch, docs: Path) -> None:
    look(watch)
    before = rows(watch.ledger, "documents")
    path = docs / "dell" / "r700.md"
    path.unlink()
    path.symlink_to(path)  # to look at it fails: too many levels of links
    assert changes(look(watch)) == (0, 0, 0)
    assert rows(watch.ledger, "documents") == before


def test_links_and_dots_never_lead_outside_the_source(watch: Watch, docs: Path) -> None:
    outside = docs.parent / "secret"
    outside.mkdir()
    (outside / "secret.txt").write_text("Model: S1")
    (docs / "dell" / "out.txt").symlink_to(outside / "secret.txt")
    (docs / "dell" / "dots.txt").symlink_to("../../secret/secret.txt")
    (docs / "dell" / "nowhere.txt").symlink_to("no-such-file.txt")
    (docs / "folder").symlink_to(outside)
    (docs / "loop").symlink_to(docs)
    (docs / "dell" / "inside.md").symlink_to(docs / "dell" / "r700.md")
    look(watch)
    assert set(known(watch)) == {"dell/inside.md", "dell/r700.md", "dell/r701.md", "dell/r702.md"}


def test_unchanged_files_are_not_opened_and_nothing_is_written(
    watch: Watch, docs: Path, make_ledger: MakeLedger
) -> None:
    for folder in ("a", "b"):
        a_collection(docs, {f"{folder}/{number:04d}.txt": f"Model: R{number}" for number in range(1000)})
    look(watch)
    before = rows(watch.ledger, "documents"), rows(watch.ledger, "document_sets")
    commits: list[Failpoint] = []
    ledger = make_ledger(commits.append)
    with opened_below(docs) as opened:
        registration = look_at_source(ledger, watch.target, settle_s=0.0)
    assert (changes(registration), opened, commits) == ((0, 0, 0), [], [])
    assert (rows(watch.ledger, "documents"), rows(watch.ledger, "document_sets")) == before


def test_a_document_that_changes_while_it_is_in_flight_is_extracted_anew_as_soon_as_its_row_has_ended(
    workplace: Workplace, sandbox: SandboxServer, instance: dg.DagsterInstance
) -> None:
    collection = workplace.collection(some_files(2))
    watch = Watch(workplace.books.ledger, instance, sensor_target(collection))
    sandbox.hold("call", match="R700")
    with in_background(lambda: workplace.run(collection)) as running:
        sandbox.wait_until_held("call")
        (workplace.source / "dell" / "r700.md").write_text("Model: R700\n\nPrice USD: 77\n")
        assert changes(look(watch)) == (0, 1, 0)
        assert "in flight: live worker" in held_back(watch.sweep())["dell"]
        sandbox.release("call")
        running.result()
    assert '"price_usd":1000' in workplace.books.output("r700.md").read_text().replace(" ", "")
    assert launched(watch.sweep()) == ["dell"]
    workplace.run(collection, Order(select=Select.DUE))
    assert '"price_usd":77' in workplace.books.output("r700.md").read_text().replace(" ", "")
    assert [row["status"] for row in workplace.books.results if row["document_key"] == "dell/r700.md"] == [
        "completed"
    ] * 2
    assert len(workplace.calls()) == 3
    assert launched(watch.sweep()) == []


def test_equal_content_under_two_names_is_two_documents_parsed_once(workplace: Workplace) -> None:
    text = "Model: R1\n\nPrice USD: 5\n"
    workplace.run(workplace.collection({"dell/a.txt": text, "dell/b.txt": text}))
    assert [row["document_key"] for row in workplace.books.results] == ["dell/a.txt", "dell/b.txt"]
    assert (len(workplace.books.parse_runs), len(workplace.calls()), len(workplace.books.files())) == (1, 2, 2)


@needs_cases
@only_sqlite
def test_folders_with_awkward_names_are_sets_that_the_command_line_of_dagster_can_select(
    ledger: Ledger, instance: dg.DagsterInstance, place: Place
) -> None:
    names = json.loads((NAMES / "partition-keys.json").read_text(encoding="utf-8"))
    folders = [name for name in names if name and "/" not in name and len(name.encode()) <= LONGEST_NAME]
    files = {f"{folder}/a.txt": a_document(number) for number, folder in enumerate(folders)}
    place.add("servers", files, partition_by={"directory": 1})
    watch = Watch(ledger, instance, sensor_target(load_collections(place.collections)[0]))
    keys = {found.folder: found.partition_key for found in look(watch).sets}
    assert keys == {folder: partition_key(folder) for folder in folders}
    assert all(KEY_SHAPE.fullmatch(key) for key in keys.values())
    assert len(set(keys.values())) == len(folders)
    add_document_sets(instance, "servers", list(keys.values()))
    left_out, *selected = folders
    command = [sys.executable, "-m", "dagster", "job", "backfill", "-m", "tests.dagster.location"]
    command += [
        "-j",
        watch.target.job_name,
        "--noprompt",
        "--partitions",
        ",".join(keys[folder] for folder in selected),
    ]
    ended = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert {run.tags[PARTITION_TAG] for run in watch.runs()} == {keys[folder] for folder in selected}
    assert launched(watch.sweep()) == [left_out]
