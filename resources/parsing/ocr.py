"""What OCR needs: Tesseract's trained data. The engine itself comes with liteparse.

The extra ``[ocr]`` brings English; the system's packages have a hundred languages. The data is looked for where either
puts it, or where ``TESSDATA_PREFIX`` says. Loads nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from extraction_core.errors import ConfigurationError

FOLDER_VARIABLE = "TESSDATA_PREFIX"
LANGUAGES_VARIABLE = "EXTRACTION_OCR_LANGUAGES"
DEFAULT_LANGUAGES = "eng"
USUAL_FOLDERS = (
    f"{sys.prefix}/share/tessdata",
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
)


@dataclass(frozen=True, kw_only=True)
class OcrData:
    """Where the data is, and which languages are recognised, as Tesseract writes them: ``eng+deu``."""

    folder: str
    languages: str


def ocr_data_from(environment: Mapping[str, str] = os.environ) -> OcrData:
    """Find the data of every language that is wanted.

    Raises:
        ConfigurationError: the data of a language is in none of the folders.
    """
    languages = environment.get(LANGUAGES_VARIABLE) or DEFAULT_LANGUAGES
    given = environment.get(FOLDER_VARIABLE)
    folders = [given] if given else list(USUAL_FOLDERS)
    for folder in folders:
        if all(Path(folder, f"{language}.traineddata").is_file() for language in languages.split("+")):
            return OcrData(folder=folder, languages=languages)
    raise ConfigurationError(
        FOLDER_VARIABLE,
        None,
        f"there is no OCR data for {languages!r} in {', '.join(folders)}.",
        "Install it: pip install 'extraction-assets[ocr]' for English, the system's packages for every language "
        f"(Debian: tesseract-ocr-eng; Homebrew: tesseract-lang); or set {FOLDER_VARIABLE} to the folder of the "
        f".traineddata files. {LANGUAGES_VARIABLE} names the languages, such as eng+deu.",
    )
