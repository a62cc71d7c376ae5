"""OCR: its data is looked for and never downloaded; scans and pictures become text where there is some."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from extraction_core.errors import ConfigurationError
from extraction_core.parsing import ParsedDocument, ParseFailure, ParseFailureReason
from resources.parsing.ocr import OcrData, ocr_data_from
from tests.parsing.documents import pdf, picture, scan

if TYPE_CHECKING:
    from resources.parsing import LocalParseProvider


@pytest.fixture
def ocr() -> OcrData:
    """The data of this machine."""
    try:
        return ocr_data_from()
    except ConfigurationError as missing:
        pytest.skip(str(missing))


def test_data_is_found_where_the_variable_says(tmp_path: Path) -> None:
    for language in ("eng", "deu"):
        (tmp_path / f"{language}.traineddata").touch()
    found = ocr_data_from({"TESSDATA_PREFIX": str(tmp_path), "EXTRACTION_OCR_LANGUAGES": "eng+deu"})
    assert found == OcrData(folder=str(tmp_path), languages="eng+deu")


def test_a_language_without_data_is_an_error_that_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "eng.traineddata").touch()
    with pytest.raises(ConfigurationError, match=r"no OCR data for 'eng\+deu'.*Install it"):
        ocr_data_from({"TESSDATA_PREFIX": str(tmp_path), "EXTRACTION_OCR_LANGUAGES": "eng+deu"})


def test_without_its_data_a_document_fails_and_nothing_is_downloaded(
    provider: LocalParseProvider, tmp_path: Path
) -> None:
    result = provider.recognise(scan("Total: 5"), "x.pdf", OcrData(folder=str(tmp_path), languages="eng"))
    assert isinstance(result, ParseFailure)
    assert list(tmp_path.iterdir()) == []


def test_a_scan_becomes_text_page_by_page_and_says_so(provider: LocalParseProvider, ocr: OcrData) -> None:
    result = provider.recognise(scan("Total: 415", "Weight: 30"), "x.pdf", ocr)
    assert isinstance(result, ParsedDocument), result
    assert [result.markdown[page.start : page.end] for page in result.pages] == ["Total: 415", "Weight: 30"]
    assert result.warnings == ("recognised:1", "recognised:2")


def test_a_picture_becomes_text(provider: LocalParseProvider, ocr: OcrData) -> None:
    result = provider.recognise(picture("Total: 415"), "x.png", ocr)
    assert isinstance(result, ParsedDocument), result
    assert (result.markdown, result.media_type) == ("Total: 415", "image/png")


def test_text_that_is_there_is_read_and_not_recognised(provider: LocalParseProvider, ocr: OcrData) -> None:
    result = provider.recognise(pdf(["Total: 415"]), "x.pdf", ocr)
    assert isinstance(result, ParsedDocument), result
    assert (result.markdown, result.warnings) == ("Total: 415", ())


def test_a_picture_without_text_fails_as_such(provider: LocalParseProvider, ocr: OcrData) -> None:
    result = provider.recognise(picture(), "x.png", ocr)
    assert isinstance(result, ParseFailure)
    assert result.reason in {ParseFailureReason.NO_TEXT_LAYER, ParseFailureReason.EMPTY_TEXT}
