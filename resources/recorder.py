"""Recording a result: the file beside its place, the guarded row, the file in its place, the commit.

A stale worker, however long it slept, changes neither row nor file. A crash before the commit leaves a file that the
redo writes again byte for byte, because the bytes depend on the kept answer alone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from extraction_core.errors import OutputPathError
from extraction_core.failpoints import Failpoint, Failpoints, no_failpoints
from extraction_core.fingerprints import sha256_hex
from extraction_core.result_document import canonical_json
from extraction_core.shares import in_shares
from resources.ledger import Ledger
from resources.ledger.claims import Held
from resources.ledger.completions import Completed, Output
from resources.output import OutputStore
from resources.output.atomic_write import StagedFile

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One accepted answer on its way to disk."""

    held: Held
    attempt_id: int
    collection: str
    document_key: str
    value: Any
    notes: tuple[str, ...]


class ResultRecorder:
    """Writes accepted answers. Thread-safe."""

    def __init__(self, ledger: Ledger, store: OutputStore, failpoints: Failpoints = no_failpoints) -> None:
        self._ledger, self._store, self._failpoints = ledger, store, failpoints

    def record(self, recording: Recording) -> bool:
        """Write file and row. False when superseded: neither was changed.

        Raises:
            OutputStoreError: the file could not be written; the old one is as it was, the row is still held, and the
                kept answer is not marked as judged, so that a redo derives from it.
        """
        staged, output = self._stage(recording)
        try:
            self._failpoints(Failpoint.BEGIN_COMPLETE)
            won = self._ledger.results.record_completed(recording.held, output, recording.attempt_id, staged.publish)
        except BaseException:  # whatever ends the transaction, nobody will publish this file any more
            staged.discard()
            raise
        if not won:
            staged.discard()
        return won

    def record_all(self, recordings: Sequence[Recording], threads: Executor) -> dict[Held, OutputPathError]:
        """Write many files and rows, in one transaction. Superseded ones are left out, as by :meth:`record`.

        Returns:
            Row -> why its file could not be written, for those whose own path is at fault; they are still held.

        Raises:
            OutputStoreFullError: nothing can be written any more; no row was changed.
        """
        at_fault: dict[Held, OutputPathError] = {}
        done: list[Completed] = []
        staged: list[StagedFile] = []
        try:
            outcomes = self._stage_all(recordings, staged, threads)
            for recording, outcome in zip(recordings, outcomes, strict=True):
                if isinstance(outcome, OutputPathError):
                    at_fault[recording.held] = outcome
                    continue
                file, output = outcome
                held, attempt_id = recording.held, recording.attempt_id
                done.append(Completed(held=held, output=output, attempt_id=attempt_id, publish=file.publish))
            self._failpoints(Failpoint.BEGIN_COMPLETE)
            won = self._ledger.results.record_all_completed(done, threads) if done else set[Held]()
            for recording in recordings:
                if recording.held not in won and recording.held not in at_fault:
                    log.info("%s is superseded", recording.document_key)
        finally:
            for file in staged:
                file.discard()  # does nothing for a file that has taken its place
        return at_fault

    def _stage_all(
        self, recordings: Sequence[Recording], staged: list[StagedFile], threads: Executor
    ) -> list[tuple[StagedFile, Output] | OutputPathError]:
        for collection in {one.collection for one in recordings}:
            keys = [one.document_key for one in recordings if one.collection == collection]
            self._store.make_folders(collection, keys)
        return in_shares(threads, lambda one: self._try_to_stage(one, staged), recordings)

    def _try_to_stage(
        self, recording: Recording, staged: list[StagedFile]
    ) -> tuple[StagedFile, Output] | OutputPathError:
        """Stage a file and note it among those that must be removed unless they take their place."""
        try:
            file, output = self._stage(recording)
        except OutputPathError as error:
            return error
        staged.append(file)
        return file, output

    def _stage(self, recording: Recording) -> tuple[StagedFile, Output]:
        data = canonical_json(recording.value)
        output = Output(
            path=self._store.relative(recording.collection, recording.document_key),
            sha256=sha256_hex(data),
            size_bytes=len(data),
            notes=recording.notes,
        )
        return self._store.stage(recording.collection, recording.document_key, data), output
