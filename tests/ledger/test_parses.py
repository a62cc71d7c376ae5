"""Parse runs: equal bytes are parsed once by one provider version, whatever documents they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from extraction_core.parsing import ParseFailure, ParseFailureReason
from tests.factories import LEASE_S, a_parse_request, a_set, claim_parses, fingerprint, needed_parses
from tests.ledger.support import driver_errors, one_row, rows, together

if TYPE_CHECKING:
    from resources.ledger import Ledger
    from tests.conftest import MakeLedger

PARSED = {
    "markdown_sha256": fingerprint("markdown"),
    "characters": 10,
    "page_count": 1,
    "media_type": "application/pdf",
    "engine": "engine 1",
    "warnings": [{"code": "w\0"}],
}
FINAL = ParseFailure(reason=ParseFailureReason.CORRUPT, message="no")
RETRYABLE = ParseFailure(reason=ParseFailureReason.WORKER_DIED, message="no")


def end_the_only_one(ledger: Ledger, ending: str) -> int:
    """Queue, claim and end a parse run of one document; returns its id."""
    (claimed,) = claim_parses(ledger, needed_parses(ledger, 1))
    match ending:
        case "completed":
            assert ledger.parses.record_all({claimed.held: PARSED}, {}) == {claimed.held}
        case "cancelled":
            ledger.parses.request_cancel(1)
            ledger.parses.release([claimed.held])
        case _:
            failure = RETRYABLE if ending == "failed, retryable" else FINAL
            assert ledger.parses.record_all({}, {claimed.held: failure}) == {claimed.held}
    return claimed.held.row_id


def the_request(ledger: Ledger, **changes: str):  # noqa: ANN201 - a parse request
    """Return a request for the same bytes as those of the only document."""
    return a_parse_request(one_row(ledger, "documents")["document_key"], **changes)


def test_enqueuing_writes_a_queued_run_per_key(ledger: Ledger) -> None:
    a, b = a_parse_request("a"), a_parse_request("b")
    ids = ledger.parses.enqueue([a, b], again=False)
    found = {row["parse_key"]: row for row in rows(ledger, "parse_runs")}
    assert ids == {key: row["parse_run_id"] for key, row in found.items()}
    row = found[a.parse_key]
    assert {name: row[name] for name in vars(a)} == vars(a)
    assert (row["status"], row["generation"], row["owner"]) == ("queued", 0, None)


def test_enqueuing_again_is_answered_with_the_same_run(ledger: Ledger) -> None:
    request = a_parse_request()
    first = ledger.parses.enqueue([request], again=False)
    before = rows(ledger, "parse_runs")
    assert ledger.parses.enqueue([request, request], again=True) == first
    assert rows(ledger, "parse_runs") == before


def test_equal_bytes_under_two_names_are_one_run(ledger: Ledger) -> None:
    one, other = a_parse_request(document_key="one.pdf"), a_parse_request(document_key="other.pdf")
    assert len(ledger.parses.enqueue([one, other], again=False)) == 1
    assert len(rows(ledger, "parse_runs")) == 1


def test_nothing_to_enqueue_is_nothing(ledger: Ledger) -> None:
    assert ledger.parses.enqueue([], again=False) == {}


def test_enqueuing_at_one_moment_makes_one_run_per_key(ledger: Ledger, make_ledger: MakeLedger) -> None:
    requests = [a_parse_request(str(number)) for number in range(30)]
    ledgers = [make_ledger() for _ in range(4)]
    orders = [requests, requests[::-1], requests[15:] + requests[:15], requests]
    errors = driver_errors(*ledgers)
    ids = together(4, lambda number: ledgers[number].parses.enqueue(orders[number], again=False))
    assert ids == [ids[0]] * 4
    assert sorted(ids[0].values()) == [row["parse_run_id"] for row in rows(ledger, "parse_runs")]
    assert (len(ids[0]), errors) == (30, [])


@pytest.mark.parametrize(
    ("ending", "again", "anew"),
    [
        ("completed", False, False),
        ("completed", True, False),
        ("failed", False, False),
        ("failed", True, True),
        ("failed, retryable", False, True),
        ("cancelled", False, True),
    ],
)
def test_what_was_parsed_or_failed_for_good_is_not_parsed_again_unless_a_person_asks(
    ledger: Ledger, ending: str, *, again: bool, anew: bool
) -> None:
    ended = end_the_only_one(ledger, ending)
    request = the_request(ledger)
    now = ledger.parses.enqueue([request], again=again)[request.parse_key]
    assert (now != ended) is anew
    assert [row["status"] for row in rows(ledger, "parse_runs")][1:] == (["queued"] if anew else [])


def test_another_provider_version_parses_anew(ledger: Ledger) -> None:
    ended = end_the_only_one(ledger, "completed")
    request = the_request(ledger, parse_key=fingerprint("version 2"), provider_version="2")
    assert ledger.parses.enqueue([request], again=False)[request.parse_key] != ended


def test_a_parsed_run_says_what_came_of_it(ledger: Ledger) -> None:
    end_the_only_one(ledger, "completed")
    row = one_row(ledger, "parse_runs")
    assert {name: row[name] for name in PARSED} == PARSED
    assert (row["status"], row["owner"]) == ("completed", None)


def test_a_failed_run_says_why(ledger: Ledger) -> None:
    end_the_only_one(ledger, "failed, retryable")
    row = one_row(ledger, "parse_runs")
    assert (row["status"], row["reason"], row["message"], row["retryable"]) == ("failed", "worker_died", "no", True)


def test_a_parse_that_two_sets_need_is_claimed_by_one_of_them(ledger: Ledger) -> None:
    here = needed_parses(ledger, 1)
    there = a_set(ledger, 1, collection="other", folder="there")
    document = ledger.documents.of_set(there.set_id)[0]
    shared = {
        "row_id": document["document_id"],
        "content_hash": None,
        "read_signature": None,
        "input_fingerprint": None,
        "parse_run_id": one_row(ledger, "parse_runs")["parse_run_id"],
    }
    ledger.documents.keep_contents([shared])
    claims = [ledger.parses.claim("worker", each.set_id, 5, LEASE_S) for each in (there, here)]
    assert [len(claimed) for claimed in claims] == [1, 0]


def test_many_runs_end_at_once_each_with_what_came_of_it(ledger: Ledger) -> None:
    claimed = claim_parses(ledger, needed_parses(ledger, 5), 5)
    parsed = {one.held: {**PARSED, "characters": one.held.row_id} for one in claimed[:3]}
    failed = {one.held: FINAL for one in claimed[3:]}
    assert ledger.parses.record_all(parsed, failed) == {one.held for one in claimed}
    found = {row["parse_run_id"]: row for row in rows(ledger, "parse_runs")}
    for held, values in parsed.items():
        row = found[held.row_id]
        assert {**values, "status": "completed"} == {name: row[name] for name in [*values, "status"]}
        assert row["finished_ms"]
    assert ["corrupt", "corrupt"] == [found[held.row_id]["reason"] for held in failed]


def test_a_run_that_was_taken_over_is_left_alone_and_costs_no_neighbour(ledger: Ledger) -> None:
    document_set = needed_parses(ledger, 4)
    lost_parsed, lost_failed, *ours = claim_parses(ledger, document_set, 4)
    ledger.parses.release([lost_parsed.held, lost_failed.held])
    theirs = {one.held for one in claim_parses(ledger, document_set, 4)}
    won = ledger.parses.record_all(
        {lost_parsed.held: PARSED, ours[0].held: PARSED}, {lost_failed.held: FINAL, ours[1].held: FINAL}
    )
    assert won == {one.held for one in ours}
    still_running = {row["parse_run_id"] for row in rows(ledger, "parse_runs") if row["status"] == "running"}
    assert still_running == {held.row_id for held in theirs} == {lost_parsed.held.row_id, lost_failed.held.row_id}


def test_a_run_that_was_ended_is_not_ended_again(ledger: Ledger) -> None:
    (claimed,) = claim_parses(ledger, needed_parses(ledger, 1))
    ledger.parses.record_all({}, {claimed.held: FINAL})
    assert ledger.parses.record_all({claimed.held: PARSED}, {}) == set()
    assert one_row(ledger, "parse_runs")["status"] == "failed"


def test_a_parse_is_of_the_sets_own_document_whoever_enqueued_it(ledger: Ledger) -> None:
    document_set = needed_parses(ledger, 2)
    runs = {row["parse_run_id"] for row in rows(ledger, "parse_runs")}
    by_run = {row["parse_run_id"]: row["document_key"] for row in rows(ledger, "documents")}
    assert ledger.parses.keys_in_set(document_set.set_id, runs) == by_run
    assert ledger.parses.keys_in_set(document_set.set_id + 1, runs) == {}
