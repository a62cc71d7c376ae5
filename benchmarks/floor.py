"""The floor: the same requests in a bare loop of asyncio and the client library, and nothing kept of the answers.

``python -m benchmarks.floor ADDRESS REQUEST DOCUMENTS CONCURRENCY``: REQUEST is a file with the arguments of one call
as JSON, DOCUMENTS one with the text of each document as a JSON list, which stands for the first text of the request.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic


async def main(address: str, request: dict[str, Any], documents: list[str], concurrency: int) -> int:
    """Ask about every document, so many at a time. Returns how many answers were JSON objects."""
    client = anthropic.AsyncAnthropic(api_key="k", base_url=address, max_retries=0)
    create: Any = client.messages.create
    waiting, answers = iter(documents), list[object]()

    async def work(waiting: Iterator[str]) -> None:
        for document in waiting:
            content = [{"type": "text", "text": document}]
            message = await create(**request, messages=[{"role": "user", "content": content}])
            answers.append(json.loads(message.content[0].text))

    await asyncio.gather(*(work(waiting) for _ in range(concurrency)))
    await client.close()
    return sum(isinstance(answer, dict) for answer in answers)


if __name__ == "__main__":
    url, request_file, documents_file, in_flight = sys.argv[1:]
    request_read = json.loads(Path(request_file).read_text(encoding="utf-8"))
    documents_read = json.loads(Path(documents_file).read_text(encoding="utf-8"))
    print(asyncio.run(main(url, request_read, documents_read, int(in_flight))))
