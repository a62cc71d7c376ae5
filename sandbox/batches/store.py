"""The folder that keeps batches over a restart: per batch a header, the requests while it is open, then the results.

Each file is written aside and renamed, so a crash leaves the old state or the new one.
"""

import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from pathlib import Path

from sandbox.batches.batch import Batch, Result
from sandbox.body import Json, JsonObject
from sandbox.charge import BatchedRequest

HEADER, REQUESTS, RESULTS = ".json", ".requests.jsonl", ".results.jsonl"
CLOCK = "clock.json"


class BatchStore:
    """A folder of batches; without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        """Use the folder, which is made when there is something to keep."""
        self._folder = folder
        self._lock = threading.Lock()  # large files are written on a thread

    def keep(self, batch: Batch) -> None:
        """Write a batch that was accepted."""
        self._write(batch.id + REQUESTS, batch.sent)
        self.update(batch)

    def update(self, batch: Batch) -> None:
        """Write the header: all that may change while a batch is open, and that it ended."""
        self._write(batch.id + HEADER, [_header(batch)])
        if batch.ended_at is not None and self._folder is not None:
            (self._folder / (batch.id + REQUESTS)).unlink(missing_ok=True)

    def keep_results(self, batch_id: str, results: Sequence[Result]) -> None:
        """Write the results of a batch; they count once its header says that it ended."""
        self._write(batch_id + RESULTS, ([result.request.as_json(), result.line.decode()] for result in results))

    def keep_offset(self, seconds: float) -> None:
        """Write how far the clock was moved."""
        self._write(CLOCK, [seconds])

    def load(self) -> list[Batch]:
        """Return all batches, oldest first."""
        if self._folder is None:
            return []
        batches = [self._load(header) for header in self._folder.glob(f"msgbatch_*{HEADER}")]
        return sorted(batches, key=lambda batch: batch.created_at)

    def load_offset(self) -> float:
        """Return how far the clock was moved, in seconds."""
        file = self._folder / CLOCK if self._folder else None
        return json.loads(file.read_text(encoding="utf-8")) if file and file.exists() else 0.0

    def clear(self) -> None:
        """Remove all that is kept."""
        if self._folder is not None and self._folder.exists():
            for file in self._folder.iterdir():
                file.unlink()

    def _load(self, header: Path) -> Batch:
        batch = _read_header(json.loads(header.read_text(encoding="utf-8")))
        if batch.ended_at is None:
            batch.sent = [(custom_id, params) for custom_id, params in _lines(header.with_suffix(REQUESTS))]
        else:
            rows = _lines(header.with_suffix(RESULTS))
            batch.results = [Result(BatchedRequest.from_json(request), line.encode()) for request, line in rows]
        return batch

    def _write(self, name: str, rows: Iterable[Json]) -> None:
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        aside = self._folder / f"{name}.new"
        with self._lock:
            with aside.open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            aside.replace(self._folder / name)


def _lines(file: Path) -> list[Json]:
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _header(batch: Batch) -> JsonObject:
    names = [item.name for item in fields(batch) if item.name not in {"sent", "results"}]
    values = {name: getattr(batch, name) for name in names}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}


def _read_header(row: JsonObject) -> Batch:
    moments: JsonObject = {
        name: datetime.fromisoformat(value) for name, value in row.items() if name.endswith("_at") and value
    }
    return Batch(**(row | moments))
