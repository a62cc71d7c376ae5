"""Whatever happens on the way: one job, one parse, one cost."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from extraction_assets.workers.orders import Order, Result
from tests.reducto.support import LOOK, LONG_S, SUBMIT, pages

if TYPE_CHECKING:
    from tests.reducto.support import ParsePlace


def test_a_set_is_submitted_left_parsed_and_then_extracted(place: ParsePlace) -> None:
    text = pages("# R700\n\nModel: R700", "Price USD: 1000", "The end.")
    collection = place.collection({"dell/r700.md": text}, parse="reducto")
    report = place.run(collection)
    assert (report.result, report.run) == (Result.SUBMITTED, None)
    assert report.reason == "1 parse jobs (dell/r700.md)"
    assert place.job["job_state"] == "submitted"
    assert place.calls() == []

    place.later(10)
    assert place.look() == ["completed, 3 pages"]
    report = place.run(collection)
    assert report.result is Result.CLOSED
    assert json.loads(place.books.output("r700.md").read_bytes())["output"] == {"model": "R700", "price_usd": 1000}
    place.assert_one_of_each("3.3")
    assert place.job["job_credits"] == Decimal("3.3")
    assert len(place.submits()) == 1
    place.books.assert_settled()
