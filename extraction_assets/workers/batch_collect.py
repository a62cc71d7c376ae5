"""Collecting: the results of an ended batch become files and rows, by the same steps as a call's answer.

Lines come in any order, twice, cut off or not at all; each stands alone, and is matched by its custom id and nothing
else. Answers are kept first, a slice in one transaction, so a crash at any place pays for nothing again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from extraction_assets.workers.batch_reading import Reading, fresh_lines, kept_body
from extraction_assets.workers.batch_submit import derive_or_decide, settle
from extraction_assets.workers.row_end import RowEnd
from extraction_assets.workers.session import WorkerSession
from extraction_assets.workers.tools import Tools
from extraction_core.batches import BatchState, Outcome, ResultLine, read_result_line
from extraction_core.calls import CallFailed
from extraction_core.causes import POLICIES, Cause
from extraction_core.collection import Collection
from extraction_core.errors import OutputPathError
from extraction_core.pricing import cost_usd, token_usage
from resources.extraction.batches import BatchProvider, ResultsUnreadable
from resources.ledger.attempts import Answer
from resources.ledger.batch_requests import SentRequest
from resources.ledger.claims import Held
from resources.ledger.documents import slices
from resources.recorder import Recording

log = logging.getLogger(__name__)

SLICE = 100
"""Lines a step: their answers are kept in one transaction."""
RECORDERS = 4
MOST_READS = 5
COMPLETE_READS = 2
"""Complete reads that must leave a request out before it counts as missing."""
PATIENT_PASSES = 3
"""Passes after which results that are always short are taken as they are: about two hours after the first."""
READ_AGAIN_S = 60.0
READ_AGAIN_FACTOR = 10
MISSING_RETRY_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Arrived:
    """A result of a row that the batch still covers; ``body`` is the kept form of its answer, if it has one."""

    line: ResultLine
    request: SentRequest
    row: Mapping[str, Any]
    body: str | None

    @property
    def held(self) -> Held:
        """The row under the generation that the batch holds: a write is superseded once the row has moved on."""
        return Held(self.row["result_id"], self.row["generation"])

    def end(self, tools: Tools, collection: Collection) -> RowEnd:
        """Return the ends of the row."""
        return RowEnd(tools, collection, self.held, self.row)


class BatchCollector:
    """Collects the ended batches of one extraction run.

    Args:
        tools: the resources.
        session: the worker's life.
        collection: the collection.
        provider: the Message Batches API.
        stopped: tells whether to end early.
    """

    def __init__(
        self,
        tools: Tools,
        session: WorkerSession,
        collection: Collection,
        provider: BatchProvider,
        stopped: Callable[[], bool],
    ) -> None:
        self._tools, self._session, self._collection = tools, session, collection
        self._provider, self._stopped = provider, stopped
        self._batches, self._requests = tools.ledger.batches, tools.ledger.batch_requests
        self.line_stopped: str | None = None

    def run(self, run_id: int) -> int:
        """Collect what has ended. Returns how many batches were settled.

        Raises:
            OutputStoreFullError: the disk is full; what was kept is derived from later.
        """
        settled = 0
        for batch in self._batches.of_run(run_id, BatchState.ENDED):
            if self._stopped():
                break
            lease_s = self._tools.timing.lease_s
            held = self._batches.take(batch["batch_id"], self._session.worker_id, lease_s, BatchState.ENDED)
            if held is None:
                continue
            self._session.hold(self._batches, held)
            try:
                settled += self._collect(batch, held)
            finally:
                self._batches.put_back(held, 0)  # does nothing once it is settled
                self._session.drop(self._batches, held)
        return settled

    def _collect(self, batch: Mapping[str, Any], held: Held) -> bool:
        counts = ("succeeded", "errored", "canceled", "expired")
        reading = Reading(
            expected=sum(batch[name] for name in counts), out_of_patience=batch["looks"] >= PATIENT_PASSES
        )
        sent = self._requests.sent(batch["batch_id"])
        self._derive_kept(batch, sent)
        failure: str | None = None
        for _ in range(MOST_READS):
            if self._stopped():
                return False
            try:
                reading.ended(self._read(batch, sent, reading))
            except ResultsUnreadable as error:
                failure = str(error)
                if error.gone:  # for ever; that hurts nobody if every answer was kept before
                    return self._batches.collected(held, failure) or self._batches.lose(held, failure)
            missing = [name for name in sent if name not in reading.seen]
            if not missing or reading.complete >= COMPLETE_READS:
                self._fail_missing(batch, sent, missing, reading)
                return self._settle(batch, held, reading)
        log.warning("message batch %s is read again later: %s", batch["provider_id"], failure)
        wait_s = READ_AGAIN_S * READ_AGAIN_FACTOR ** min(batch["looks"], PATIENT_PASSES)
        self._batches.put_back(held, wait_s, message=failure or "its results were cut short", looked=True)
        return False

    def _settle(self, batch: Mapping[str, Any], held: Held, reading: Reading) -> bool:
        settled = self._batches.collected(held, "; ".join(reading.remarks) or None)
        log.info("message batch %s: %s results, %s", batch["provider_id"], len(reading.seen), reading.remarks or "ok")
        return settled

    def _read(self, batch: Mapping[str, Any], sent: Mapping[str, SentRequest], reading: Reading) -> int:
        """Read the results once. Returns how many lines there were."""
        count, last = 0, b""
        with self._provider.result_lines(batch["provider_id"]) as lines, ThreadPoolExecutor(RECORDERS) as recorders:
            for part in slices(lines, SLICE):
                count, last = count + len(part), part[-1]
                self._take_in(batch, sent, list(fresh_lines(part, reading)), recorders)
                if self._stopped():
                    break
        return count - (count > 0 and read_result_line(last) is None)  # the last line may be half of one

    def _take_in(
        self,
        batch: Mapping[str, Any],
        sent: Mapping[str, SentRequest],
        lines: Sequence[ResultLine],
        recorders: ThreadPoolExecutor,
    ) -> None:
        """Keep the answers of some lines, then bring their rows to an end, several at a time."""
        bodies = {line.custom_id: kept_body(line.message) for line in lines if line.message is not None}
        answers = {line.custom_id: self._answer(batch, line, bodies[line.custom_id]) for line in lines if line.message}
        self._tools.ledger.attempts.answered_all({name: answer for name, answer in answers.items() if name in sent})
        for line in lines:
            if line.custom_id not in sent:
                self._requests.unexpected(batch, line.custom_id, answers.get(line.custom_id))
        ours = [line for line in lines if line.custom_id in sent]
        rows = self._requests.rows_of(batch["batch_id"], [sent[line.custom_id].result_id for line in ours])
        work = [
            Arrived(line=line, request=sent[line.custom_id], row=row, body=bodies.get(line.custom_id))
            for line in ours
            if (row := rows.get(sent[line.custom_id].result_id)) is not None
        ]
        rest = self._record_good(work, recorders)
        for _ in recorders.map(self._end_row, rest):
            pass

    def _record_good(self, work: Sequence[Arrived], recorders: ThreadPoolExecutor) -> list[Arrived]:
        """Write the good answers together. Returns what must be brought to its end one by one."""
        good: dict[Held, Recording] = {}
        for one in work:
            if one.body is None:
                continue
            try:
                judged = one.end(self._tools, self._collection).judge(one.request.attempt_id, one.body)
            except Exception:  # the worker's edge: it shows again, and is told, when the row is taken by itself
                log.exception("%s cannot be judged", one.row["document_key"])
                continue
            if isinstance(judged, Recording):
                good[one.held] = judged
        try:
            at_fault = self._tools.recorder.record_all(list(good.values()), recorders) if good else {}
        except OutputPathError:  # one of them, and nothing was changed: whose fault it is shows one by one
            return list(work)
        return [one for one in work if one.held not in good or one.held in at_fault]

    def _end_row(self, one: Arrived) -> None:
        """Bring one row to its end. What is wrong with it is its own affair: the others go on."""
        line, request, end = one.line, one.request, one.end(self._tools, self._collection)
        with end.edge():
            if one.body is not None:
                self._note(derive_or_decide(end, request.attempt_id, one.body))
            elif line.outcome is Outcome.CANCELED:
                self._close(line, request, Cause.BATCH_CANCELLED)
                self._tools.ledger.results.record_cancelled(one.held, line.detail)
            else:
                cause = line.cause or Cause.UNKNOWN_RESULT
                self._close(line, request, cause)
                self._note(settle(end, CallFailed(cause=cause, message=line.detail)))

    def _close(self, line: ResultLine, request: SentRequest, cause: Cause) -> None:
        """Close the attempt of a request without an answer: by the provider's rules it was not billed."""
        attempts = self._tools.ledger.attempts
        if line.outcome is Outcome.UNKNOWN:
            attempts.abandoned(request.attempt_id, line.custom_id, cause=cause, message=line.detail)
            return
        counted = POLICIES[cause].counted
        attempts.failed(
            request.attempt_id, line.custom_id, cause=cause, message=line.detail, counted=counted, request_id=None
        )

    def _answer(self, batch: Mapping[str, Any], line: ResultLine, body: str) -> Answer:
        message = line.message or {}
        usage, served_model = token_usage(message), message.get("model")
        sent_at = datetime.fromtimestamp(batch["created_ms"] / 1000, UTC)
        return Answer(
            response=body,
            request_id=None,
            served_model=served_model,
            stop_reason=message.get("stop_reason"),
            usage=usage,
            cost_usd=cost_usd(str(served_model), usage, at=sent_at, batch=True) if usage else None,
        )

    def _derive_kept(self, batch: Mapping[str, Any], sent: Mapping[str, SentRequest]) -> None:
        """Go on where an earlier collector died: answers that are kept need no second reading."""
        for part in slices(self._requests.kept_unjudged(batch["batch_id"]), SLICE):
            rows = self._requests.rows_of(batch["batch_id"], [result_id for _, result_id in part])
            for name, result_id in part:
                if (row := rows.get(result_id)) is not None:
                    body = self._requests.response_of(sent[name].attempt_id)
                    end = RowEnd(self._tools, self._collection, Held(result_id, row["generation"]), row)
                    with end.edge():
                        self._note(derive_or_decide(end, sent[name].attempt_id, body))

    def _fail_missing(
        self, batch: Mapping[str, Any], sent: Mapping[str, SentRequest], missing: Sequence[str], reading: Reading
    ) -> None:
        """Two complete reads left these requests out: their rows fail, and may be asked again by another run."""
        message = "the provider's results leave this request out"
        for part in slices(missing, SLICE):
            rows = self._requests.rows_of(batch["batch_id"], [sent[name].result_id for name in part])
            for name in part:
                row = rows.get(sent[name].result_id)
                if row is None:
                    continue
                reading.remark(f"{len(missing)} requests are missing from the results")
                cause = Cause.MISSING_FROM_RESULTS
                attempts = self._tools.ledger.attempts
                attempts.abandoned(sent[name].attempt_id, name, cause=cause, message=message)
                end = RowEnd(self._tools, self._collection, Held(row["result_id"], row["generation"]), row)
                end.give_up(cause, message, next_retry_s=MISSING_RETRY_S)

    def _note(self, stopped: str | None) -> None:
        self.line_stopped = self.line_stopped or stopped
