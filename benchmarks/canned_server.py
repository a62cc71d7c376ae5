"""A server that gives every request the same answer after the same time: cheap, so that it is never what is measured.

It speaks the two protocols that the compared programs use: Anthropic's Messages and OpenAI's chat completions. Run as
``python -m benchmarks.canned_server LATENCY_MS``, it prints its port, serves until its input ends, and tells at
``/seen`` how many requests it was sent and when the first came (seconds since 1970).
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

VALUE = {"model": "PowerEdge R770", "price_usd": 18999.5, "height": "2U"}
USAGE = {"input_tokens": 612, "output_tokens": 41, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
MESSAGE = {
    "id": "msg_01",
    "type": "message",
    "role": "assistant",
    "model": "claude-haiku-5-5",
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": USAGE,
}
TEXT = {"type": "text", "text": json.dumps(VALUE)}
EXTRACTIONS = {"extractions": [{"model": "PowerEdge R770", "model_attributes": {}}]}
COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4o-mini",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": json.dumps(EXTRACTIONS)}}
    ],
    "usage": {"prompt_tokens": 612, "completion_tokens": 41, "total_tokens": 653},
}


class Answers:
    """The ready responses, and what was asked."""

    def __init__(self, latency_s: float) -> None:
        self.latency_s, self.asked, self.first_at = latency_s, 0, 0.0
        self._text = _response({**MESSAGE, "content": [TEXT]})
        self._completion = _response(COMPLETION)

    def to(self, head: bytes, body: bytes) -> bytes:
        """Return the response to a request."""
        path = head.split(b" ", 2)[1]
        if path == b"/seen":
            return _response({"requests": self.asked, "first_at": self.first_at})
        self.first_at = self.first_at or time.time()
        self.asked += 1
        if path.endswith(b"/chat/completions"):
            return self._completion
        if b'"tool_choice"' not in body:
            return self._text
        tool = {"type": "tool_use", "id": "toolu_1", "name": json.loads(body)["tools"][0]["name"], "input": VALUE}
        return _response({**MESSAGE, "stop_reason": "tool_use", "content": [tool]})


class Connection(asyncio.Protocol):
    """One connection, one request after the other."""

    def __init__(self, answers: Answers) -> None:
        self._answers, self._received = answers, bytearray()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what is written to."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer what is complete."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._received[:end])
            length = next(
                (int(line[15:]) for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:"), 0
            )
            if len(self._received) < end + 4 + length:
                return
            response = self._answers.to(head, bytes(self._received[end + 4 : end + 4 + length]))
            del self._received[: end + 4 + length]
            asyncio.get_running_loop().call_later(self._answers.latency_s, self._send, response)

    def _send(self, response: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(response)


def _response(content: dict[str, Any]) -> bytes:
    body = json.dumps(content).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nrequest-id: req_1\r\ncontent-length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


async def serve(latency_s: float) -> None:
    """Serve until the input ends."""
    loop, answers = asyncio.get_running_loop(), Answers(latency_s)
    server = await loop.create_server(lambda: Connection(answers), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


class CannedServer:
    """A server that runs in a process of its own."""

    def __init__(self, url: str) -> None:
        self.url = url

    def seen(self) -> dict[str, Any]:
        """Return ``requests`` and ``first_at``."""
        with urllib.request.urlopen(f"{self.url}/seen") as answer:  # noqa: S310 - our own server
            return json.load(answer)


@contextmanager
def canned_server(latency_ms: int) -> Iterator[CannedServer]:
    """Run the server while the block runs."""
    command = [sys.executable, "-m", "benchmarks.canned_server", str(latency_ms)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        port = process.stdout.readline().strip() if process.stdout else ""
        yield CannedServer(f"http://127.0.0.1:{port}")
        process.communicate()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]) / 1000))
