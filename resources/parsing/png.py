"""The pixels of a small rendered page, from the one kind of PNG that the engine writes: 8 bit RGBA, not interlaced.

Only this is needed of an image library (PNG specification, third edition, sections 9 and 11), so there is none.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGBA_8_BIT = (8, 6, 0, 0, 0)
_BYTES_PER_PIXEL = 4
_SUB, _UP, _AVERAGE, _PAETH = 1, 2, 3, 4


@dataclass(frozen=True, kw_only=True)
class Raster:
    """Pixel rows from top to bottom, four bytes (red, green, blue, alpha) per pixel."""

    width: int
    height: int
    rows: list[bytearray]

    def is_one_colour(self, left: int, top: int, right: int, bottom: int, *, tolerance: int) -> bool:
        """Whether all pixels of a half-open box differ by at most ``tolerance`` per channel; false for an empty box."""
        left, top = max(left, 0), max(top, 0)
        box = [row[left * _BYTES_PER_PIXEL : right * _BYTES_PER_PIXEL] for row in self.rows[top:bottom]]
        if not box or not box[0]:
            return False
        for channel in range(_BYTES_PER_PIXEL):
            values = b"".join(row[channel::_BYTES_PER_PIXEL] for row in box)
            if max(values) - min(values) > tolerance:
                return False
        return True


def decode_png(data: bytes) -> Raster:
    """Decode one image.

    Raises:
        ValueError: not such a PNG.
    """
    header: tuple[int, ...] | None = None
    compressed = bytearray()
    position = len(_SIGNATURE) if data.startswith(_SIGNATURE) else len(data)
    while position + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        body = data[position + 8 : position + 8 + length]
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            compressed += body
        position += length + 12
    if header is None or header[2:] != _RGBA_8_BIT:
        raise ValueError("not an 8 bit RGBA PNG")
    return Raster(width=header[0], height=header[1], rows=_unfilter(zlib.decompress(compressed), header[0], header[1]))


def _unfilter(filtered: bytes, width: int, height: int) -> list[bytearray]:
    size = width * _BYTES_PER_PIXEL
    rows: list[bytearray] = []
    above = bytearray(size)
    for start in range(0, height * (size + 1), size + 1):
        row = bytearray(filtered[start + 1 : start + 1 + size])
        _unfilter_row(filtered[start], row, above)
        rows.append(row)
        above = row
    return rows


def _unfilter_row(kind: int, row: bytearray, above: bytearray) -> None:
    """Undo one row's filter in place: each byte was stored as the difference to a prediction from its neighbours."""
    if kind in {_UP, _PAETH} and row.count(0) == len(row):  # most rows of a page: no difference to the row above
        row[:] = above
        return
    if kind == _UP:
        row[:] = bytes((value + up) & 0xFF for value, up in zip(row, above, strict=True))
        return
    for channel in range(_BYTES_PER_PIXEL) if kind else ():
        _unfilter_channel(kind, row, above, channel)


def _unfilter_channel(kind: int, row: bytearray, above: bytearray, channel: int) -> None:
    left = up_left = 0
    for i in range(channel, len(row), _BYTES_PER_PIXEL):
        up = above[i]
        if kind == _SUB:
            predicted = left
        elif kind == _AVERAGE:
            predicted = (left + up) // 2
        elif left == up_left:  # the frequent case of the rule below
            predicted = up
        else:
            predicted = _paeth(left, up, up_left)
        row[i] = left = (row[i] + predicted) & 0xFF
        up_left = up


def _paeth(left: int, up: int, up_left: int) -> int:
    to_left, to_up, to_up_left = abs(up - up_left), abs(left - up_left), abs(left + up - 2 * up_left)
    if to_left <= to_up and to_left <= to_up_left:
        return left
    return up if to_up <= to_up_left else up_left
