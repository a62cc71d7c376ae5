"""Extraction runs: opened once per set, filled whatever crashes, sealed once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from extraction_core.failpoints import Failpoint
from extraction_core.states import Select
from resources.ledger import runs
from tests.factories import (
    Crash,
    CrashAt,
    a_document,
    a_request,
    a_run,
    a_selection,
    a_set,
    claim_one,
    fingerprint,
)
from tests.ledger.support import (
    HoldAt,
    end,
    execute,
    in_background,
    one_row,
    only_postgres,
    rows,
    together,
    wait_until_blocked,
)

if TYPE_CHECKING:
    from resources.ledger import Ledger
    from resources.ledger.documents import DocumentSet
    from tests.conftest import MakeLedger

KEYS = [a_document(number).key for number in range(3)]


def test_opening_a_run_writes_what_was_asked(ledger: Ledger, document_set: DocumentSet) -> None:
    request = a_request(
        document_set, select=Select.FAILED, documents=["a", "b"], max_cost_usd=Decimal("5.00"), dagster_run_id="dagster"
    )
    opened = ledger.runs.open_or_join(request)
    row = one_row(ledger, "extraction_runs")
    assert (opened.run_id, opened.joined, opened.sealed) == (row["run_id"], False, False)
    assert (opened.select, opened.documents) == (Select.FAILED, ["a", "b"])
    asked = (row["set_id"], row["collection"], row["selection"], row["selected_keys"], row["model"])
    assert asked == (document_set.set_id, "servers", "failed", ["a", "b"], request.model)
    assert (row["status"], row["max_cost_usd"], row["dagster_run_id"]) == ("open", Decimal(5), "dagster")


def test_a_second_opener_joins_the_open_run_with_what_that_one_asked(ledger: Ledger, document_set: DocumentSet) -> None:
    first = ledger.runs.open_or_join(a_request(document_set, select=Select.ALL, documents=KEYS[:1]))
    before = rows(ledger, "extraction_runs")
    second = ledger.runs.open_or_join(a_request(document_set, select=Select.PENDING))
    assert (second.run_id, second.joined, second.select, second.documents) == (first.run_id, True, Select.ALL, KEYS[:1])
    assert rows(ledger, "extraction_runs") == before


def test_of_two_that_open_at_one_moment_one_opens_and_one_joins(
    ledger: Ledger, make_ledger: MakeLedger, document_set: DocumentSet
) -> None:
    ledgers = [make_ledger(), make_ledger()]
    opened = together(2, lambda number: ledgers[number].runs.open_or_join(a_request(document_set)))
    assert sorted(run.joined for run in opened) == [False, True]
    assert {run.run_id for run in opened} == {one_row(ledger, "extraction_runs")["run_id"]}


@only_postgres
def test_opening_while_the_open_run_closes_opens_the_next_one(
    ledger: Ledger, make_ledger: MakeLedger, document_set: DocumentSet
) -> None:
    closing = a_run(ledger, document_set, keys=[])
    opener = make_ledger()

    def close_after_insert(_c: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT INTO extraction_runs"):
            ledger.finalize(closing)

    event.listen(opener.engine.raw, "after_cursor_execute", close_after_insert)
    opened = opener.runs.open_or_join(a_request(document_set))
    assert not opened.joined
    assert [(row["run_id"], row["status"]) for row in rows(ledger, "extraction_runs")] == [
        (closing, "completed"),
        (opened.run_id, "open"),
    ]


def test_sets_have_open_runs_of_their_own(ledger: Ledger, document_set: DocumentSet) -> None:
    other = a_set(ledger, 1, collection="other", folder="elsewhere")
    here, there = (ledger.runs.open_or_join(a_request(each)) for each in (document_set, other))
    assert (here.joined, there.joined) == (False, False)
    assert (ledger.runs.open_of_set(document_set.set_id), ledger.runs.open_of_set(other.set_id)) == (
        here.run_id,
        there.run_id,
    )


def test_a_closed_run_is_not_the_open_run_of_its_set(ledger: Ledger, document_set: DocumentSet) -> None:
    end(ledger, document_set, "completed", "completed", "completed")
    assert ledger.runs.open_of_set(document_set.set_id) is None


def test_filling_enqueues_one_row_per_document_with_its_question(ledger: Ledger, document_set: DocumentSet) -> None:
    run_id = ledger.runs.open_or_join(a_request(document_set)).run_id
    assert ledger.runs.fill(run_id, a_selection(document_set)) == 3
    asked = [(row["document_key"], row["input_fingerprint"], row["edition"], row["status"])
             for row in rows(ledger, "extraction_results")]  # fmt: skip
    assert asked == [(key, fingerprint(f"{key} q"), 0, "queued") for key in KEYS]


def test_filling_again_adds_nothing(ledger: Ledger, document_set: DocumentSet) -> None:
    run_id = a_run(ledger, document_set, seal=False)
    before = rows(ledger, "extraction_results")
    assert ledger.runs.fill(run_id, a_selection(document_set)) == 0
    assert rows(ledger, "extraction_results") == before


def test_filling_again_in_the_next_edition_adds_nothing(ledger: Ledger, document_set: DocumentSet) -> None:
    end(ledger, document_set, "completed", "completed", "failed")
    run_id = a_run(ledger, document_set, select=Select.ALL, seal=False)
    before = rows(ledger, "extraction_results")
    assert ledger.runs.fill(run_id, a_selection(document_set, select=Select.ALL)) == 0
    assert rows(ledger, "extraction_results") == before


def test_a_fill_that_crashed_is_finished_by_the_next_one(
    ledger: Ledger, make_ledger: MakeLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "SLICE", 2)
    document_set = a_set(ledger, 7)
    crashing = make_ledger(CrashAt(Failpoint.COMMIT_ENQUEUE, on_pass=3))
    run_id = crashing.runs.open_or_join(a_request(document_set)).run_id
    with pytest.raises(Crash):
        crashing.runs.fill(run_id, a_selection(document_set))
    assert len(rows(ledger, "extraction_results")) == 4
    joined = ledger.runs.open_or_join(a_request(document_set))
    assert (joined.run_id, joined.sealed) == (run_id, False)
    assert ledger.runs.fill(run_id, a_selection(document_set)) == 3
    assert ledger.runs.seal(run_id) == 7


def test_fillers_at_one_moment_enqueue_each_document_once(ledger: Ledger, make_ledger: MakeLedger) -> None:
    document_set = a_set(ledger, 40)
    run_id = ledger.runs.open_or_join(a_request(document_set)).run_id
    ledgers = [make_ledger() for _ in range(4)]
    filled = together(4, lambda number: ledgers[number].runs.fill(run_id, a_selection(document_set)))
    assert sum(filled) == 40
    assert len(rows(ledger, "extraction_results")) == 40


def test_sealing_counts_the_rows_once(ledger: Ledger, document_set: DocumentSet) -> None:
    run_id = a_run(ledger, document_set, seal=False)
    assert ledger.runs.seal(run_id) == 3
    before = ledger.runs.get(run_id)
    assert (before["sealed"], before["request_count"]) == (True, 3)
    assert ledger.runs.seal(run_id) is None
    assert ledger.runs.get(run_id) == before


def test_a_closed_run_is_not_sealed_again(ledger: Ledger, document_set: DocumentSet) -> None:
    run_id = a_run(ledger, document_set, keys=[])
    closed = ledger.finalize(run_id)
    execute(ledger, "UPDATE extraction_runs SET sealed = false")
    assert ledger.runs.seal(run_id) is None
    assert closed is not None
    assert ledger.runs.get(run_id) == {**closed, "sealed": False}


def test_nothing_is_added_to_a_sealed_run(ledger: Ledger, document_set: DocumentSet) -> None:
    run_id = a_run(ledger, document_set, keys=KEYS[:1])
    assert ledger.runs.fill(run_id, a_selection(document_set)) == 0
    assert [row["document_key"] for row in rows(ledger, "extraction_results")] == KEYS[:1]


@only_postgres
def test_a_seal_counts_what_is_being_filled_at_that_moment(
    ledger: Ledger, make_ledger: MakeLedger, database_url: str, document_set: DocumentSet
) -> None:
    hold = HoldAt(Failpoint.COMMIT_ENQUEUE)
    filler = make_ledger(hold)
    run_id = ledger.runs.open_or_join(a_request(document_set)).run_id
    with in_background(lambda: filler.runs.fill(run_id, a_selection(document_set))) as filling:
        hold.wait()
        with in_background(lambda: ledger.runs.seal(run_id)) as sealing:
            wait_until_blocked(database_url)
            hold.go_on()
            assert (filling.result(), sealing.result()) == (3, 3)


@only_postgres
def test_a_run_is_not_sealed_between_a_fill_s_look_at_it_and_its_rows(
    ledger: Ledger, make_ledger: MakeLedger, database_url: str, document_set: DocumentSet
) -> None:
    run_id, filler, sealing = a_run(ledger, document_set, keys=[], seal=False), make_ledger(), []
    with ThreadPoolExecutor(1) as pool:

        def seal_after_the_look(_c: object, _cursor: object, statement: str, *_: object) -> None:
            if "FROM extraction_runs" in statement and not sealing:
                sealing.append(pool.submit(ledger.runs.seal, run_id))
                wait_until_blocked(database_url, unless=sealing[0])

        event.listen(filler.engine.raw, "after_cursor_execute", seal_after_the_look)
        assert filler.runs.fill(run_id, a_selection(document_set)) == 3
    assert sealing[0].result() == 3


def test_filling_and_sealing_at_one_moment_leave_a_count_that_fits_the_rows(
    ledger: Ledger, make_ledger: MakeLedger
) -> None:
    document_set = a_set(ledger, 30)
    run_id = ledger.runs.open_or_join(a_request(document_set)).run_id
    ledgers = [make_ledger() for _ in range(4)]

    def fill_or_seal(number: int) -> None:
        ledgers[number].runs.fill(run_id, a_selection(document_set))
        ledgers[number].runs.seal(run_id)

    together(4, fill_or_seal)
    assert ledger.runs.get(run_id)["request_count"] == len(rows(ledger, "extraction_results")) == 30


def test_a_document_that_is_active_in_another_run_keeps_its_place_there(
    ledger: Ledger, document_set: DocumentSet
) -> None:
    first = a_run(ledger, document_set, keys=KEYS[:1])
    held = claim_one(ledger, first)
    # another run of the set, opened although the first is not done, as a defect elsewhere might
    execute(ledger, "UPDATE extraction_runs SET set_id = (SELECT max(set_id) FROM document_sets)")
    execute(ledger, sa.text("UPDATE extraction_runs SET status = 'cancelled', completed_count = 0, failed_count = 0, "
                            "cancelled_count = 1"))  # fmt: skip
    second = a_run(ledger, document_set, select=Select.ALL)
    assert [(row["run_id"], row["document_key"]) for row in rows(ledger, "extraction_results")] == [
        (first, KEYS[0]),
        (second, KEYS[1]),
        (second, KEYS[2]),
    ]
    assert ledger.results.get(held.row_id)["status"] == "running"


def test_the_database_refuses_a_second_active_result_of_a_document(ledger: Ledger, document_set: DocumentSet) -> None:
    run_id = a_run(ledger, document_set)
    row = rows(ledger, "extraction_results")[0]
    columns = "document_id, collection, document_key, input_fingerprint, edition, created_ms"
    execute(
        ledger,
        "UPDATE extraction_runs SET status = 'failed', completed_count = 0, failed_count = 3, cancelled_count = 0",
    )
    other = ledger.runs.open_or_join(a_request(document_set)).run_id
    copy = f"INSERT INTO extraction_results (run_id, {columns}) SELECT {other}, {columns} FROM extraction_results"  # noqa: S608
    with pytest.raises(sa.exc.IntegrityError, match=r"(?i)unique"):
        execute(ledger, f"{copy} WHERE run_id = {run_id} AND document_id = {row['document_id']}")
    assert len(rows(ledger, "extraction_results")) == 3


def test_a_run_that_does_not_exist_is_none(ledger: Ledger) -> None:
    assert ledger.runs.get(12345) is None
