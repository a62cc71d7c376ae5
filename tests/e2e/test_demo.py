"""``make demo`` as a person runs it: from an empty home to correct files, through Dagster's backfill and daemon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from extraction_assets.collections import load_collections
from extraction_assets.sample_documents.catalogue import expected_values
from extraction_core.result_document import output_path

if TYPE_CHECKING:
    from collections.abc import Mapping

PROVIDER = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL")
OWN = ("DAGSTER_HOME", "EXTRACTION_LEDGER_URL")


def demo(home: Path) -> Mapping[str, Any]:
    """Run the demo in a home and return its last line."""
    variables = {name: value for name, value in os.environ.items() if name not in (*PROVIDER, *OWN)}
    ended = subprocess.run(
        [sys.executable, "-m", "extraction_assets.demo"],
        env={**variables, "EXTRACTION_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.timeout(900)
def test_the_demo_extracts_every_document_right_and_pays_once(tmp_path: Path) -> None:
    expected = expected_values()
    total = sum(len(documents) for documents in expected.values())

    told = demo(tmp_path)

    assert {name: told[name] for name in ("documents", "completed", "failed", "calls")} == {
        "documents": total,
        "completed": total,
        "failed": 0,
        "calls": total,
    }
    assert told["ledger_cost_usd"] == told["bill_usd"]
    schemas = {collection.name: collection.schema for collection in load_collections()}
    for collection, documents in expected.items():
        for key, values in documents.items():
            file = tmp_path / "outputs" / output_path(collection, key)
            assert json.loads(file.read_text(), parse_float=Decimal) == values, key
            assert jsonschema_rs.is_valid(schemas[collection], json.loads(file.read_text()), validate_formats=True)
