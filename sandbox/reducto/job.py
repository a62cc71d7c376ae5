"""One parse job: what was asked, where it stands at a moment of the clock, and what comes of it.

Nothing runs while a job is open. It is done, and billed, when its seconds are over, whether or not anybody looks.
"""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from sandbox.body import JsonObject
from sandbox.clock import timestamp
from sandbox.reducto.reading import chunks_of

CREDITS_PER_PAGE = Decimal("1.1")  # no price of anybody's: three pages show at once who counts in floats
PURGED_AFTER = timedelta(hours=24)  # after its end
STAGES = ((0.3, "Pending"), (0.9, "InProgress"), (1.0, "Completing"))
NOT_TEXT = {"code": 422, "name": "DOCUMENT_UNSUPPORTED", "message": "the sandbox parses nothing but UTF-8 text"}


@dataclass(slots=True, kw_only=True)
class Job:
    """A job; `pages` None: it will fail. `seconds` None: it never ends. `by_url`: its result is behind a link."""

    id: str
    config: JsonObject
    pages: list[str] | None
    created_at: datetime
    listed_at: datetime
    seconds: float | None
    by_url: bool
    cancelled_at: datetime | None = None
    deleted: bool = False

    @property
    def ends_at(self) -> datetime | None:
        """When it ends, as things stand."""
        if self.cancelled_at is not None:
            return self.cancelled_at
        return None if self.seconds is None else self.created_at + timedelta(seconds=self.seconds)

    def status(self, now: datetime) -> str:
        """Return the status, some of whose names are not documented."""
        if self.cancelled_at is not None:
            return "Cancelled"
        if self.seconds is None:
            return "Pending"
        share = (now - self.created_at).total_seconds() / self.seconds if self.seconds else 1.0
        stage = next((name for limit, name in STAGES if share < limit), None)
        return stage or ("Failed" if self.pages is None else "Completed")

    def is_purged(self, now: datetime) -> bool:
        """Tell whether the service has forgotten it."""
        return self.ends_at is not None and now >= self.ends_at + PURGED_AFTER

    def usage(self) -> JsonObject:
        """Return what it cost."""
        pages = len(self.pages or ())
        return {"num_pages": pages, "credits": float(CREDITS_PER_PAGE * pages)}

    def full_result(self) -> JsonObject:
        """Return the result itself."""
        mode = ((self.config.get("retrieval") or {}).get("chunking") or {}).get("chunk_mode")
        return {"type": "full", "chunks": chunks_of(self.pages or [], by_page=mode == "page"), "ocr": None}

    def answer(self, now: datetime, link: str) -> JsonObject:
        """Return the job as `GET /job/{id}` shows it; `link` leads to the result."""
        status = self.status(now)
        result = {"type": "url", "url": link, "result_id": self.id} if self.by_url else self.full_result()
        response = {
            "response_type": "parse", "job_id": self.id, "duration": self.seconds or 0.0, "usage": self.usage(),
            "result": result, "pdf_url": None,
        }  # fmt: skip
        return {
            "status": status,
            "result": response if status == "Completed" else None,
            "progress": None,
            "reason": NOT_TEXT["message"] if status == "Failed" else None,
            "error": NOT_TEXT if status == "Failed" else None,
        }

    def listed(self, now: datetime, *, with_config: bool) -> JsonObject:
        """Return the job as `GET /jobs` shows it."""
        return {
            "job_id": self.id,
            "status": self.status(now),
            "type": "Parse",
            "raw_config": json.dumps(self.config) if with_config else "",
            "created_at": timestamp(self.created_at),
            "num_pages": len(self.pages or ()),
            "duration": self.seconds,
        }

    def shown(self, now: datetime) -> JsonObject:
        """Return the job for the books of the sandbox; what a job costs that has not ended is not said."""
        metadata = (self.config.get("async") or {}).get("metadata")
        return {
            "job_id": self.id,
            "status": self.status(now),
            "metadata": metadata,
            "deleted": self.deleted,
            **(self.usage() if self.status(now) == "Completed" else {"num_pages": 0, "credits": 0.0}),
        }
