"""The inbox where a folder is one document."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from extraction_assets.sensor_targets import sensor_target
from sensors.document_inbox import look_at_source
from tests.factories import a_collection
from tests.ledger.support import only_sqlite, rows

if TYPE_CHECKING:
    from pathlib import Path

    from resources.ledger import Ledger
    from resources.ledger.documents import Registration
    from sensors.target import SensorTarget

pytestmark = only_sqlite
OLD_S, SETTLE_S = 1000.0, 30.0
FILES = {
    "dell/r770/spec.txt": "Model: R770",
    "dell/r770/price.txt": "1000",
    "dell/r660/spec.txt": "R660",
    "loose.txt": "x",
}


@pytest.fixture
def target(tmp_path: Path) -> SensorTarget:
    collection = a_collection(tmp_path / "docs", FILES, unit={"directory": 2})
    for path in (tmp_path / "docs").rglob("*.txt"):
        os.utime(path, (time.time() - OLD_S,) * 2)
    return sensor_target(collection)


def look(ledger: Ledger, target: SensorTarget) -> Registration:
    return look_at_source(ledger, target, settle_s=SETTLE_S)


def due(ledger: Ledger) -> set[str]:
    return {row["document_key"] for row in rows(ledger, "documents", "due_since_ms IS NOT NULL")}


def test_a_folder_is_registered_under_its_path_in_the_set_of_the_folder_above(
    ledger: Ledger, target: SensorTarget
) -> None:
    registration = look(ledger, target)
    assert [item.folder for item in registration.sets] == ["dell"]
    assert due(ledger) == {"dell/r770", "dell/r660"}
    assert look(ledger, target).changed == 0


@pytest.mark.parametrize("change", ["changed", "added", "removed"])
def test_any_change_in_a_folder_is_seen_once_it_has_settled(
    ledger: Ledger, target: SensorTarget, tmp_path: Path, change: str
) -> None:
    look(ledger, target)
    price = tmp_path / "docs/dell/r770" / ("more.txt" if change == "added" else "price.txt")
    if change == "removed":
        price.unlink()
    else:
        price.write_text("2000")
        assert look(ledger, target).changed == 0, "it may still be being written"
        os.utime(price, (time.time() - OLD_S + 1,) * 2)
    registration = look(ledger, target)
    assert (registration.new, registration.changed, registration.removed) == (0, 1, 0)


def test_a_folder_that_is_gone_is_removed(ledger: Ledger, target: SensorTarget, tmp_path: Path) -> None:
    look(ledger, target)
    (tmp_path / "docs/dell/r660/spec.txt").unlink()
    assert look(ledger, target).removed == 1
