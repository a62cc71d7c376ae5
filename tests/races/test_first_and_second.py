"""Two connections at one row: the first stops before its commit, the second comes meanwhile.

On PostgreSQL it is seen that the second waits for the first one's lock, or passes it over where it should. SQLite lets
one writer in at a time; there the second has to be told the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from extraction_core.failpoints import Failpoint
from tests.ledger.support import PATIENCE_S, HoldAt, in_background, one_row, only_postgres, wait_until_blocked
from tests.races.contests import an_answered_row
from tests.races.contests_of_calls import CONTESTS_OF_CALLS
from tests.races.contests_of_rows import CONTESTS_OF_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.ledger import Ledger
    from tests.conftest import MakeLedger
    from tests.races.contests import Contest


@pytest.mark.parametrize(
    "stage", [*CONTESTS_OF_ROWS, *CONTESTS_OF_CALLS], ids=lambda stage: stage.__name__.replace("_", " ")
)
def test_who_comes_second_is_told_so_and_changes_nothing_of_what_the_first_has_done(
    ledger: Ledger, make_ledger: MakeLedger, database_url: str, stage: Callable[[Ledger], Contest]
) -> None:
    contest = stage(ledger)
    hold = HoldAt(contest.at)
    slow, other = make_ledger(hold), make_ledger()
    with in_background(lambda: contest.first(slow)) as first:
        hold.wait()
        with in_background(lambda: contest.second(other)) as second:
            if not ledger.engine.is_sqlite:
                if contest.waits:
                    wait_until_blocked(database_url)
                else:
                    second.result(PATIENCE_S)
            hold.go_on()
            assert (first.result(), second.result()) == contest.told
    assert contest.after() == contest.leaves


@only_postgres
def test_who_looks_before_the_last_row_s_commit_leaves_the_run_to_the_next_look(
    ledger: Ledger, make_ledger: MakeLedger
) -> None:
    row, hold = an_answered_row(ledger), HoldAt(Failpoint.COMMIT_COMPLETE)
    slow = make_ledger(hold)
    with in_background(lambda: row.complete(slow)) as completing:
        hold.wait()
        assert ledger.finalize(row.run_id) is None
        hold.go_on()
        assert completing.result()
    assert one_row(ledger, "extraction_runs")["status"] == "open"
    assert ledger.finalize(row.run_id) is not None
