"""A parse worker's rows, claimed and ended by the slice: what many documents would each ask of the ledger alone.

How many rows are in hand follows how fast they end, so that a worker of small files asks seldom and one of large files
takes no more than it is at work on; another worker of the set gets the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extraction_assets.workers.session import WorkerSession
from extraction_assets.workers.tools import Tools
from extraction_core.parsing import ParseFailure
from resources.ledger.claims import Claimed

MOST_IN_HAND = 64
"""Rows that lie still until their lease runs out if the process is killed."""
SLICES_IN_HAND = 2
"""One that is worked on while the other is claimed."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A claimed parse run, and the document whose bytes are read.

    The row may be another set's with the same bytes, so this set's own document is read.
    """

    claim: Claimed
    document_key: str


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What came of a task: what is said of the text, why there is none, or None for a row that is ours no more."""

    claim: Claimed
    outcome: Mapping[str, Any] | ParseFailure | None


class ParseRows:
    """Claims and ends rows of one document set, for one thread.

    Args:
        tools: the resources.
        session: keeps the leases.
        set_id: the document set.
        at_once: documents that are worked on at a time.
    """

    def __init__(self, tools: Tools, session: WorkerSession, set_id: int, at_once: int) -> None:
        self._tools, self._session, self._set_id = tools, session, set_id
        self._queue = tools.ledger.parses
        self._fewest = at_once * 2
        self._wanted = self._fewest

    def claim(self, in_hand: int) -> list[Task]:
        """Claim what is missing to the number that should be in hand, once half of it is gone."""
        if in_hand > self._wanted // 2:
            return []
        limit, lease_s = self._wanted - in_hand, self._tools.timing.lease_s
        claimed = self._queue.claim(self._session.worker_id, self._set_id, limit, lease_s)
        for claim in claimed:
            self._session.hold(self._queue, claim.held)
        keys = self._queue.keys_in_set(self._set_id, {claim.held.row_id for claim in claimed}) if claimed else {}
        return [
            Task(claim=claim, document_key=keys.get(claim.held.row_id) or claim.row["document_key"])
            for claim in claimed
        ]

    def end(self, ended: Sequence[Ended]) -> None:
        """Write a slice down in one transaction; when that fails, one by one, so that none costs a neighbour.

        Raises:
            Exception: a row could not be written; the others were.
        """
        self._wanted = min(MOST_IN_HAND, max(self._fewest, SLICES_IN_HAND * len(ended)))
        try:
            self._write(ended)
        except Exception:
            if len(ended) == 1:
                raise
            self._write_singly(ended)

    def _write_singly(self, ended: Sequence[Ended]) -> None:
        faults: list[Exception] = []
        for one in ended:
            try:
                self._write([one])
            except Exception as error:
                log.exception("what came of %s could not be written down", one.claim.row["document_key"])
                faults.append(error)
        if faults:
            raise faults[0]

    def _write(self, ended: Sequence[Ended]) -> None:
        parsed: dict[Any, Mapping[str, Any]] = {}
        failed: dict[Any, ParseFailure] = {}
        for one in ended:
            if isinstance(one.outcome, ParseFailure):
                failed[one.claim.held] = one.outcome
            elif one.outcome is not None:
                parsed[one.claim.held] = one.outcome
        if parsed or failed:
            self._queue.record_all(parsed, failed)
        for one in ended:
            self._session.drop(self._queue, one.claim.held)
