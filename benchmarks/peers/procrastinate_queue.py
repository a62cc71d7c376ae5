"""procrastinate: ``ADDRESS JOBS WORKERS``. Jobs that do nothing, by one worker process with so many jobs at a time."""

import asyncio
import json
import logging
import sys
from time import perf_counter

from procrastinate import App, PsycopgConnector

logging.disable(logging.CRITICAL)
FEWEST_CONNECTIONS = 4
"""Below this its pool refuses to open."""


async def main(url: str, jobs: int, workers: int) -> None:
    """Defer, work, and print how long the work took."""
    app = App(connector=PsycopgConnector(conninfo=url, max_size=max(workers + 2, FEWEST_CONNECTIONS)))

    @app.task(name="nothing")
    async def nothing(number: int) -> None:
        """Do nothing."""

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await nothing.batch_defer_async(*({"number": number} for number in range(jobs)))
        begun = perf_counter()
        await app.run_worker_async(wait=False, concurrency=workers, listen_notify=False)
        seconds = perf_counter() - begun
        left = await app.job_manager.list_jobs_async(status="todo")
    print(json.dumps({"seconds": seconds, "done": jobs - len(list(left))}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
