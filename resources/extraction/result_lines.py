"""The lines of a result stream, read as bytes.

The SDK's own decoder is not used: it re-copies a line for every 64 bytes of it, and splits or drops what it should not.
Lines end at LF and nowhere else. A stream that was cut at a line end looks complete to every reader: whether all
requests were seen is the collector's question, not this one's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

LONGEST_LINE = 64_000_000
"""Bytes. Far beyond any answer; a stream without line ends must not fill the memory."""


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a stream without line ends and blank lines; what follows the last line end comes last.

    Args:
        chunks: the stream in pieces of any size.

    Raises:
        ValueError: a line is longer than :data:`LONGEST_LINE`.
    """
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            parts.append(piece)
            if line := b"".join(parts).strip():
                yield line
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > LONGEST_LINE:
            msg = f"a line of the results is longer than {LONGEST_LINE} bytes"
            raise ValueError(msg)
    if line := b"".join(parts).strip():
        yield line
