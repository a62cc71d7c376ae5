"""One pass over a document set: prepare, parse, open or join the extraction run, extract, close.

Called by whoever launches: the asset of a Dagster run, a test, a benchmark. The calling thread stays free to report
progress and to be interrupted; the work has a thread of its own, so an interruption never lands in the middle of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from extraction_assets.workers.document_task import LineStopped
from extraction_assets.workers.extract_worker import Ending, ExtractOutcome, Stop, StopSignal
from extraction_assets.workers.extraction import extract
from extraction_assets.workers.orders import Order, ProgressLine, Report, Result
from extraction_assets.workers.parse_plan import ParsePlan, current_question
from extraction_assets.workers.parse_worker import ParseWorker
from extraction_assets.workers.parsers import Parsers
from extraction_assets.workers.prepare import prepare_set
from extraction_assets.workers.session import WorkerSession
from extraction_assets.workers.tools import Tools
from extraction_core.collection import Collection
from extraction_core.errors import ConfigurationError
from extraction_core.pricing import TokenUsage, cost_usd
from extraction_core.states import ACTIVE_ROW, RowStatus, Select
from resources.extraction.access import Access, access_from
from resources.ledger.documents import DocumentSet
from resources.ledger.runs import OpenRun, RunRequest
from resources.ledger.selection import Selection
from sensors.parse_watch import look_after_parse_jobs

PROGRESS_EVERY_S = 5.0
LOOK_EVERY_S = 0.5
LONGEST_END_S = 10.0
"""How long an interrupted pass waits for its worker's thread, after the worker was given time to end its calls."""
FAULT_WAIT_S = 600.0
"""After a stopped line or a fault the sensors leave a set alone for this long: it needs a person, not another run."""


