"""``extraction-assets scan``, and what every command refuses before it begins."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from extraction_assets.collections import COMPONENT_TYPE
from resources.ledger import Ledger
from tests.cli.support import everything, run
from tests.factories import SCHEMA
from tests.ledger.support import rows
from tests.project_copy import PROJECT_ROOT, ProjectCopy

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_scan_registers_the_sample_documents_and_says_so(home: Path, ledger: Ledger) -> None:  # noqa: ARG001 - the place
    result = run("scan")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "invoices: 14 documents in 4 sets (14 new, 0 changed, 0 removed, 0 skipped); 4 new partitions",
        "servers: 26 documents in 8 sets (26 new, 0 changed, 0 removed, 0 skipped); 8 new partitions",
    ]
    assert len(rows(ledger, "documents")) == 40
    assert rows(ledger, "parse_runs") == rows(ledger, "attempts") == []


def test_scan_again_finds_nothing_new(ledger: Ledger) -> None:
    run("scan", "--collection", "invoices")
    before = everything(ledger)
    (again,) = json.loads(run("scan", "--collection", "invoices", "--json").stdout)
    assert again == {
        "collection": "invoices",
        "documents": 14,
        "new": 0,
        "changed": 0,
        "removed": 0,
        "sets": 4,
        "new_partitions": 0,
        "skipped": [],
    }
    assert everything(ledger) == before


@pytest.fixture
def awkward(tmp_path: Path) -> ProjectCopy:
    """A project with one more collection, whose folder holds two documents among much that is none."""
    project = ProjectCopy(tmp_path)
    collection = project.defs / "awkward"
    source = collection / "documents"
    (source / ".git").mkdir(parents=True)
    (source / "a").mkdir()
    for name in ("a/good.md", "ünïcode name.md", "notes.txt", ".git/config", "~$good.docx", "x.pdf.part", "Thumbs.db"):
        (source / name).write_text("Model: R1\n\nPrice USD: 1\n")
    os.mkfifo(source / "pipe.md")
    (source / "nowhere.md").symlink_to(source / "gone.md")
    (source / "outside.md").symlink_to(PROJECT_ROOT / "README.md")
    (source / "loop").symlink_to(source, target_is_directory=True)
    Path(os.fsdecode(os.fsencode(source) + b"/\xff.md")).write_text("x")
    attributes = {"source": "documents", "include": ["**/*.md"], "exclude": []}
    (collection / "schema.json").write_text(json.dumps(SCHEMA))
    (collection / "instructions.md").write_text("Extract.")
    (collection / "defs.yaml").write_text(yaml.safe_dump({"type": COMPONENT_TYPE, "attributes": attributes}))
    return project


SKIPPED = {
    ".git/config": "hidden file",
    "Thumbs.db": "system file",
    "loop": "link to a folder",
    "notes.txt": "matches no include pattern",
    "nowhere.md": "link that leads nowhere",
    "outside.md": "link that leads outside the source",
    "pipe.md": "not a regular file",
    "x.pdf.part": "unfinished transfer",
    "~$good.docx": "lock or resource file of an office program",
    "\ufffd.md": "name is not valid UTF-8",
}


def test_scan_counts_what_is_no_document_and_gives_each_a_reason(awkward: ProjectCopy) -> None:
    done = awkward.extraction_assets("scan", "--collection", "awkward", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    (scanned,) = json.loads(done.stdout)
    assert (scanned["documents"], scanned["new"], scanned["sets"]) == (2, 2, 2)
    assert {entry["file"]: entry["reason"] for entry in scanned["skipped"]} == SKIPPED


def test_scan_lists_what_was_skipped_for_people(awkward: ProjectCopy) -> None:
    done = awkward.extraction_assets("scan", "--collection", "awkward")
    first, *listed = done.stdout.splitlines()
    assert first == "awkward: 2 documents in 2 sets (2 new, 0 changed, 0 removed, 10 skipped); 2 new partitions"
    assert sorted(listed) == sorted(f"  skipped {key!r}: {reason}" for key, reason in SKIPPED.items())


def test_scan_of_a_folder_without_documents_is_nothing_to_do(awkward: ProjectCopy) -> None:
    source = awkward.defs / "awkward" / "documents"
    shutil.rmtree(source)
    source.mkdir()
    done = awkward.extraction_assets("scan", "--collection", "awkward")
    assert (done.returncode, done.stderr) == (3, "no documents found\n")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("command", [("scan",), ("sweep", "--dry-run")], ids=" ".join)
@pytest.mark.parametrize("value", [None, "", "dagster", "/no/such/folder"])
def test_a_dagster_that_is_not_told_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, value: str | None, command: Sequence[str]
) -> None:
    monkeypatch.delenv("DAGSTER_HOME")
    if value is not None:
        monkeypatch.setenv("DAGSTER_HOME", value)
    result = run(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: DAGSTER_HOME: is {value or ''!r}, not an absolute folder")
    assert "Set it to the folder that holds your dagster.yaml" in result.stderr


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "command",
    [("scan",), ("status",), ("sweep",), ("migrate",), ("retry", "--collection", "servers", "--documents", "a")],
    ids=lambda command: command[0],
)
def test_a_home_that_depends_on_the_working_directory_is_refused_by_every_command(
    monkeypatch: pytest.MonkeyPatch, command: Sequence[str]
) -> None:
    monkeypatch.setenv("EXTRACTION_HOME", "state")
    result = run(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: EXTRACTION_HOME: is the relative path 'state'")
    assert result.stderr.endswith("Give an absolute path.\n")


def test_a_home_that_cannot_be_made_is_wrong_use_and_no_traceback(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXTRACTION_HOME", str(home / "ledger.db" / "below"))
    result = run("status")
    assert (result.exit_code, result.stdout) == (2, "")
    assert str(home / "ledger.db") in result.stderr
    assert "Check that EXTRACTION_HOME" in result.stderr
