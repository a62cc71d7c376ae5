"""From the bytes that the service answered to Markdown, a page map and a cost: pure, exact, and wary of every shape."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import httpx
import pytest

from extraction_core.parse_jobs import JobFailed, JobResult, JobRunning, NoAnswer
from extraction_core.parsing import ParsedDocument, ParseFailure
from resources.parsing.reducto_answer import read_answer
from resources.parsing.reducto_download import Links
from resources.parsing.reducto_result import read_result

LINKS = Links(httpx.Timeout(1.0))


def block(content: str, page: int, **changes: Any) -> dict[str, Any]:
    return {"type": "Text", "content": content, "bbox": {"page": page, "original_page": page}, **changes}


def chunk(content: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"content": content, "embed": content, "blocks": list(blocks)}


def full(*chunks: dict[str, Any]) -> bytes:
    return json.dumps({"type": "full", "chunks": chunks}).encode()


def answer(status: Any, **fields: Any) -> bytes:
    return json.dumps({"status": status, **fields}).encode()


def parsed(data: bytes) -> ParsedDocument:
    found = read_result(data, "a/b.pdf")
    assert isinstance(found, ParsedDocument)
    return found


def by_page(document: ParsedDocument) -> dict[int, str]:
    return {page.number: document.markdown[page.start : page.end] for page in document.pages}


def test_every_page_of_the_map_is_that_pages_text() -> None:
    document = parsed(full(chunk("# Eins 🎈", block("Eins 🎈", 1)), chunk("Zwei", block("Zwei", 2))))
    assert by_page(document) == {1: "# Eins 🎈", 2: "Zwei"}
    assert (document.markdown, document.media_type) == ("# Eins 🎈\n\nZwei", "application/pdf")


def test_a_chunk_over_several_pages_is_taken_apart_by_its_blocks() -> None:
    document = parsed(full(chunk("one two three", block("one", 1), block("two", 2), block("three", 2))))
    assert by_page(document) == {1: "one", 2: "two\n\nthree"}


def test_the_page_is_that_of_the_document_and_not_of_the_part_that_was_asked_for() -> None:
    moved = {"type": "Text", "content": "x", "bbox": {"page": 1, "original_page": 7}}
    assert by_page(parsed(full(chunk("x", moved)))) == {7: "x"}


def test_pages_without_text_and_doubted_ones_are_warned_of() -> None:
    document = parsed(full(chunk("a", block("a", 1)), chunk("c", block("c", 3, confidence="low"))))
    assert document.warnings == ("page_without_text:2", "low_confidence:3")


def test_halves_of_surrogate_pairs_become_replacement_characters() -> None:
    assert parsed(b'{"chunks": [{"content": "a\\ud800b", "blocks": []}]}').markdown == "a\ufffdb"


@pytest.mark.parametrize("wrapped", [{"result": {"result": {"chunks": [chunk("x")]}}}, [chunk("x")]])
def test_chunks_are_found_in_a_jobs_answer_and_as_a_bare_list(wrapped: object) -> None:
    assert parsed(json.dumps(wrapped).encode()).markdown == "x"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (full(), "empty_text"),
        (full(chunk(" \n", block(" ", 1))), "empty_text"),
        (b"<html>", "service_failed"),
        (b'{"chunks": 3}', "service_failed"),
        (b"[" * 100_000, "service_failed"),
    ],
)
def test_a_result_without_text_is_a_failure_with_its_reason(data: bytes, reason: str) -> None:
    found = read_result(data, "a.pdf")
    assert isinstance(found, ParseFailure)
    assert found.reason == reason


@pytest.mark.parametrize("status", ["Pending", "Idle", "InProgress", "Completing", "SomethingNew", "completed", ""])
def test_only_three_statuses_are_ends(status: str) -> None:
    assert read_answer(answer(status), LINKS) == JobRunning(status=status)


@pytest.mark.parametrize(
    "body", [b"<html>", b"null", b"{}", answer(7), answer("Completed"), answer("Completed", result={})]
)
def test_an_answer_of_the_wrong_shape_is_no_answer(body: bytes) -> None:
    assert isinstance(read_answer(body, LINKS), NoAnswer)


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ('{"num_pages": 3, "credits": 0.3}', (3, Decimal("0.3"))),
        ('{"num_pages": 3, "credits": 4}', (3, Decimal(4))),
        ('{"num_pages": 3, "credits": null}', (3, None)),
        ('{"num_pages": true, "credits": "5"}', (None, None)),
        ('{"num_pages": -1, "credits": 0.12345678901234}', (None, None)),
        ('{"num_pages": 2, "credits": 1e400}', (2, None)),
        ("[]", (None, None)),
    ],
)
def test_a_cost_is_exact_or_unknown(usage: str, cost: tuple[int | None, Decimal | None]) -> None:
    body = f'{{"status": "Completed", "result": {{"usage": {usage}, "result": {{"type": "full"}}}}}}'.encode()
    seen = read_answer(body, LINKS)
    assert seen == JobResult(data=body, pages=cost[0], credits_used=cost[1])


@pytest.mark.parametrize(
    ("status", "error", "reason", "retryable"),
    [
        ("Failed", {"name": "DOCUMENT_PASSWORD_PROTECTED", "message": "m"}, "password", False),
        ("Failed", {"name": "GPU_POOL_SATURATED", "message": "m"}, "service_failed", True),
        ("Failed", {"name": "BRAND_NEW", "message": "m"}, "service_failed", False),
        ("Failed", None, "service_failed", False),
        ("Cancelled", None, "service_failed", False),
    ],
)
def test_a_failure_keeps_the_services_words(status: str, error: object, reason: str, *, retryable: bool) -> None:
    seen = read_answer(answer(status, error=error, reason="m"), LINKS)
    assert isinstance(seen, JobFailed)
    assert (seen.reason, seen.retryable, seen.message.split(": ")[-1]) == (reason, retryable, "m")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x", "file:///etc/passwd", "", "ftp://host/x"])
def test_a_link_over_anything_but_https_is_not_followed(url: str) -> None:
    result = {"usage": {"num_pages": 1}, "result": {"type": "url", "url": url}}
    seen = read_answer(answer("Completed", result=result), LINKS)
    assert isinstance(seen, NoAnswer)
    assert "is not followed" in seen.message
