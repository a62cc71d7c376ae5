"""A way for scans that is not set up is a mistake in the collection, told when it is loaded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from extraction_assets.collections import load_collection
from extraction_core.errors import ConfigurationError
from tests.parsing.documents import scan
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.workplace import Workplace


def write(folder: Path, **attributes: Any) -> Path:
    """Write a collection and return its ``defs.yaml``."""
    folder = folder / "contracts"
    (folder / "documents").mkdir(parents=True)
    (folder / "schema.json").write_text(json.dumps({"type": "object"}))
    (folder / "instructions.md").write_text("Extract.")
    file = folder / "defs.yaml"
    component = "extraction_assets.components.DocumentCollection"
    file.write_text(yaml.safe_dump({"type": component, "attributes": {"source": "documents", **attributes}}))
    return file


def test_ocr_without_its_data_is_refused_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    with pytest.raises(
        ConfigurationError, match=r"attributes\.scans: ocr is not set up: .*no OCR data.*tesseract-ocr-eng"
    ):
        load_collection(write(tmp_path, scans="ocr"))


def test_ocr_with_its_data_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "eng.traineddata").touch()
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    assert load_collection(write(tmp_path, scans="ocr")).settings.scans == "ocr"


def test_reducto_without_a_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDUCTO_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=r"attributes\.scans: reducto is not set up: REDUCTO_API_KEY"):
        load_collection(write(tmp_path, scans="reducto"))


@ON_ONE_DATABASE
def test_a_scan_is_recognised_where_the_collection_wants_that(workplace: Workplace) -> None:
    workplace.run(workplace.collection({"dell/scan.pdf": scan("Model: R770", "Price USD: 1000")}, scans="ocr"))
    assert json.loads(workplace.books.output("scan.pdf").read_bytes()) == {"model": "R770", "price_usd": 1000}
    local, ocr = workplace.books.parse_runs
    assert (local["reason"], ocr["warnings"]) == ("no_text_layer", ["recognised:1", "recognised:2"])


@pytest.mark.parametrize(
    "attributes",
    [
        {"parse": "document_block", "unit": "directory"},
        {"scans": "document_block", "unit": {"directory": 2}},
        {"scans": "document_block", "parse": "document_block"},
    ],
)
def test_ways_that_do_not_go_together_are_refused(tmp_path: Path, attributes: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"attributes\.(parse|scans)"):
        load_collection(write(tmp_path, **attributes))
