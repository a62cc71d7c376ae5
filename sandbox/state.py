"""What one server remembers between requests."""

from pathlib import Path

from aiohttp import web

from sandbox.delivery import Holds
from sandbox.faults import FaultBook
from sandbox.log import RequestLog
from sandbox.usage import PromptCache


class State:
    """The log and bill, the scripted faults, the answers on hold and the prompt cache."""

    def __init__(self, log_file: Path | None) -> None:
        """Start with nothing known."""
        self.log = RequestLog(log_file)
        self.faults = FaultBook()
        self.holds = Holds()
        self.cache = PromptCache()


STATE = web.AppKey("state", State)
