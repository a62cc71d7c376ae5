"""How a claimed row ends, or goes back to the queue: the same for a call's answer and for a batch's.

Everything here blocks on ledger and disk; an event loop calls it on a thread beside it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from extraction_assets.workers.asking import Asking
from extraction_assets.workers.tools import Tools
from extraction_core.answers import Rejected, judge, read_message
from extraction_core.calls import CallFailed
from extraction_core.causes import POLICIES, Cause, Remedy
from extraction_core.collection import Collection
from extraction_core.errors import OutputPathError, OutputStoreFullError
from extraction_core.retry import Decision, GiveUp, History, Requeue, RetryRules, decide
from resources.ledger.claims import Held
from resources.ledger.results import Failed
from resources.recorder import Recording

log = logging.getLogger(__name__)

DEFECT_RETRY_S = 60.0


class RowEnd:
    """The ends of one row.

    Args:
        tools: the resources.
        collection: the collection.
        held: the row, under the generation that is held.
        row: its columns.
    """

    def __init__(self, tools: Tools, collection: Collection, held: Held, row: Mapping[str, Any]) -> None:
        self._tools, self._collection, self._held, self._row = tools, collection, held, row
        self.asking = Asking(collection.question, row)

    @contextmanager
    def edge(self) -> Generator[None]:
        """Let whatever goes wrong with this row end it failed and nothing else: a bad row never costs a neighbour.

        Raises:
            OutputStoreFullError: that is the machine's fault, and the next row would meet it too.
        """
        try:
            yield
        except OutputStoreFullError:
            raise
        except OutputPathError as error:
            self.give_up(Cause.OUTPUT_NOT_WRITTEN, str(error))
        except Exception as error:  # a defect of ours
            log.exception("%s failed", self._row["document_key"])
            self.give_up(Cause.WORKER_ERROR, f"{type(error).__name__}: {error}", next_retry_s=DEFECT_RETRY_S)

    def judge(self, attempt_id: int, body: str) -> Recording | CallFailed:
        """Judge a kept answer: what is to be written, or why it cannot be used."""
        message = read_message(body) or {"content": []}
        judgement = judge(message, self._collection.validator)
        if isinstance(judgement, Rejected):
            return CallFailed(cause=judgement.cause, message=judgement.message)
        return Recording(
            held=self._held,
            attempt_id=attempt_id,
            collection=self._collection.name,
            document_key=self._row["document_key"],
            value=judgement.value,
            notes=judgement.notes,
        )

    def derive(self, attempt_id: int, body: str) -> CallFailed | None:
        """Judge a kept answer and write file and row. Returns why it cannot be used; None when it was or is superseded.

        Raises:
            OutputStoreError: the file could not be written; the answer is still kept.
        """
        judged = self.judge(attempt_id, body)
        if isinstance(judged, CallFailed):
            return judged
        if not self._tools.recorder.record(judged):
            log.info("%s is superseded", self._row["document_key"])
        return None

    def decide(self, failed: CallFailed) -> Decision:
        """Decide what follows from a failed try; its attempt must be closed."""
        policy = POLICIES[failed.cause]
        known = self._tools.ledger.attempts.history(self._held.row_id)
        history = History(
            counted_attempts=known["counted"],
            refusals_to_serve=known["refusals"] + (policy.remedy is Remedy.WAIT),
            same_remedy_used=policy.remedy in known["second_tries"] or self.asking.is_at_the_top(policy.remedy),
        )
        rules = RetryRules(
            max_attempts=self._collection.settings.max_attempts, retry_in_run_s=self._tools.timing.retry_in_run_s
        )
        return decide(failed.cause, history, rules, jitter=random.random(), retry_after_s=failed.retry_after_s)

    @property
    def refusals(self) -> int:
        """How often the provider did not serve this row before."""
        return self._row["refusals_to_serve"]

    def carry_out(self, decision: Requeue | GiveUp, failed: CallFailed, judged: int | None = None) -> None:
        """Write down what was decided; ``judged`` is the attempt whose answer was found unusable, if there was one."""
        match decision:
            case Requeue(wait_s=wait_s):
                waits = POLICIES[failed.cause].remedy is Remedy.WAIT
                self.requeue(failed.cause, failed.message, wait_s, judged=judged, refused=waits)
            case GiveUp(next_retry_s=next_retry_s, exhausted=exhausted):
                spent = f" (all {self._collection.settings.max_attempts} attempts are used)" if exhausted else ""
                self.give_up(failed.cause, failed.message + spent, next_retry_s=next_retry_s, judged=judged)

    def give_up(
        self, reason: str, message: str, *, next_retry_s: float | None = None, judged: int | None = None
    ) -> None:
        """End the row failed; see :class:`resources.ledger.results.Failed`."""
        failed = Failed(reason=reason, message=message, attempt_id=judged, next_retry_s=next_retry_s)
        self._tools.ledger.results.record_failed(self._held, failed)

    def requeue(
        self, reason: str, message: str, wait_s: float, *, judged: int | None = None, refused: bool = False
    ) -> None:
        """Give the row back for another try in ``wait_s`` seconds."""
        if self.asking.second_try and judged is None:  # it brought no answer, so it is still to be made
            reason, message = self._row["reason"], self._row["message"]
        failed = Failed(reason=reason, message=message, attempt_id=judged)
        self._tools.ledger.results.record_retry(self._held, failed, wait_s=wait_s, refused_to_serve=refused)
