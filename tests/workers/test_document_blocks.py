"""Files that are shown to the model as they are: no local text, the limits kept before any call, the bill right."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from extraction_assets.workers.asking import Asking, Ready
from extraction_core.prompting import DocumentBlock, Question
from tests.factories import MODEL, SCHEMA
from tests.mails import a_mail
from tests.parsing.documents import pdf, picture, scan
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from tests.workplace import Workplace

OFFER = pdf(["Model: R770", "Price USD: 1000"])
TEXT = "Model: R1\nPrice USD: 1\n"
ANYTHING = {"type": "object", "properties": {"model": {"type": "string"}}, "additionalProperties": False}
SMALL_CONTEXT = "claude-haiku-4-5"
FIRST_TRY = {"reason": None, "message": None}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def shown(base64: str = "AAAA", pages: int = 1, media_type: str = "application/pdf", model: str = MODEL) -> Ready:
    """The request that shows such a file."""
    question = Question(
        model=model, instructions="Extract.", schema=SCHEMA, enforced_schema=None, max_output_tokens=1000
    )
    return Asking(question, FIRST_TRY).build(DocumentBlock(media_type=media_type, base64=base64, pages=pages))


@ON_ONE_DATABASE
@pytest.mark.parametrize("mode", ["realtime", "batch"])
def test_a_pdf_goes_to_the_model_as_it_is(workplace: Workplace, mode: str) -> None:
    collection = workplace.collection(
        {"dell/offer.pdf": OFFER, "dell/note.txt": TEXT}, parse="document_block", mode=mode
    )
    workplace.run(collection)
    if mode == "batch":
        workplace.finish(collection)
    books = workplace.books
    assert json.loads(books.output("offer.pdf").read_bytes()) == {"model": "R770", "price_usd": 1000}
    assert books.statuses() == {"completed": 2}
    assert {row["document_key"]: row["characters"] for row in books.parse_runs} == {
        "dell/offer.pdf": 0, "dell/note.txt": len(TEXT.strip()),
    }  # fmt: skip
    asked = workplace.calls() if mode == "realtime" else workplace.sandbox.batches()[0]["requests"]
    assert sha256(OFFER) in {request["document_sha256"] for request in asked}
    assert books.known_cost == workplace.sandbox.billed_usd
    assert all(row["cost_usd"] <= row["reserved_usd"] for row in books.attempts)
    books.assert_settled()


@ON_ONE_DATABASE
def test_a_picture_goes_to_the_model_and_one_that_it_cannot_take_fails_before_any_call(workplace: Workplace) -> None:
    photo = picture("Model: R770")
    files = {"dell/good.png": photo, "dell/wide.png": picture(size=(8001, 1)), "dell/old.tif": picture("", "TIFF")}
    workplace.run(workplace.collection(files, parse="document_block", schema=ANYTHING))
    books = workplace.books
    assert {row["document_key"]: row["reason"] for row in books.results} == {
        "dell/good.png": None, "dell/wide.png": "limit", "dell/old.tif": "unsupported",
    }  # fmt: skip
    assert [call["document_sha256"] for call in workplace.calls()] == [sha256(photo)]


@ON_ONE_DATABASE
def test_a_pdf_with_too_many_pages_fails_before_any_call_with_both_numbers(workplace: Workplace) -> None:
    files = {"dell/long.pdf": pdf(*[["Model: R770"]] * 101)}
    workplace.run(workplace.collection(files, parse="document_block", model=SMALL_CONTEXT))
    row = workplace.books.result("long.pdf")
    assert (row["reason"], row["message"]) == (
        "too_long", f"too long: 101 pages, limit 100 pages a request with {SMALL_CONTEXT}",
    )  # fmt: skip
    assert workplace.calls() == []


@ON_ONE_DATABASE
def test_a_scan_alone_is_shown_where_the_collection_wants_that(workplace: Workplace) -> None:
    page = scan("Model: R770")
    files = {"dell/scan.pdf": page, "dell/offer.pdf": OFFER, "dell/note.txt": TEXT}
    workplace.run(workplace.collection(files, schema=ANYTHING))
    assert workplace.books.result("scan.pdf")["reason"] == "no_text_layer"
    assert len(workplace.calls()) == 2
    new = scan("Model: R2")
    collection = workplace.collection({"dell/new.pdf": new}, schema=ANYTHING, scans="document_block")
    workplace.run(collection)
    assert workplace.books.result("scan.pdf")["status"] == workplace.books.result("new.pdf")["status"] == "completed"
    assert {call["document_sha256"] for call in workplace.calls()[2:]} == {sha256(page), sha256(new)}
    workplace.run(collection)
    assert len(workplace.calls()) == 4
    workplace.books.assert_settled()


@ON_ONE_DATABASE
def test_a_pdf_attached_to_a_mail_is_shown_too(workplace: Workplace) -> None:
    mail = a_mail(TEXT, {"offer.pdf": OFFER})
    workplace.run(workplace.collection({"dell/mail.eml": mail}, parse="document_block"))
    assert workplace.books.statuses() == {"completed": 2}
    assert sha256(OFFER) in {call["document_sha256"] for call in workplace.calls()}


@ON_ONE_DATABASE
def test_an_original_that_changed_after_it_was_looked_at_is_not_shown(workplace: Workplace) -> None:
    collection = workplace.collection({"dell/offer.pdf": OFFER}, parse="document_block")
    (workplace.source / "dell/offer.pdf").write_bytes(OFFER)

    def change(name: str) -> None:
        if name == "commit:claim":
            (workplace.source / "dell/offer.pdf").write_bytes(OFFER + b"\n")

    workplace.run(collection, failpoints=change)
    assert workplace.books.result("offer.pdf")["reason"] == "source_changed"
    assert workplace.calls() == []


@pytest.mark.parametrize(
    ("ready", "problem"),
    [
        (shown("A" * 31_000_000), None),
        (shown("A" * 32_000_000), "too long: 32001"),
        (shown(pages=600), None),
        (shown(pages=601), f"too long: 601 pages, limit 600 pages a request with {MODEL}"),
        (shown(pages=100, model=SMALL_CONTEXT), None),
        (shown("A" * 10_485_760, media_type="image/png"), None),
        (
            shown("A" * 10_485_764, media_type="image/png"),
            "too long: a picture of 10485764 bytes in base64, limit 10485760",
        ),
    ],
)
def test_every_limit_on_files_is_kept(ready: Ready, problem: str | None) -> None:
    found = ready.size().problem(counted=1)
    assert found is None if problem is None else (found or "").startswith(problem)


def test_pages_are_counted_in_tokens_and_base64_in_bytes() -> None:
    data = b64encode(OFFER).decode()
    one, ten = shown(data, 1).size(), shown(data, 10).size()
    assert ten.fewest_tokens - one.fewest_tokens == 9 * 200
    assert ten.most_tokens - one.most_tokens == 9 * 8000
    assert one.request_bytes - shown("").size().request_bytes == len(data)
    assert shown("A" * 1_000_000).size().most_tokens == one.most_tokens


def test_what_may_not_fit_the_context_is_in_doubt_until_it_is_counted() -> None:
    size = shown(pages=90, model=SMALL_CONTEXT).size()
    assert size.in_doubt
    assert size.problem(counted=150_000) is None
    assert "about 199001 tokens" in (size.problem(counted=199_001) or "")


def test_the_most_that_a_file_can_cost_grows_with_its_pages() -> None:
    one, ten = (shown(pages=pages).most_it_can_cost(batch=False) for pages in (1, 10))
    assert one is not None
    assert ten is not None
    assert ten - one == 9 * 8000 * Decimal("0.125") / 1_000_000


def test_a_second_try_tells_the_problem_beside_the_file() -> None:
    row: dict[str, Any] = {"reason": "schema_mismatch", "message": "$.model: is required"}
    question = Question(model=MODEL, instructions="E", schema=SCHEMA, enforced_schema=None, max_output_tokens=10)
    ready = Asking(question, row).build(DocumentBlock(media_type="application/pdf", base64="AAAA", pages=1))
    kinds = [block["type"] for block in ready.request["messages"][0]["content"]]
    assert kinds == ["document", "text"]
