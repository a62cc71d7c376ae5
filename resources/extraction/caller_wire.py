"""What goes between a worker and its caller process: frames over one socket, many calls at a time, in any order.

A frame is a head of 13 bytes (length of the content, kind, number of the call) and its content. Both ends are ours and
of one version, so a frame that cannot be read is a defect and ends the connection.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable
from dataclasses import asdict
from enum import IntEnum
from typing import Any, cast

from extraction_core.answers import read_message
from extraction_core.calls import CallAnswered, CallFailed
from extraction_core.causes import Cause
from resources.extraction.access import Access

_HEAD = struct.Struct("!IBQ")


class Kind(IntEnum):
    """What a frame is; the first three go to the caller process, the others come from it."""

    SETTINGS = 1  # how the provider is reached; comes first
    CALL = 2  # the content is the request's body
    COUNT = 3  # as above: count its tokens
    READY = 4  # settings were taken
    ANSWERED = 5
    FAILED = 6
    COUNTED = 7
    DEFECT = 8  # the content is the text of an exception


def frame(kind: Kind, content: bytes, *, number: int) -> bytes:
    """Return a frame."""
    return _HEAD.pack(len(content), kind, number) + content


class Frames(asyncio.Protocol):
    """One end of the socket.

    Args:
        received: is given each frame: its kind, number and content.
        ended: is called once when the other end is gone.
    """

    def __init__(self, received: Callable[[Kind, int, bytes], None], ended: Callable[[], None]) -> None:
        self._received, self._ended = received, ended
        self._buffer = bytearray()

    def data_received(self, data: bytes) -> None:
        """Hand on what is complete."""
        self._buffer += data
        begin, end = 0, len(self._buffer)
        while end - begin >= _HEAD.size:
            length, kind, number = _HEAD.unpack_from(self._buffer, begin)
            if end - begin < _HEAD.size + length:
                break
            content = bytes(memoryview(self._buffer)[begin + _HEAD.size : begin + _HEAD.size + length])
            begin += _HEAD.size + length
            self._received(Kind(kind), number, content)
        del self._buffer[:begin]

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell that the other end is gone."""
        self._ended()


def encode_settings(access: Access, calls_in_flight: int, request_timeout_s: float) -> bytes:
    """Return what :class:`resources.extraction.realtime.RealtimeProvider` is made of. Holds the key: never logged."""
    settings = {"access": asdict(access), "calls_in_flight": calls_in_flight, "request_timeout_s": request_timeout_s}
    return json.dumps(settings).encode()


def decode_settings(content: bytes) -> dict[str, Any]:
    """Return the arguments of :class:`resources.extraction.realtime.RealtimeProvider`."""
    settings = json.loads(content)
    return {**settings, "access": Access(**settings["access"])}


def encode_outcome(outcome: CallAnswered | CallFailed) -> tuple[Kind, bytes]:
    """Return what a call brought; an answer is its request's id as a line, then the body."""
    if isinstance(outcome, CallAnswered):
        return Kind.ANSWERED, f"{outcome.request_id or ''}\n{outcome.body}".encode()
    return Kind.FAILED, json.dumps(asdict(outcome)).encode()


def decode_outcome(kind: Kind, content: bytes) -> CallAnswered | CallFailed:
    """Undo :func:`encode_outcome`."""
    if kind is Kind.FAILED:
        fields = json.loads(content)
        return CallFailed(**(fields | {"cause": Cause(fields["cause"])}))
    request_id, _, body = content.decode().partition("\n")
    message = cast("dict[str, Any]", read_message(body))  # as it was one there
    return CallAnswered(body=body, message=message, request_id=request_id or None)


def encode_count(tokens: int | None) -> tuple[Kind, bytes]:
    """Return how many tokens were counted; nothing when they could not be."""
    return Kind.COUNTED, b"" if tokens is None else str(tokens).encode()


def decode_count(content: bytes) -> int | None:
    """Undo :func:`encode_count`."""
    return int(content) if content else None