class SetRun:
    """One pass over one document set.

    Args:
        tools: the resources.
        collection: the collection.
        document_set: the set.
        order: what is asked for.
        say: receives a line every few seconds, on the calling thread.
    """

    def __init__(
        self, tools: Tools, collection: Collection, document_set: DocumentSet, order: Order, say: Callable[[str], None]
    ) -> None:
        self._tools, self._collection, self._set, self._order, self._say = tools, collection, document_set, order, say
        self._begun = time.monotonic()
        self._said_at = self._begun

    def run(self) -> Report:
        """Do the pass.

        Raises:
            ConfigurationError: no key and no address, an unreadable source, a budget that cannot be kept; nothing was
                claimed.
            BaseException: an interruption, after everything held was released or cancelled.
        """
        access = access_from() if self._order.extract else None
        self._check_budget()
        self._tools.outputs.sweep(self._collection.name)
        self._tools.parsed.sweep()
        session = WorkerSession(
            self._tools.ledger,
            self._tools.timing,
            collection=self._collection.name,
            set_id=self._set.set_id,
            dagster_run_id=self._order.dagster_run_id,
        )
        with session:
            try:
                self._parse(session)
                report = self._extract(session, access) if access else self._report(Result.PARSED, None)
                return self._with_parse_jobs(report)
            except LineStopped as stopped:  # by the parse service; the calls' own is an outcome of the extraction
                self._tools.ledger.launches.hold(self._set.set_id, FAULT_WAIT_S)
                return self._report(Result.LINE_STOPPED, None, str(stopped))
            except Exception:  # a source that is gone, a full disk: the next pass would end the same way
                self._tools.ledger.launches.hold(self._set.set_id, FAULT_WAIT_S)
                raise

    def _parse(self, session: WorkerSession) -> None:
        with Parsers(self._collection, self._tools.parse_provider) as parsers:
            again = self._order.select in (Select.FAILED, Select.ALL)  # what only a person asks for
            self._tools.ledger.launches.begun(self._set.set_id, current_question(self._collection, parsers))
            look_after_parse_jobs(self._tools.ledger, self._tools.parsed, settle_s=self._tools.timing.batch_settle_s)
            prepare_set(self._tools, self._collection, self._set, parsers, again=again)
            self._parse_queued(session, parsers)
            if ParsePlan(self._tools, self._collection, parsers).fall_back(self._set):
                self._parse_queued(session, parsers)

    def _parse_queued(self, session: WorkerSession, parsers: Parsers) -> None:
        worker = ParseWorker(self._tools, session, self._collection, parsers, self._set.set_id)
        worker.run(lambda: self._progress(self._parse_line))

    def _extract(self, session: WorkerSession, access: Access) -> Report:
        run = self._open_run()
        if run is None:
            return self._report(Result.NOTHING_TO_DO, None)
        self._tools.ledger.results.reclaim(run.run_id)
        outcome = self._work(session, access, run.run_id)
        self._tools.ledger.finalize(run.run_id)
        match outcome.ending:
            case Ending.FINISHED:
                return self._report(Result.CLOSED, run.run_id)
            case Ending.HELD_BY_OTHERS:
                return self._report(Result.HELD_BY_OTHERS, run.run_id, ", ".join(outcome.holders))
            case Ending.SUBMITTED:
                return self._report(Result.SUBMITTED, run.run_id, outcome.reason)
            case _:
                self._tools.ledger.launches.hold(self._set.set_id, FAULT_WAIT_S)
                return self._report(Result.LINE_STOPPED, run.run_id, outcome.reason)

    def _with_parse_jobs(self, report: Report) -> Report:
        """What a parse service is still making is taken up by another run: so far the set is only submitted."""
        jobs = self._tools.ledger.parse_jobs.open_of_set(self._set.set_id)
        if not jobs or report.result is Result.LINE_STOPPED:
            return report
        held = Result.HELD_BY_OTHERS if report.result is Result.HELD_BY_OTHERS else Result.SUBMITTED
        made = f"{len(jobs)} parse jobs ({jobs[0]['document_key']}{' and others' if len(jobs) > 1 else ''})"
        return replace(report, result=held, reason=", ".join(filter(None, [report.reason, made])))

    def _open_run(self) -> OpenRun | None:
        """Open a run, or join the open one; fill and seal it. None when there is nothing to do."""
        runs, order = self._tools.ledger.runs, self._order
        if runs.open_of_set(self._set.set_id) is None and not runs.selects(
            self._selection(order.select, order.documents)
        ):
            self._settle_marks(order.select, order.documents)
            return None
        run = runs.open_or_join(
            RunRequest(
                set_id=self._set.set_id,
                collection=self._collection.name,
                select=order.select,
                documents=order.documents,
                model=self._collection.settings.model,
                max_cost_usd=self._collection.max_cost_usd,
                dagster_run_id=order.dagster_run_id,
            )
        )
        if run.joined:
            self._say(f"joined extraction run {run.run_id}, which was open already (select: {run.select})")
        if not run.sealed:
            self._fill(run)
        return run

    def _fill(self, run: OpenRun) -> None:
        runs, selected = self._tools.ledger.runs, self._selection(run.select, run.documents)
        runs.fill(run.run_id, selected)
        runs.seal(run.run_id)
        if elsewhere := runs.active_elsewhere(run.run_id, selected):
            self._say(f"left {elsewhere} documents to another extraction run, which is at work on them")
        self._settle_marks(run.select, run.documents)

    def _settle_marks(self, select: Select, documents: Sequence[str] | None) -> None:
        """A pass that looked at everything that was due leaves no mark on what it had nothing to ask of."""
        if documents is None and select in (Select.PENDING, Select.DUE):
            self._tools.ledger.launches.settle_marks(self._set.set_id)

    def _work(self, session: WorkerSession, access: Access, run_id: int) -> ExtractOutcome:
        """Run the worker on a thread of its own; report and listen for interruptions on this one."""
        stop = StopSignal()
        finished = threading.Event()
        outcomes: list[ExtractOutcome | BaseException] = []

        def work() -> None:
            try:
                outcomes.append(extract(self._tools, session, self._collection, access, run_id, stop))
            except BaseException as error:  # handed to the calling thread, which raises it  # noqa: BLE001 - raised by the calling thread
                outcomes.append(error)
            finally:
                finished.set()

        thread = threading.Thread(target=work, name="extract", daemon=True)
        thread.start()
        try:
            while not finished.wait(LOOK_EVERY_S):
                self._progress(lambda: self._extract_line(run_id))
        except BaseException:
            self._interrupt(session, stop, run_id, finished)
            # not longer: a batch that is being sent may take minutes to answer, and is found again by its reservation
            thread.join(LONGEST_END_S)
            raise
        thread.join()
        outcome = outcomes[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _interrupt(self, session: WorkerSession, stop: StopSignal, run_id: int, finished: threading.Event) -> None:
        """A person's cancel ends the run's rows, if nobody else works on it; anything else leaves them for later."""
        cancelled = self._order.is_cancelled()
        stop.ask(Stop.CANCELLED if cancelled else Stop.INTERRUPTED)
        ledger = self._tools.ledger
        alone = not ledger.workers.others_alive(self._set.set_id, session.worker_id)
        if cancelled and alone:
            ledger.results.request_cancel(run_id)
        finished.wait(self._tools.timing.cancel_grace_s + self._tools.timing.heartbeat_s)
        session.release_all()
        if cancelled:
            ledger.finalize(run_id)

    def _report(self, result: Result, run_id: int | None, reason: str = "") -> Report:
        return Report(
            result=result,
            run=self._tools.ledger.runs.get(run_id) if run_id else None,
            seconds=time.monotonic() - self._begun,
            reason=reason,
            unknown_documents=self._unknown_documents(),
        )

    def _unknown_documents(self) -> tuple[str, ...]:
        if self._order.documents is None:
            return ()
        known = {row["document_key"] for row in self._tools.ledger.documents.of_set(self._set.set_id)}
        return tuple(key for key in self._order.documents if key not in known)

    def _selection(self, select: Select, documents: Sequence[str] | None) -> Selection:
        return Selection(
            set_id=self._set.set_id,
            select=select,
            keys=documents,
            max_attempts=self._collection.settings.max_attempts,
        )

    def _check_budget(self) -> None:
        """A budget can only be kept for a model whose price is known."""
        model = self._collection.settings.model
        nothing = TokenUsage(
            input_tokens=0, cache_write_5m_tokens=0, cache_write_1h_tokens=0, cache_read_tokens=0, output_tokens=0
        )
        if (
            self._collection.max_cost_usd is None
            or cost_usd(model, nothing, at=datetime.now(UTC), batch=False) is not None
        ):
            return
        raise ConfigurationError(
            self._collection.defs_file,
            "max_cost_usd",
            f"cannot be kept: the price of {model!r} is not known.",
            "Correct `model`, or remove `max_cost_usd`.",
        )

    def _progress(self, line: Callable[[], str]) -> None:
        if time.monotonic() - self._said_at >= PROGRESS_EVERY_S:
            self._said_at = time.monotonic()
            self._say(line())

    def _parse_line(self) -> str:
        counts = self._tools.ledger.reports.parse_counts(self._set.set_id)
        return f"parsing: {counts['parsed']}/{counts['documents']} documents, {counts['failed']} failed"

    def _extract_line(self, run_id: int) -> str:
        counts = self._tools.ledger.results.stats(run_id).counts
        done = sum(number for status, number in counts.items() if status not in ACTIVE_ROW)
        return str(
            ProgressLine(
                total=sum(counts.values()),
                done=done,
                failed=counts.get(RowStatus.FAILED, 0),
                cost_usd=self._tools.ledger.reports.run_usage(run_id)["cost_usd"],
                per_second=done / (time.monotonic() - self._begun),
            )
        )
