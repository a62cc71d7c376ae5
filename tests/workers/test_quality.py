"""A document whose text came out badly: shown, or failed before it is asked about, as its collection wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extraction_core.causes import REMEDIES_FOR_A_PERSON
from tests.factories import some_files
from tests.parsing.documents import pdf
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from tests.workplace import Workplace

pytestmark = ON_ONE_DATABASE
BAD = {"dell/half.pdf": pdf(["Model: R700", "Price USD: 1000"], [])}
"""The second page yields nothing."""


def test_a_flaw_fails_the_document_before_any_call_where_the_collection_wants_that(workplace: Workplace) -> None:
    workplace.run(workplace.collection({**some_files(1), **BAD}, quality={"little_text": "fail"}))
    row = workplace.books.result("half.pdf")
    assert (row["status"], row["reason"]) == ("failed", "poor_quality")
    assert row["message"] == "little_text: page_without_text:2"
    assert "quality: warn" in REMEDIES_FOR_A_PERSON[row["reason"]]
    assert workplace.books.statuses() == {"completed": 1, "failed": 1}
    assert len(workplace.calls()) == 1


def test_a_stricter_or_milder_policy_parses_nothing_again_and_asks_nothing_again(workplace: Workplace) -> None:
    workplace.run(workplace.collection(BAD, quality="fail"))
    workplace.run(workplace.collection(BAD))
    workplace.run(workplace.collection(BAD, quality="fail"))
    assert [row["status"] for row in workplace.books.results] == ["failed", "completed"]
    assert len(workplace.books.parse_runs) == len(workplace.calls()) == 1
