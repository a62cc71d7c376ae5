"""pgqueuer: ``ADDRESS JOBS WORKERS BATCH``. Jobs that do nothing, by workers with a connection each."""

import asyncio
import json
import logging
import sys
from time import perf_counter

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

logging.disable(logging.CRITICAL)


async def main(url: str, jobs: int, workers: int, batch: int) -> None:
    """Enqueue, work, and print how long the work took."""
    connections = [await asyncpg.connect(url) for _ in range(workers)]
    queries = Queries(AsyncpgDriver(connections[0]))
    await queries.install()
    for first in range(0, jobs, 1000):
        size = min(1000, jobs - first)
        await queries.enqueue(["nothing"] * size, [b"{}"] * size, [0] * size)
    done = 0

    def worker(connection: asyncpg.Connection) -> PgQueuer:
        queue = PgQueuer(AsyncpgDriver(connection))

        @queue.entrypoint("nothing")
        async def nothing(_job: Job) -> None:
            nonlocal done
            done += 1

        return queue

    queues = [worker(connection) for connection in connections]
    begun = perf_counter()
    await asyncio.gather(*(queue.run(batch_size=batch, mode=QueueExecutionMode.drain) for queue in queues))
    print(json.dumps({"seconds": perf_counter() - begun, "done": done}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
