"""OCR: its data is looked for and never downloaded; scans and pictures become text where there is some."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from extraction_core.errors import ConfigurationError
from extraction_core.parsing import ParsedDocument, ParseFailure, ParseFailureReason
from resources.parsing import LocalParseProvider
from resources.parsing.limits import ParseLimits
from resources.parsing.ocr import OcrData, ocr_data_from
from tests.parsing.documents import fax, pdf, pdf_that_expands, picture, scan


@pytest.fixture
def ocr() -> OcrData:
    """The data that the extra ``[ocr]`` installs."""
    return ocr_data_from({})


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


def test_a_line_of_text_over_a_scan_does_not_pass_for_its_text(provider: LocalParseProvider) -> None:
    result = provider.parse(fax("Fax 12/03/2026 14:05, page 1 of 2", "Total: 415", "Annex"), "x.pdf")
    assert isinstance(result, ParsedDocument), result
    assert ("Total: 415" in result.markdown, result.warnings) == (False, ("little_text_on_scan:1",))


def test_what_is_below_a_line_of_text_is_recognised_too(provider: LocalParseProvider, ocr: OcrData) -> None:
    result = provider.recognise(fax("Fax 12/03/2026 14:05, page 1 of 2", "Total: 415", "Annex"), "x.pdf", ocr)
    assert isinstance(result, ParsedDocument), result
    assert [result.markdown[page.start : page.end] for page in result.pages] == [
        "Total: 415\n\nFax 12/03/2026 14:05, page 1 of 2",
        "Annex",
    ]
    assert result.warnings == ("recognised:1",)


def test_ocr_may_take_longer_than_reading(tmp_path: Path, ocr: OcrData) -> None:
    with LocalParseProvider(scratch_folder=tmp_path, limits=ParseLimits(wall_s=0.05)) as short_of_time:
        short_of_time.parse(b"starts the server", "x.txt")
        began = time.monotonic()
        result = short_of_time.recognise(pdf_that_expands(60), "x.pdf", ocr)
        assert time.monotonic() - began >= 0.75
    assert result == ParseFailure(reason=ParseFailureReason.TIMEOUT, message="not parsed within 0.75 seconds")
