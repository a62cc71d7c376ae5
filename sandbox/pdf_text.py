"""What a simple PDF says, by the text operators of its page contents.

Enough for documents that a program printed with a standard font; of a scan, or a font with codes of its own, nothing or
nonsense comes out. The sandbox answers from that, as it answers from any text, and never invents the rest.
"""

import base64
import re
import zlib
from collections.abc import Iterator

MOST_STREAM_BYTES = 4 * 1024 * 1024
MOST_BYTES = 32 * 1024 * 1024
PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
STREAM = re.compile(rb"(?<!end)stream\r?\n(.*?)endstream", re.DOTALL)
OPERATOR = re.compile(
    rb"\((?P<text>(?:\\.|[^()\\])*)\)|(?P<new>(?<![a-zA-Z])(?:BT|ET|T\*|Td|TD|Tm)(?![a-zA-Z]))", re.DOTALL
)
ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
HEAD = 4096
PRINTABLE = bytes([9, 10, 13, *range(32, 127)])
OCTAL = b"01234567"
ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}


def read_pdf(data: bytes) -> tuple[int, str]:
    """Return the number of pages, at least 1, and the text as far as it can be read."""
    contents = list(_contents(data))
    pages = sum(len(PAGE.findall(part)) for part in [data, *contents])
    text = "\n".join(line for content in contents if _has_text(content) for line in _lines(content))
    return max(pages, 1), text


def _contents(data: bytes) -> Iterator[bytes]:
    """Decoded streams: page contents, and the streams that hold objects; the rest has no text operators."""
    left = MOST_BYTES
    for match in STREAM.finditer(data):
        content = _decode(match[1])[:left]
        left -= len(content)
        yield content


def _decode(stream: bytes) -> bytes:
    try:
        if stream.rstrip().endswith(b"~>"):
            stream = base64.a85decode(stream.strip().removesuffix(b"~>"))
        return zlib.decompressobj().decompress(stream, MOST_STREAM_BYTES)
    except (ValueError, zlib.error):
        return stream[:MOST_STREAM_BYTES]


def _has_text(content: bytes) -> bool:
    """Whether it is page contents, which are printable, and no picture or font."""
    return b"BT" in content and len(content[:HEAD].translate(None, PRINTABLE)) < len(content[:HEAD]) // 10


def _lines(content: bytes) -> Iterator[str]:
    """Join the strings between two operators that go to another place."""
    line = b""
    for match in OPERATOR.finditer(content):
        if match["new"] and line.strip():
            yield line.decode("cp1252", "replace")
        line = b"" if match["new"] else line + ESCAPE.sub(_unescape, match["text"])
    if line.strip():
        yield line.decode("cp1252", "replace")


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) & 0xFF]) if code[0] in OCTAL else ESCAPED.get(code, code)
