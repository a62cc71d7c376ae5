"""The handed files: what each one must end as.

The files live beside the repository (``../shared``). A clone elsewhere has none of them and skips these tests; CI must
have them.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from extraction_core.parsing import ParsedDocument, ParseFailure, ParseFailureReason
from resources.parsing import LocalParseProvider
from tests.parsing.documents import pdf

SHARED = Path(__file__).resolve().parents[3] / "shared"
CASES, REAL = SHARED / "cases", SHARED / "real_documents"
KINDS = ("files/pdf/", "files/office/", "files/image/", "files/text/")
GOOD = {f"good/{number}.pdf": pdf([f"Invoice number: {number}"]) for number in range(20)}

pytestmark = pytest.mark.skipif(
    not CASES.is_dir() and not os.environ.get("CI"), reason=f"the handed files are not beside this clone ({SHARED})"
)


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """Texts that the Markdown holds, texts that it must not hold, and the warnings, all of them."""

    holds: tuple[str, ...]
    lacks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def invoice(number: int, total: str, *warnings: str, lacks: tuple[str, ...] = ()) -> Parsed:
    return Parsed(holds=(f"INV-{number}", total), warnings=warnings, lacks=lacks)


HIDDEN = ("1.00", "automatic readers")
EXPECTED: dict[str, Parsed | ParseFailureReason] = {
    "files/pdf/blank-pages.pdf": ParseFailureReason.EMPTY_TEXT,
    "files/pdf/cid-no-tounicode.pdf": invoice(3601, "360.10", "characters_guessed:1"),
    "files/pdf/dense-drawing.pdf": Parsed(holds=("350.20",)),
    "files/pdf/enc-empty-user-aes256.pdf": invoice(3101, "310.10"),
    "files/pdf/enc-empty-user-rc4.pdf": invoice(3101, "310.10"),
    "files/pdf/enc-user-password.pdf": ParseFailureReason.PASSWORD,
    "files/pdf/eof-cut.pdf": invoice(3301, "330.10"),
    "files/pdf/giant-image.pdf": Parsed(holds=("490.20",)),
    "files/pdf/giant-mediabox.pdf": Parsed(holds=("490.10",)),
    "files/pdf/header-only.pdf": ParseFailureReason.CORRUPT,
    "files/pdf/hidden-mode-3.pdf": Parsed(holds=("420.20",), lacks=HIDDEN, warnings=("invisible_text:1",)),
    "files/pdf/hidden-white.pdf": Parsed(holds=("420.10",), lacks=HIDDEN, warnings=("invisible_text:1",)),
    "files/pdf/html-login-page.pdf": ParseFailureReason.UNSUPPORTED,
    "files/pdf/junk-before-header.pdf": invoice(3301, "330.10"),
    "files/pdf/no-pages.pdf": ParseFailureReason.EMPTY_TEXT,
    "files/pdf/nul-tounicode.pdf": invoice(2001, "200.10", "characters_guessed:1", lacks=("\0",)),
    "files/pdf/page-2-corrupt.pdf": invoice(3303, "330.30", "page_without_text:2"),
    "files/pdf/pages-600.pdf": Parsed(holds=("350.10",)),
    "files/pdf/really-a-png.pdf": ParseFailureReason.NO_TEXT_LAYER,
    "files/pdf/rtl-visual-order.pdf": Parsed(holds=("חשבונית מספר 3801", "380.10")),
    "files/pdf/scan-only.pdf": ParseFailureReason.NO_TEXT_LAYER,
    "files/pdf/searchable-scan.pdf": invoice(3204, "320.40"),
    "files/pdf/startxref-wrong.pdf": invoice(3301, "330.10"),
    "files/pdf/surrogate-tounicode.pdf": invoice(7901, "790.10", lacks=("\ud83d",)),
    "files/pdf/text-page-then-scan-page.pdf": Parsed(holds=("Cover letter",), warnings=("scanned_page:2",)),
    "files/pdf/trailing-junk.pdf": invoice(3301, "330.10"),
    "files/pdf/truncated-half.pdf": ParseFailureReason.CORRUPT,
    "files/pdf/zero-byte.pdf": ParseFailureReason.EMPTY_FILE,
    "files/office/cells-mixed.xlsx": Parsed(
        holds=(
            "| INVOICE INV-4401 |  |  |  |  |  |  |",
            "| 00123 | 3 | TRUE | NA | 2024-03-05 | null | 440.1 |",
            "| 00045 |  |  | DE |  |  | 0.3 |",
            "| 1E5 | 12 | FALSE |  |  |  | 1234567890123456 |",
            "## Hidden (hidden)",
        ),
        lacks=("nan", "3.0", "45356"),
        warnings=("hidden_sheet:Hidden",),
    ),
    "files/office/formula-without-value.xlsx": Parsed(
        holds=("| Total |  |",), warnings=("formula_without_value:Invoice!B4",)
    ),
    "files/office/pipes-and-newlines.xlsx": Parsed(
        holds=("| Item | Qty | Price |", "| A\\|B sheet | 7 |", "| line one<br>line two | 1 | 460.1 |")
    ),
    "files/image/giant.png": ParseFailureReason.NO_TEXT_LAYER,
    "files/text/ascii-then-utf8.txt": Parsed(holds=("Café Müller", "430.10 €")),
    "files/text/cp1252.txt": Parsed(holds=("Café “Müller”", "430.20"), warnings=("encoding_assumed:cp1252",)),
    "files/text/duplicate-a.txt": Parsed(holds=("INV-5301",)),
    "files/text/duplicate-b.txt": Parsed(holds=("INV-5301",)),
    "files/text/empty.txt": ParseFailureReason.EMPTY_FILE,
    "files/text/instruction-in-document.txt": invoice(4206, "420.60"),
    "files/text/longer-than-context.txt": invoice(5601, "560.10"),
    "files/text/nul-inside.txt": invoice(2002, "200.20", "characters_replaced:3", lacks=("\0",)),
    "files/text/really-a-pdf.txt": invoice(4702, "470.20", lacks=("%PDF",)),
    "files/text/utf16le-bom.txt": invoice(4303, "430.30", lacks=("\0", "\ufeff")),
    "files/text/utf8-bom.csv": Parsed(holds=("| invoice | supplier | total |",), lacks=("\ufeff",)),
    "files/text/whitespace.txt": ParseFailureReason.EMPTY_TEXT,
}

REAL_FAILURES = {
    "medical-scan.pdf": ParseFailureReason.NO_TEXT_LAYER,
    "password-example.pdf": ParseFailureReason.PASSWORD,
    "password-protected.xlsx": ParseFailureReason.PASSWORD,
}
REAL_TEXTS = {
    "borderless-inventory.pdf": "| SKU-9201 |  | 780 | 778 |  | OK |",
    "docx-tables.docx": "| Header Col 1 | Header Col 2 |",
    "example-10k-1p.html": "Galaxy Gaming, Inc.",
    "fake-email-attachment.eml": "Subject: Fake email with attachment",
    "fake-memo.pdf": "To Whom it May Concern:\nThere were 20,000 bottles of water",
    "fake-power-point-table.pptx": "| Tangerine | Pink | Aqua |",
    "powerpoint_sample.pptx": "Notes:\n\nSome notes on the second slide.",
    "receipt.pdf": "TOTAL $821.14",
    "senate-expenditures.pdf": "| DOCUMENT NO. | DATE POSTED | PAYEE NAME |",
    "stanley-cups.xlsx": "| Maple Leafs | TOR | 13 |",
    "word_sample.docx": "# Swimming in the lake",
}


def handed_documents() -> dict[str, Path]:
    with (CASES / "MANIFEST.tsv").open(encoding="utf-8") as manifest:
        paths = [line[0] for line in csv.reader(manifest, delimiter="\t", quoting=csv.QUOTE_NONE)]
    return {path: CASES / path for path in paths if path.startswith(KINDS)}


def real_documents() -> dict[str, Path]:
    with (REAL / "SOURCES.tsv").open(encoding="utf-8") as sources:
        return {name: REAL / name for name in (row["file"] for row in csv.DictReader(sources, delimiter="\t"))}


def test_the_manifest_lists_exactly_the_files_that_are_expected_here() -> None:
    assert handed_documents().keys() == EXPECTED.keys()


@pytest.mark.parametrize("key", EXPECTED)
def test_a_handed_file_ends_as_its_manifest_says(key: str, provider: LocalParseProvider) -> None:
    expected, result = EXPECTED[key], provider.parse((CASES / key).read_bytes(), key)
    if isinstance(expected, ParseFailureReason):
        assert isinstance(result, ParseFailure)
        assert (result.reason, result.retryable) == (expected, False)
        assert "Traceback" not in result.message
        return
    assert isinstance(result, ParsedDocument), result
    assert [text for text in expected.holds if text not in result.markdown] == []
    assert [text for text in expected.lacks if text in result.markdown] == []
    assert result.warnings == expected.warnings


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("files/pdf/html-login-page.pdf", "not a PDF (looks like HTML)"),
        ("files/pdf/really-a-png.pdf", "not a PDF: a PNG image, which has no text layer"),
    ],
)
def test_a_mismatch_names_both_types(key: str, message: str, provider: LocalParseProvider) -> None:
    result = provider.parse((CASES / key).read_bytes(), key)
    assert isinstance(result, ParseFailure)
    assert result.message == message


@pytest.mark.parametrize("key", REAL_TEXTS)
def test_a_real_document_gives_its_text(key: str, provider: LocalParseProvider) -> None:
    result = provider.parse((REAL / key).read_bytes(), key)
    assert isinstance(result, ParsedDocument)
    assert REAL_TEXTS[key] in result.markdown


def test_each_of_600_pages_is_found_by_the_page_map(provider: LocalParseProvider) -> None:
    result = provider.parse((CASES / "files/pdf/pages-600.pdf").read_bytes(), "pages-600.pdf")
    assert isinstance(result, ParsedDocument)
    first_lines = [result.markdown[page.start : page.end].splitlines()[0] for page in result.pages]
    assert first_lines == [f"Ledger page {number} of 600" for number in range(1, 601)]
    assert [page.number for page in result.pages] == list(range(1, 601))
