"""A document of which only some pages are scans: another way for it, where its collection has one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.parsing.documents import fax
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from tests.workplace import Workplace

MIXED = {"dell/fax.pdf": fax("Fax 12/03/2026 14:05, page 1 of 2", "Model: R770", "Price USD: 1000")}


@ON_ONE_DATABASE
def test_a_document_with_a_scanned_page_goes_the_way_of_scans(workplace: Workplace) -> None:
    workplace.run(workplace.collection(MIXED, scans="ocr"))
    local, ocr = workplace.books.parse_runs
    assert (local["status"], local["warnings"]) == ("completed", ["little_text_on_scan:1"])
    assert (ocr["provider"], ocr["warnings"]) == ("ocr", ["recognised:1"])
    assert json.loads(workplace.books.output("fax.pdf").read_bytes()) == {"model": "R770", "price_usd": 1000}
    assert len(workplace.calls()) == 1
