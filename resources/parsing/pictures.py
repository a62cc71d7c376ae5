"""How large a picture is, by its header alone: nothing is decoded, so a bomb costs nothing."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from extraction_core.parsing import ParseFailureReason
from resources.parsing.draft import DocumentRefusedError

MEDIA_TYPES: Mapping[str, str] = {
    "PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WebP": "image/webp",
}  # fmt: skip
"""The kinds that can be shown to a model or recognised; others would have to be converted."""
_JPEG_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_JPEG_WITHOUT_LENGTH = frozenset({0x01, 0xFF, *range(0xD0, 0xD9)})


def check_picture(data: bytes, kind: str, longest_side: int) -> str:
    """Return a picture's media type.

    Raises:
        DocumentRefusedError: UNSUPPORTED kind, CORRUPT header, or LIMIT: a side is longer than so many pixels.
    """
    if kind not in MEDIA_TYPES:
        known = ", ".join(MEDIA_TYPES)
        raise DocumentRefusedError(
            ParseFailureReason.UNSUPPORTED, f"a {kind} image; the kinds that are taken are {known}"
        )
    try:
        width, height = _SIZES[kind](data)
    except (struct.error, IndexError) as error:
        raise DocumentRefusedError(ParseFailureReason.CORRUPT, f"a {kind} image with a damaged header") from error
    if max(width, height) > longest_side:
        message = f"a picture of {width:,} x {height:,} pixels; the limit is {longest_side:,} x {longest_side:,}"
        raise DocumentRefusedError(ParseFailureReason.LIMIT, message)
    return MEDIA_TYPES[kind]


def _png(data: bytes) -> tuple[int, int]:
    return struct.unpack(">II", data[16:24])


def _gif(data: bytes) -> tuple[int, int]:
    return struct.unpack("<HH", data[6:10])


def _jpeg(data: bytes) -> tuple[int, int]:
    """Go from segment to segment to the one that begins the frame."""
    place = 2
    while True:
        marker = data[place + 1]
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", data[place + 5 : place + 9])
            return width, height
        if marker in _JPEG_WITHOUT_LENGTH:
            place += 1 if marker == 0xFF else 2  # noqa: PLR2004 - a fill byte
        else:
            place += 2 + max(2, struct.unpack(">H", data[place + 2 : place + 4])[0])


def _webp(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case b"VP8L":
            bits = struct.unpack("<I", data[21:25])[0]
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case _:
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF


_SIZES: Mapping[str, Callable[[bytes], tuple[int, int]]] = {"PNG": _png, "JPEG": _jpeg, "GIF": _gif, "WebP": _webp}
