"""What is shown to the model as it is, is only looked at: kind, pages, size; nothing of it is read."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from extraction_core.parsing import ParsedDocument, ParseFailure, ParseFailureReason
from tests.core.handed_cases import CASES, needs_cases
from tests.parsing.documents import pdf, picture, scan

if TYPE_CHECKING:
    from resources.parsing import LocalParseProvider


def looked_at(provider: LocalParseProvider, data: bytes, key: str = "x.bin") -> ParsedDocument:
    result = provider.inspect(data, key)
    assert isinstance(result, ParsedDocument), result
    return result


def refused(provider: LocalParseProvider, data: bytes, key: str = "x.bin") -> ParseFailure:
    result = provider.inspect(data, key)
    assert isinstance(result, ParseFailure), result
    assert not result.retryable
    return result


@pytest.mark.parametrize("pages", [1, 3])
def test_a_pdf_is_counted_and_not_read(provider: LocalParseProvider, pages: int) -> None:
    for document in (pdf(*[["Total: 5"]] * pages), scan(*["Total: 5"] * pages)):
        result = looked_at(provider, document)
        assert (result.media_type, len(result.pages), result.markdown) == ("application/pdf", pages, "")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WebP"])
def test_a_picture_that_the_model_takes_is_one_page(provider: LocalParseProvider, kind: str) -> None:
    result = looked_at(provider, picture("Total: 5", kind))
    assert (result.media_type, len(result.pages)) == (f"image/{kind.lower()}", 1)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WebP"])
def test_a_picture_that_is_too_large_is_refused_with_its_size(provider: LocalParseProvider, kind: str) -> None:
    failure = refused(provider, picture("", kind, size=(8001, 2)))
    assert failure.reason is ParseFailureReason.LIMIT
    assert failure.message == "a picture of 8,001 x 2 pixels; the limit is 8,000 x 8,000"


def test_a_picture_of_another_kind_is_refused_by_its_kind(provider: LocalParseProvider) -> None:
    failure = refused(provider, picture("", "TIFF"))
    assert (failure.reason, "a TIFF image" in failure.message) == (ParseFailureReason.UNSUPPORTED, True)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF"])
def test_a_picture_that_is_cut_within_its_header_is_corrupt(provider: LocalParseProvider, kind: str) -> None:
    assert refused(provider, picture("", kind)[:9]).reason is ParseFailureReason.CORRUPT


def test_an_encrypted_pdf_is_refused_even_if_it_opens_without_a_password(provider: LocalParseProvider) -> None:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, encrypt=StandardEncryption("", ownerPassword="o", strength=128))
    canvas.drawString(72, 700, "Total: 5")
    canvas.save()
    failure = refused(provider, buffer.getvalue())
    assert (failure.reason, "encrypted" in failure.message) == (ParseFailureReason.UNSUPPORTED, True)


def test_a_damaged_pdf_is_refused(provider: LocalParseProvider) -> None:
    assert refused(provider, b"%PDF-1.7 cut").reason is ParseFailureReason.CORRUPT


def test_any_other_document_is_parsed(provider: LocalParseProvider) -> None:
    assert looked_at(provider, b"Total: 5", "x.txt").markdown == "Total: 5"
    assert refused(provider, b" \n", "x.txt").reason is ParseFailureReason.EMPTY_TEXT


@needs_cases
def test_a_bomb_of_a_picture_is_refused_by_its_header(provider: LocalParseProvider) -> None:
    bomb = (CASES / "files/image/giant.png").read_bytes()
    assert refused(provider, bomb).reason is ParseFailureReason.LIMIT
