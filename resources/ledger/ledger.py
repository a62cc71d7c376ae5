"""The ledger as one object: an engine and the parts that speak SQL through it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import exc

from extraction_core.errors import LedgerError
from extraction_core.failpoints import Failpoints, no_failpoints
from resources.ledger import finalization, migrate
from resources.ledger.attempts import Attempts
from resources.ledger.batch_requests import BatchRequests
from resources.ledger.batches import Batches
from resources.ledger.documents import Documents
from resources.ledger.engine import LedgerEngine
from resources.ledger.launches import Launches
from resources.ledger.parse_jobs import ParseJobs
from resources.ledger.parses import Parses
from resources.ledger.reports import Reports
from resources.ledger.results import Results
from resources.ledger.runs import Runs
from resources.ledger.workers import Workers


class Ledger:
    """Documents, parse runs and jobs, extraction runs and results, attempts, batches and workers of one database.

    Opening brings the database to the newest schema under a lock; several processes may open at once.

    Args:
        url: ``sqlite:////absolute/file`` or ``postgresql://…``.
        failpoints: called right before each commit; does nothing in production.

    Raises:
        SchemaTooNewError: the database was migrated by a newer version of this project.
        LedgerError: the database refuses us, or has not answered for a minute and a half.
    """

    def __init__(self, url: str, failpoints: Failpoints = no_failpoints) -> None:
        self.engine = LedgerEngine(url, failpoints)
        try:
            migrate.upgrade(self.engine)
        except exc.DBAPIError as error:
            self.engine.close()
            reason = " ".join(str(error.orig).split())
            msg = f"The ledger at {self.engine.url} cannot be used: {reason}. Check EXTRACTION_LEDGER_URL."
            raise LedgerError(msg) from error
        except BaseException:
            self.engine.close()
            raise
        self.documents = Documents(self.engine)
        self.parses = Parses(self.engine)
        self.parse_jobs = ParseJobs(self.engine)
        self.runs = Runs(self.engine)
        self.results = Results(self.engine)
        self.attempts = Attempts(self.engine)
        self.batches = Batches(self.engine)
        self.batch_requests = BatchRequests(self.engine)
        self.workers = Workers(self.engine)
        self.launches = Launches(self.engine)
        self.reports = Reports(self.engine)

    def finalize(self, run_id: int) -> Mapping[str, Any] | None:
        """Close a run if nothing of it is unfinished. Returns the closed run for the one call that closed it."""
        return finalization.finalize(self.engine, run_id)

    def close(self) -> None:
        """Close all connections."""
        self.results.close()
        self.engine.close()
