"""Lines of a result stream: the same whatever pieces it comes in, ended by LF and nothing else."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.extraction.result_lines import LONGEST_LINE, split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

QUICKLY = settings(max_examples=60, deadline=None, database=None)
STREAMS = st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b" ", b"a", b"{}", "\u2028".encode(), b"\x85", b"\0"]))


def in_pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    """Cut a stream at these places, some of them the same."""
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [b"", *(stream[start:end] for start, end in pairwise(places)), b""]


@QUICKLY
@given(STREAMS.map(b"".join), st.lists(st.integers(0, 1000)))
def test_the_lines_do_not_depend_on_the_pieces_that_the_stream_comes_in(stream: bytes, cuts: list[int]) -> None:
    lines = [line.strip() for line in stream.split(b"\n")]
    assert list(split_lines(in_pieces(stream, cuts))) == [line for line in lines if line]


@pytest.mark.parametrize(
    ("stream", "lines"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"\n\na\n \n\r\nb\n\n", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b'{"a": "\xe2\x80\xa8\xc2\x85\x0b\x0c\r."}\nb', [b'{"a": "\xe2\x80\xa8\xc2\x85\x0b\x0c\r."}', b"b"]),
    ],
    ids=["nothing", "no end", "an end", "no last end", "blank lines", "CRLF", "other line ends inside"],
)
def test_a_line_ends_at_lf_and_blank_ones_are_left_out(stream: bytes, lines: list[bytes]) -> None:
    assert list(split_lines([stream])) == lines
    assert list(split_lines([stream[place : place + 1] for place in range(len(stream))])) == lines


def test_a_line_is_handed_on_before_the_stream_goes_on() -> None:
    asked: list[int] = []

    def stream() -> Iterator[bytes]:
        for number in range(3):
            asked.append(number)
            yield b"line\npart of "

    assert next(split_lines(stream())) == b"line"
    assert asked == [0]


def test_a_stream_without_line_ends_is_refused_before_it_fills_the_memory() -> None:
    piece = b"a" * (LONGEST_LINE // 4)
    with pytest.raises(ValueError, match=f"longer than {LONGEST_LINE} bytes"):
        list(split_lines([piece] * 4 + [b"a"]))
    lines = split_lines([piece] * 4 + [b"\n"] + [piece] * 2 + [b"\n"] + [piece] * 3)
    assert [len(line) // len(piece) for line in lines] == [4, 2, 3]


def test_a_long_line_in_many_pieces_costs_no_more_than_its_length() -> None:
    pieces = [b"a" * 64] * 50_000  # quadratic work would take minutes
    assert list(split_lines([*pieces, b"\n"])) == [b"a" * 3_200_000]
