"""All uploads and jobs of one server, in memory: they are gone with it."""

import secrets
import uuid
from datetime import datetime, timedelta
from http import HTTPStatus

from sandbox.body import JsonObject
from sandbox.clock import Clock
from sandbox.errors import ApiError
from sandbox.reducto.job import Job
from sandbox.reducto.reading import read_pages

LINK_SECONDS = 60.0


class JobBook:
    """Uploads and jobs, oldest first. `parse_seconds` goes for jobs from now on; None means never."""

    def __init__(self, clock: Clock) -> None:
        """Start empty, on the clock that the batches have too."""
        self.clock = clock
        self.uploads: dict[str, bytes | None] = {}
        self.jobs: dict[str, Job] = {}
        self.parse_seconds: float | None = 0.0
        self._links: dict[str, tuple[str, datetime]] = {}

    def upload(self, data: bytes | None) -> str:
        """Take bytes, or a place for bytes that are put there later. Returns the file id."""
        file_id = f"reducto://{uuid.uuid4()}"
        self.uploads[file_id] = data
        return file_id

    def accept(self, config: JsonObject, *, by_url: bool, listed_late: float = 0.0) -> Job:
        """Create a job; `listed_late` are the seconds until it stands in the list.

        Raises:
            ApiError: 404, when its input was never uploaded.

        """
        source = config.get("input")
        file_id = source.get("file_id") if isinstance(source, dict) else source
        data = self.uploads.get(str(file_id))
        if data is None:
            raise ApiError(HTTPStatus.NOT_FOUND, f"input: {file_id} was not uploaded")
        now = self.clock.now()
        job = Job(
            id=str(uuid.uuid4()),
            config=config,
            pages=read_pages(data),
            created_at=now,
            listed_at=now + timedelta(seconds=listed_late),
            seconds=self.parse_seconds,
            by_url=by_url or bool((config.get("settings") or {}).get("force_url_result")),
        )
        self.jobs[job.id] = job
        return job

    def find(self, job_id: str) -> Job:
        """Return a job.

        Raises:
            ApiError: 404 when there is none, or none any more; 410 when it was deleted.

        """
        job = self.jobs.get(job_id)
        if job is None or job.is_purged(self.clock.now()):
            raise ApiError(HTTPStatus.NOT_FOUND, f"Job {job_id} not found")
        if job.deleted:
            raise ApiError(HTTPStatus.GONE, f"Job {job_id} was deleted")
        return job

    def cancel(self, job: Job) -> None:
        """Stop a job that has not ended."""
        now = self.clock.now()
        if job.ends_at is None or job.ends_at > now:
            job.cancelled_at = now

    def listed(self) -> list[Job]:
        """Return the jobs that the list shows, newest first."""
        now = self.clock.now()
        known = [job for job in self.jobs.values() if job.listed_at <= now]
        return [job for job in reversed(known) if not job.deleted and not job.is_purged(now)]

    def link_to(self, job: Job) -> str:
        """Return the name of a link to a job's result, good for a minute."""
        name = secrets.token_urlsafe(16)
        self._links[name] = (job.id, self.clock.now() + timedelta(seconds=LINK_SECONDS))
        return name

    def follow(self, name: str) -> Job:
        """Return the job that a link leads to.

        Raises:
            ApiError: 403, when the link has expired or was never given.

        """
        job_id, until = self._links.get(name, ("", self.clock.now()))
        if self.clock.now() >= until:
            raise ApiError(HTTPStatus.FORBIDDEN, "the link has expired")
        return self.find(job_id)

    def forget(self) -> None:
        """Drop everything and return to jobs that are done at once."""
        self.uploads.clear()
        self.jobs.clear()
        self._links.clear()
        self.parse_seconds = 0.0
