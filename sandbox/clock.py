"""The clock of the batches: real time, moved forward by as much as a test asks for."""

from datetime import UTC, datetime, timedelta

MAX_SECONDS = 1e9  # of a duration or a step: a good thirty years


class Clock:
    """Real time plus an offset; created, ended, expired and archived are all told by it."""

    def __init__(self) -> None:
        """Start at real time."""
        self.offset_s = 0.0

    def now(self) -> datetime:
        """Return the moment it is, in UTC."""
        return datetime.now(UTC) + timedelta(seconds=self.offset_s)

    def advance(self, seconds: float) -> None:
        """Move forward."""
        self.offset_s += seconds

    def reset(self) -> None:
        """Return to real time."""
        self.offset_s = 0.0


def timestamp(moment: datetime | None) -> str | None:
    """Write a moment as the API does, RFC 3339 with a Z."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
