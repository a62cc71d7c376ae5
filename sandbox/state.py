"""What one server remembers between requests."""

from pathlib import Path

from aiohttp import web

from sandbox.batches.book import BatchBook
from sandbox.batches.store import BatchStore
from sandbox.faults import FaultBook
from sandbox.holds import Holds
from sandbox.log import RequestLog
from sandbox.reducto.book import JobBook
from sandbox.usage import PromptCache


class State:
    """The log and bill, the scripted faults, the answers on hold, the prompt cache, batches and parse jobs."""

    def __init__(self, log_file: Path | None, batch_seconds: float | None) -> None:
        """Start with what a log file and the folder beside it hold; with nothing known without one."""
        self.log = RequestLog(log_file)
        self.faults = FaultBook()
        self.holds = Holds()
        self.cache = PromptCache()
        store = BatchStore(log_file.with_name(f"{log_file.name}.batches") if log_file else None)
        self.batches = BatchBook(self.log, self.faults, self.cache, store, batch_seconds)
        self.jobs = JobBook(self.batches.clock)


STATE = web.AppKey("state", State)
