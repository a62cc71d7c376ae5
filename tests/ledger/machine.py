"""The verbs of the ledger as the rules of a state machine: each is done to the ledger and to its model.

Workers use claims and attempts whenever they like, long after they lost them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from extraction_core.causes import Cause
from extraction_core.states import ACTIVE_ROW, AttemptStatus, RowStatus, RunStatus, Select
from resources.ledger.attempts import KeptAnswer, NotOpened, Opened
from resources.ledger.completions import Completed
from resources.ledger.queue import Held
from resources.ledger.tables import extraction_results
from tests.factories import a_failure, a_plan, a_request, a_selection, a_set, an_answer, an_output
from tests.ledger.model import LEASE_S, Model
from tests.ledger.model_checks import Seen, check, look
from tests.ledger.model_rows import ModelAttempt, ModelRow, ModelRun
from tests.ledger.support import execute

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.ledger import Ledger

DOCUMENTS = 3
MAX_ATTEMPTS = 2
# No sum of jumps is near a sum of leases or waits: what is expired or due does not hang on how fast the machine is.
JUMP_S = 20_000.0
LONG_WAIT_S = 50_000.0
PRICE = Decimal("0.001")

LATE_VERBS: dict[str, Callable[[LedgerMachine, Held], Any]] = {
    "heartbeat": lambda machine, held: machine.heartbeat(held, held),
    "release": lambda machine, held: machine.release(held, held),
    "retry": lambda machine, held: machine.retry(held, 0.0, refused=True),
    "fail": lambda machine, held: machine.fail(held),
    "complete": lambda machine, held: machine.complete(held),
    "complete_all": lambda machine, held: machine.complete_all(held, held),
    "open_attempt": lambda machine, held: machine.open_attempt(held),
}

numbers = count()


class LedgerMachine(RuleBasedStateMachine):
    """Drives the verbs of one ledger, each on a document set of its own."""

    claims = Bundle[Held]("claims")
    calls = Bundle[tuple[int, str]]("calls")
    runs = Bundle[int]("runs")

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger, self.threads = ledger, ThreadPoolExecutor(2)
        self.set = a_set(ledger, DOCUMENTS, collection=f"example {next(numbers)}")
        documents = [row["document_id"] for row in ledger.documents.of_set(self.set.set_id)]
        self.model = Model(documents=documents, max_attempts=MAX_ATTEMPTS)
        self.before = Seen({}, {}, {})
        self.tokens: dict[int, str] = {}
        self.cancelled = False
        self.first_run = self._open(Select.PENDING)
        self.fill(self.first_run)

    def teardown(self) -> None:
        """Let the threads go."""
        self.threads.shutdown()

    # runs

    @initialize(target=runs)
    def begin(self) -> int:
        return self.first_run

    @initialize(target=claims)
    def begin_with_claims(self) -> Any:
        return self.claim(self.first_run, "ada", DOCUMENTS - 1)

    @rule(target=runs, select=st.sampled_from([Select.PENDING, Select.ALL]))
    def open_run(self, select: Select) -> int:
        return self._open(select)

    @rule(target=runs, run_id=runs, select=st.sampled_from([Select.PENDING, Select.ALL]))
    def go_on_with_the_next_run(self, run_id: int, select: Select) -> int:
        self.seal(run_id)
        self.finalize(run_id)
        next_id = self._open(select)
        self.fill(next_id)
        return next_id

    def _open(self, select: Select) -> int:
        opened = self.ledger.runs.open_or_join(a_request(self.set, select=select))
        known = self.model.open_run()
        assert opened.joined is (known is not None)
        if known is None:
            self.model.runs[opened.run_id] = ModelRun(select=select)
        assert opened.run_id == self.model.open_run()
        return opened.run_id

    @rule(run_id=runs)
    def fill(self, run_id: int) -> None:
        expected = self.model.to_fill(run_id)
        selection = a_selection(self.set, select=self.model.runs[run_id].select, max_attempts=MAX_ATTEMPTS)
        assert self.ledger.runs.fill(run_id, selection) == len(expected)
        for result_id, row in look(self.ledger, self.set.collection).rows.items():
            if result_id not in self.model.rows:
                document = row["document_id"]
                self.model.rows[result_id] = ModelRow(run_id, document, expected.pop(document))
        assert expected == {}

    @rule(run_id=runs)
    def seal(self, run_id: int) -> None:
        assert self.ledger.runs.seal(run_id) == self.model.seal(run_id)

    @rule(run_id=runs)
    def finalize(self, run_id: int) -> None:
        assert (self.ledger.finalize(run_id) is not None) is self.model.finalize(run_id)

    @precondition(lambda self: not self.cancelled)  # once: after it, there is little left to do
    @rule(run_id=runs)
    def request_cancel(self, run_id: int) -> None:
        self.cancelled = True
        assert self.ledger.results.request_cancel(run_id) == self.model.request_cancel(run_id)

    # claims

    @rule(target=claims, run_id=runs, worker=st.sampled_from(["ada", "bob", "cem"]), limit=st.integers(1, 3))
    def claim(self, run_id: int, worker: str, limit: int) -> Any:
        claimed = [one.held for one in self.ledger.results.claim(worker, run_id, limit, LEASE_S)]
        assert claimed == self.model.claim(worker, run_id, limit)
        return multiple(*claimed)

    @rule(one=claims, other=claims)
    def heartbeat(self, one: Held, other: Held) -> None:
        held = sorted({one, other})
        assert self.ledger.results.heartbeat(held, LEASE_S) == self.model.heartbeat(held)

    @rule(run_id=runs)
    def reclaim(self, run_id: int) -> None:
        assert self.ledger.results.reclaim(run_id) == self.model.reclaim(run_id)

    @precondition(lambda self: self._is_active())
    @rule(target=claims, run_id=runs)
    def take_over_from_the_dead(self, run_id: int) -> Any:
        self.jump(2)
        self.reclaim(run_id)
        return self.claim(run_id, "successor", 3)

    @rule(one=claims, other=claims)
    def release(self, one: Held, other: Held) -> None:
        held = sorted({one, other})
        assert self.ledger.results.release(held) == sum(self.model.requeue(one, 0) is not None for one in held)
        self._let_pass(1)

    @precondition(lambda self: self._is_active())
    @rule(times=st.integers(1, 2))
    def jump(self, times: int) -> None:
        self._let_pass(JUMP_S * times)

    def _is_active(self) -> bool:
        return any(row.status in ACTIVE_ROW for row in self.model.rows.values())

    def _let_pass(self, seconds: float) -> None:
        self.model.now += seconds
        result, moved = extraction_results.c, int(seconds * 1000)
        back = {"due_ms": result.due_ms - moved, "lease_expires_ms": result.lease_expires_ms - moved}
        execute(self.ledger, sa.update(extraction_results).where(result.collection == self.set.collection).values(back))

    # calls

    @rule(target=calls, held=claims)
    def open_attempt(self, held: Held) -> Any:
        plan = a_plan()
        opened = self.ledger.attempts.open(held, plan, MAX_ATTEMPTS)
        row = self.model.held(held)
        if row is None:
            assert opened == NotOpened(cause=None)
            return multiple()
        question = (row.document_id, row.edition)
        if kept := self.model.kept_answer(question):
            assert isinstance(opened, KeptAnswer)
            assert opened.attempt_id == kept
            return multiple()
        self.model.abandon_open(held.row_id)
        if self.model.counted(question) >= MAX_ATTEMPTS:
            assert isinstance(opened, NotOpened)
            assert opened.cause is Cause.EXHAUSTED
            return multiple()
        assert isinstance(opened, Opened)
        self.model.attempts[opened.attempt_id] = ModelAttempt(held.row_id, row.run_id, question)
        assert opened.counted == self.model.counted(question)
        self.tokens[opened.attempt_id] = plan.token
        return opened.attempt_id, plan.token

    @rule(call=calls, cost_usd=st.sampled_from([PRICE, None]))
    def answered(self, call: tuple[int, str], cost_usd: Decimal | None) -> None:
        kept = self.ledger.attempts.answered(*call, an_answer(cost_usd=cost_usd))
        assert kept is self.model.close(call[0], AttemptStatus.ANSWERED, cost_usd)

    @rule(target=calls, held=claims)
    def call(self, held: Held) -> Any:
        opened = self.open_attempt(held)
        if isinstance(opened, tuple):
            self.answered(opened, PRICE)
        return opened

    @rule(target=calls, held=claims)
    def calls_that_are_never_answered(self, held: Held) -> Any:
        opened = [self.open_attempt(held) for _ in range(MAX_ATTEMPTS + 1)]
        return multiple(*(one for one in opened if isinstance(one, tuple)))

    @rule(call=calls, counted=st.booleans())
    def refused(self, call: tuple[int, str], counted: bool) -> None:  # noqa: FBT001 - drawn
        why = {"cause": Cause.RATE_LIMITED, "message": "no", "counted": counted, "request_id": None}
        assert self.ledger.attempts.failed(*call, **why) is self.model.close(
            call[0], AttemptStatus.FAILED, Decimal(0), counted=counted
        )

    @rule(call=calls)
    def abandoned(self, call: tuple[int, str]) -> None:
        closed = self.ledger.attempts.abandoned(*call, cause=Cause.TIMEOUT, message="no answer")
        assert closed is self.model.close(call[0], AttemptStatus.ABANDONED, None)

    @rule(call=calls)
    def answered_under_a_false_token(self, call: tuple[int, str]) -> None:
        assert not self.ledger.attempts.answered(call[0], "another token", an_answer())

    # ends

    @rule(held=claims)
    def complete(self, held: Held) -> None:
        attempt_id, published = self.model.answer_for(held), list[int]()
        won = self.ledger.results.record_completed(held, an_output(), attempt_id, lambda: published.append(held.row_id))
        before = self.model.rows[held.row_id].published
        assert won is self.model.complete(held, attempt_id)
        assert len(published) == self.model.rows[held.row_id].published - before

    @rule(first=claims, second=claims)
    def complete_all(self, first: Held, second: Held) -> None:
        held = [first] if first.row_id == second.row_id else [first, second]
        published: list[int] = []
        done = [
            Completed(
                held=one,
                output=an_output(),
                attempt_id=self.model.answer_for(one),
                publish=lambda row_id=one.row_id: published.append(row_id),
            )
            for one in held
        ]
        expected = {one for one in held if self.model.held(one)}
        for one in done:
            self.model.complete(one.held, one.attempt_id)
        assert self.ledger.results.record_all_completed(done, self.threads) == expected
        assert sorted(published) == sorted(one.row_id for one in expected)

    @rule(held=claims)
    def fail(self, held: Held) -> None:
        failed = a_failure(attempt_id=self.model.answer_for(held))
        assert self.ledger.results.record_failed(held, failed) == self.model.fail(held, failed)

    @rule(held=claims, wait_s=st.sampled_from([0.0, LONG_WAIT_S]), refused=st.booleans())
    def retry(self, held: Held, wait_s: float, refused: bool) -> None:  # noqa: FBT001 - drawn
        failed = a_failure(attempt_id=self.model.answer_for(held))
        status = self.ledger.results.record_retry(held, failed, wait_s=wait_s, refused_to_serve=refused)
        assert status == self.model.requeue(held, wait_s, failed, refused=refused)
        self._let_pass(1)

    @precondition(lambda self: self.cancelled)  # it cancels what it was asked to
    @rule(held=claims)
    def cancelled_by_the_provider(self, held: Held) -> None:
        assert self.ledger.results.record_cancelled(held, "cancelled") is self.model.cancelled(held)

    # late writes, which chance alone would seldom bring at the right moment

    def _lost(self) -> list[Held]:
        running = ((result_id, row) for result_id, row in self.model.rows.items() if row.status is RowStatus.RUNNING)
        return [Held(result_id, row.generation - 1) for result_id, row in running if row.generation > 1]

    @precondition(lambda self: bool(self._lost()))
    @rule(verb=st.sampled_from(sorted(LATE_VERBS)), place=st.integers(0, DOCUMENTS - 1))
    def who_lost_a_row_to_another_comes_back(self, verb: str, place: int) -> None:
        lost = self._lost()
        LATE_VERBS[verb](self, lost[place % len(lost)])

    def _missed(self) -> list[int]:
        closed = {run_id for run_id, run in self.model.runs.items() if run.status is not RunStatus.OPEN}
        calls = self.model.attempts.items()
        return [one for one, call in calls if call.run_id in closed and call.status is AttemptStatus.ABANDONED]

    @precondition(lambda self: bool(self._missed()))
    @rule()
    def an_answer_comes_after_its_run_was_closed(self) -> None:
        attempt_id = self._missed()[0]
        self.answered((attempt_id, self.tokens[attempt_id]), PRICE)

    @invariant()
    def the_ledger_is_as_its_model_says(self) -> None:
        seen = look(self.ledger, self.set.collection)
        check(seen, self.before, self.model, MAX_ATTEMPTS)
        self.before = seen
