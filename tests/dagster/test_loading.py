"""Loading collections: a mistake is answered with file, field and remedy, whoever reads it, and before anything runs."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from extraction_assets.assets.document_set import build_document_set_assets
from extraction_assets.assets.keys import extractions_key
from extraction_assets.collections import COMPONENT_TYPE, load_collection, load_collections
from extraction_core.errors import ConfigurationError
from extraction_core.prompting import build_request
from tests.factories import SCHEMA
from tests.project_copy import BIN, PROJECT_ROOT, ProjectCopy

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUPING = "Expected: How documents are grouped"
FREE_KEYS: Mapping[str, Any] = {
    "type": "object",
    "required": ["prices"],
    "properties": {"prices": {"type": "object", "additionalProperties": {"type": "number"}}},
}


def write(root: Path, name: str = "contracts", **attributes: Any) -> Path:
    """Write a good collection; attributes that are None are left out. Returns its ``defs.yaml``."""
    folder = root / name
    (folder / "documents").mkdir(parents=True)
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    (folder / "instructions.md").write_text("Extract what is there.")
    values = {"source": "documents", **attributes}
    kept = {key: value for key, value in values.items() if value is not None}
    (folder / "defs.yaml").write_text(yaml.safe_dump({"type": COMPONENT_TYPE, "attributes": kept}))
    return folder / "defs.yaml"


def refusal(file: Path) -> ConfigurationError:
    """Load a collection that has a mistake. Returns the error, whose message holds every part of it."""
    with pytest.raises(ConfigurationError) as refused:
        load_collection(file)
    error = refused.value
    assert str(error) == f"{error.where}{f': {error.field}' if error.field else ''}: {error.problem} {error.remedy}"
    return error


@pytest.mark.parametrize(
    ("attributes", "field", "problem", "remedy"),
    [
        pytest.param({"speed": "high"}, "speed", "not permitted", "correct its name; the fields are", id="wrong field"),
        pytest.param({"mode": "slow"}, "mode", "'realtime' or 'batch'", "Use `mode: realtime` or", id="unknown mode"),
        pytest.param({"concurrency": "many"}, "concurrency", "integer", "Expected: Calls in flight", id="wrong type"),
        pytest.param({"max_attempts": 0}, "max_attempts", "greater than", "Expected: Calls per", id="out of range"),
        pytest.param({"max_cost_usd": 5.0}, "max_cost_usd", "string", "as a string", id="a float as money"),
        pytest.param({"max_cost_usd": "-5"}, "max_cost_usd", "positive amount", "as a string", id="negative money"),
        pytest.param({"source": None}, "source", "required", "Add `source`.", id="no source"),
        pytest.param({"source": "schema.json"}, "source", "is not a folder", "Create it", id="source not a folder"),
        pytest.param({"schema": "other.json"}, "schema", "does not exist", "Create the file", id="no schema"),
        pytest.param({"instructions": "no.md"}, "instructions", "does not exist", "Create", id="no instructions"),
    ],
)
def test_a_wrong_attribute_is_named_with_its_file_and_a_remedy(
    tmp_path: Path, attributes: Mapping[str, Any], field: str, problem: str, remedy: str
) -> None:
    file = write(tmp_path, **attributes)
    error = refusal(file)
    assert (str(file), f"attributes.{field}") == (error.where, error.field)
    assert problem in error.problem
    assert remedy in error.remedy


@pytest.mark.parametrize("partition_by", [{"hash": 0}, {"folders": 2}, {"directory": 1, "hash": 2}, "folder"])
def test_a_wrong_grouping_is_answered_with_what_groupings_there_are(tmp_path: Path, partition_by: object) -> None:
    error = refusal(write(tmp_path, partition_by=partition_by))
    assert (error.field or "").startswith("attributes.partition_by")
    assert error.remedy.startswith(GROUPING)


@pytest.mark.parametrize(
    ("content", "problem", "remedy"),
    [
        pytest.param("{", "is not JSON", "Correct the file.", id="not JSON"),
        pytest.param('{"type": "object", "type": "array"}', "'type' stands twice", "Correct", id="a key twice"),
        pytest.param('{"type": "objekt"}', "not valid JSON Schema 2020-12: $.type", "Correct the schema.", id="a type"),
        pytest.param("[]", "a schema is a JSON object", "Correct the schema.", id="not an object"),
    ],
)
def test_a_schema_that_cannot_be_used_is_named_with_its_own_file(
    tmp_path: Path, content: str, problem: str, remedy: str
) -> None:
    file = write(tmp_path)
    schema = file.with_name("schema.json")
    schema.write_text(content)
    error = refusal(file)
    assert str(schema) == error.where
    assert problem in error.problem
    assert remedy in error.remedy


@pytest.mark.parametrize(
    ("content", "field", "problem"),
    [
        pytest.param(b"attributes:\n  source: a\n  source: b\n", "line 3", "'source' stands twice", id="a key twice"),
        pytest.param(b"attributes: {source: a\n", "line 2", "expected", id="not YAML"),
        pytest.param(b"attributes:\n  source: {{ folder }}\n", "line 2", "unhashable key", id="a template"),
        pytest.param(b"attributes: \x07\n", "position 12", "special characters", id="a control character"),
        pytest.param(b"attributes: {source: \xe9}\n", None, "utf-8", id="not UTF-8"),
        pytest.param(b"- source\n", None, "is not a mapping", id="a list"),
        pytest.param(b"source: documents\n", "attributes", "is missing", id="no attributes"),
    ],
)
def test_a_defs_file_that_cannot_be_read_is_named_with_the_place_and_a_remedy(
    tmp_path: Path, content: bytes, field: str | None, problem: str
) -> None:
    file = write(tmp_path)
    file.write_bytes(content)
    error = refusal(file)
    assert (str(file), field) == (error.where, error.field)
    assert problem in error.problem
    assert error.remedy


@pytest.mark.parametrize("name", ["Contracts", "1st", "a-b", "a" * 41])
def test_a_folder_that_cannot_name_a_collection_is_refused(tmp_path: Path, name: str) -> None:
    error = refusal(write(tmp_path, name))
    assert f"the folder '{name}' cannot name a collection" in error.problem
    assert "lower-case letters" in error.remedy


def test_two_collections_of_one_name_are_refused_with_both_files(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a"), write(tmp_path / "b")
    with pytest.raises(ConfigurationError, match="Rename one of the two folders") as refused:
        load_collections(tmp_path)
    assert str(second) == refused.value.where
    assert str(first) in refused.value.problem


def test_one_mistake_is_found_among_good_collections(tmp_path: Path) -> None:
    write(tmp_path, "bills")
    wrong = write(tmp_path, "contracts", mode="slow")
    write(tmp_path, "servers")
    with pytest.raises(ConfigurationError, match="mode: realtime") as refused:
        load_collections(tmp_path)
    assert str(wrong) == refused.value.where


def test_a_component_of_another_kind_beside_the_collections_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "defs.yaml").write_text("type: dagster.DefsFolderComponent\n")
    assert ["contracts"] == [collection.name for collection in load_collections(tmp_path)]


def with_free_keys(root: Path) -> Path:
    """Write a collection whose schema is good, but more than structured outputs can enforce."""
    file = write(root)
    file.with_name("schema.json").write_text(json.dumps(FREE_KEYS))
    return file


def test_a_schema_beyond_structured_outputs_loads_and_says_what_stands_in_the_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = with_free_keys(tmp_path)
    with caplog.at_level(logging.WARNING):
        load_collection(file)
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{file}: schema: the provider cannot enforce it ($.prices is a map with")


def test_a_schema_within_structured_outputs_loads_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    load_collection(write(tmp_path))
    assert [] == caplog.records


def test_a_schema_beyond_structured_outputs_is_told_in_the_description_of_its_asset(tmp_path: Path) -> None:
    collection = load_collection(with_free_keys(tmp_path))
    spec = build_document_set_assets(collection).specs_by_key[extractions_key(collection.name)]
    assert "enforced here; the provider cannot ($.prices is a map with free keys" in (spec.description or "")


def test_a_schema_beyond_structured_outputs_is_asked_for_in_the_prompt_alone(tmp_path: Path) -> None:
    request = build_request(load_collection(with_free_keys(tmp_path)).question, "text")
    assert "output_config" not in request
    assert FREE_KEYS == json.loads(request["system"][0]["text"].partition("# JSON Schema\n\n")[2])


def test_a_schema_within_structured_outputs_is_enforced_by_the_provider_and_stands_in_the_prompt(
    tmp_path: Path,
) -> None:
    request = build_request(load_collection(write(tmp_path)).question, "text")
    assert list(SCHEMA["properties"]) == list(request["output_config"]["format"]["schema"]["properties"])
    assert SCHEMA == json.loads(request["system"][0]["text"].partition("# JSON Schema\n\n")[2])


def test_the_terminal_starts_without_dagster_and_without_the_providers_library() -> None:
    code = (
        "import sys, extraction_assets.cli\n"
        "print(*sorted(n for n in sys.modules if n.partition('.')[0].startswith(('dagster', 'anthropic'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT_ROOT)
    assert done.stdout.strip() == ""


def test_the_arrows_between_the_packages_hold() -> None:
    done = subprocess.run(
        [BIN / "lint-imports", "--no-cache"], capture_output=True, text=True, check=False, cwd=PROJECT_ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", [("dg", "check", "yaml"), ("dagster", "definitions", "validate")], ids=" ".join)
def test_a_mistake_fails_the_check_with_file_field_and_remedy(tmp_path: Path, command: tuple[str, ...]) -> None:
    project = ProjectCopy(tmp_path)
    # the first of the two collections: of several files of one type, `dg check yaml` looks at the last only
    file = project.defs / "invoices" / "defs.yaml"
    file.write_text(file.read_text().replace("mode: realtime", "mode: slow"))

    done = project.run(BIN / command[0], *command[1:])

    assert done.returncode != 0
    assert (
        f"{file}: attributes.mode: Input should be 'realtime' or 'batch'. Use `mode: realtime` or"
        in done.stdout + done.stderr
    )
