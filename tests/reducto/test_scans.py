"""`scans: reducto`: what has no text that can be read here goes to the service, and nothing else does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extraction_assets.workers.orders import Result
from tests.parsing.documents import pdf, scan
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from tests.reducto.support import ParsePlace

NOT_TEXT = b"\x93\x8c\x8b\x9e"
"""The only bytes of such a file that are no text: the sandbox, which reads nothing else, then takes it for one."""


@ON_ONE_DATABASE
def test_a_scan_is_parsed_by_the_service_and_its_neighbour_here(place: ParsePlace) -> None:
    picture = scan("Model: R701").replace(NOT_TEXT, b"    ")
    files = {"dell/text.pdf": pdf(["Model: R700", "Price USD: 1000"]), "dell/scan.pdf": picture}
    collection = place.collection(files, scans="reducto")
    report = place.run(collection)
    assert (report.result, report.reason) == (Result.SUBMITTED, "1 parse jobs (dell/scan.pdf)")
    assert place.books.statuses() == {"completed": 1}

    place.later(10)
    assert place.look() == ["completed, 1 pages"]
    assert place.run(collection).result is Result.CLOSED
    found = {row["document_key"]: (row["provider"], row["status"], row["reason"]) for row in place.books.parse_runs}
    assert found["dell/text.pdf"] == ("local", "completed", None)
    assert found["dell/scan.pdf"] == ("reducto", "completed", None)
    assert len(place.sandbox.parse_jobs()["jobs"]) == 1
    assert place.books.result("scan.pdf")["parse_run_id"] == max(row["parse_run_id"] for row in place.books.parse_runs)
