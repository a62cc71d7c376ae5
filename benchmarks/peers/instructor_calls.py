"""instructor: ``ADDRESS REQUEST DOCUMENTS CONCURRENCY``, the arguments of :mod:`benchmarks.floor`."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import anthropic
import instructor
from pydantic import BaseModel


class Server(BaseModel):
    """What is asked for."""

    model: str
    price_usd: float
    height: str


async def main(address: str, request: dict[str, Any], documents: list[str], concurrency: int) -> None:
    """Ask about every document, so many at a time."""
    client = anthropic.AsyncAnthropic(api_key="k", base_url=address, max_retries=0)
    asking = instructor.from_anthropic(client, mode=instructor.Mode.ANTHROPIC_TOOLS)
    system = request["system"][0]["text"]
    waiting, values = iter(documents), []

    async def ask(document: str) -> Server:
        return await asking.messages.create(
            model=request["model"],
            max_tokens=request["max_tokens"],
            system=system,
            messages=[{"role": "user", "content": document}],
            response_model=Server,
            max_retries=0,
        )

    async def work() -> None:
        values.extend([await ask(document) for document in waiting])

    await asyncio.gather(*(work() for _ in range(concurrency)))
    print(json.dumps({"done": len(values)}))


if __name__ == "__main__":
    url, request_file, documents_file, in_flight = sys.argv[1:]
    request_read, documents_read = (json.loads(Path(file).read_text()) for file in (request_file, documents_file))
    asyncio.run(main(url, request_read, documents_read, int(in_flight)))
