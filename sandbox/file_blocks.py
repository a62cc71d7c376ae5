"""Blocks that hold a file: a PDF as a document, a picture as an image. Checked as the API checks them, then read."""

import base64
import hashlib
from dataclasses import dataclass

from sandbox.body import Json, JsonObject
from sandbox.errors import refuse
from sandbox.models import Model
from sandbox.pdf_text import read_pdf
from sandbox.usage import count_tokens

PDF = "application/pdf"
IMAGES = {
    "image/jpeg": b"\xff\xd8\xff",
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}  # with their first bytes
MOST_IMAGE_BYTES = 10 * 1024 * 1024  # of base64
MOST_PAGES, MOST_PAGES_OF_SMALL = 600, 100
SMALL_CONTEXT = 1_000_000
TOKENS_PER_PICTURE = 1_600  # of a page, too: the model sees a page as its text and as a picture


@dataclass(frozen=True, slots=True)
class FileBlock:
    """A file: what was read of it, what it costs to see, and what it is known by."""

    text: str
    tokens: int
    sha256: str


def read_file_block(part: Json, path: str, model: Model) -> FileBlock | None:
    """Read a block that holds a file, or return None for any other block.

    Raises:
        ApiError: 400, for what is no such file, or is too large.

    """
    kind = part.get("type") if isinstance(part, dict) else None
    source = part.get("source") if kind in {"document", "image"} else None
    if not isinstance(source, dict) or source.get("type") != "base64":
        return None
    if kind == "image":
        return _image(source, f"{path}.image.source.base64")
    return _pdf(source, f"{path}.document.source.base64", model)


def _image(source: JsonObject, path: str) -> FileBlock:
    first = IMAGES.get(str(source.get("media_type")))
    if first is None:
        listed = ", ".join(f"'{name}'" for name in IMAGES)
        refuse(f"{path}.media_type: Input should be {listed}")
    size = len(str(source.get("data")))
    if size > MOST_IMAGE_BYTES:
        refuse(f"{path}: image exceeds 10 MB maximum: {size} bytes > {MOST_IMAGE_BYTES} bytes")
    data = _data(source, path)
    if not data.startswith(first):
        refuse(f"{path}.data: Could not process image")
    return FileBlock("", TOKENS_PER_PICTURE, hashlib.sha256(data).hexdigest())


def _pdf(source: JsonObject, path: str, model: Model) -> FileBlock:
    if source.get("media_type") != PDF:
        refuse(f"{path}.media_type: Input should be '{PDF}'")
    data = _data(source, path)
    if b"%PDF-" not in data[:1024]:
        refuse(f"{path}.data: The PDF specified was not valid.")
    if b"/Encrypt" in data:
        refuse(f"{path}.data: The PDF specified is password protected.")
    pages, text = read_pdf(data)
    most = MOST_PAGES if model.context >= SMALL_CONTEXT else MOST_PAGES_OF_SMALL
    if pages > most:
        refuse(f"{path}.data: A maximum of {most} PDF pages may be provided.")
    return FileBlock(text, pages * TOKENS_PER_PICTURE + count_tokens(text), hashlib.sha256(data).hexdigest())


def _data(source: JsonObject, path: str) -> bytes:
    try:
        return base64.b64decode(source["data"], validate=True)
    except (KeyError, TypeError, ValueError):
        refuse(f"{path}.data: invalid base64 data")
