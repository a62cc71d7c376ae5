"""What came out badly of a document stands in its parse run and in the metadata of its set's parsing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extraction_assets.assets.outcome import parse_metadata
from extraction_assets.workers.orders import Order
from tests.factories import some_files
from tests.parsing.documents import pdf

if TYPE_CHECKING:
    from tests.workplace import Workplace

HALF = {"dell/half.pdf": pdf(["Model: R700", "Price USD: 1000"], [])}
"""The second page yields nothing."""


def test_flaws_are_counted_and_named_beside_what_was_parsed(workplace: Workplace) -> None:
    collection = workplace.collection({**some_files(1), **HALF})
    workplace.run(collection, Order(extract=False))
    tools = workplace.tools()
    (document_set,) = tools.ledger.documents.sets(collection.name)
    metadata = parse_metadata(tools, document_set)
    tools.close()
    assert (metadata["parsed"], metadata["failed"], metadata["with_warnings"]) == (2, 0, 1)
    assert [record.data for record in metadata["warnings"].records] == [
        {"document": "dell/half.pdf", "warnings": "page_without_text:2"}
    ]
