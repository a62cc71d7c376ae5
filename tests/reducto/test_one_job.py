"""Whatever happens on the way: one job, one parse, one cost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from extraction_assets.workers.orders import Order, Result
from extraction_core.parse_jobs import JOB_DEADLINE_S
from extraction_core.states import Select
from tests.ledger.support import in_background
from tests.reducto.support import LONG_S, LOOK, SUBMIT, pages
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from tests.reducto.support import ParsePlace

DAY_S = 86_400.0


def test_a_set_is_submitted_and_left_then_parsed_then_extracted(place: ParsePlace) -> None:
    text = pages("# R700\n\nModel: R700", "Price USD: 1000", "The end.")
    collection = place.collection({"dell/r700.md": text}, parse="reducto")
    report = place.run(collection)
    assert (report.result, report.run) == (Result.SUBMITTED, None)
    assert report.reason == "1 parse jobs (dell/r700.md)"
    assert (place.job["status"], place.job["job_state"], place.calls()) == ("running", "submitted", [])

    place.later(10)
    assert place.look() == ["completed, 3 pages"]
    report = place.run(collection)
    assert report.result is Result.CLOSED
    assert json.loads(place.books.output("r700.md").read_bytes()) == {"model": "R700", "price_usd": 1000}
    place.assert_one_of_each("3.3")
    assert len(place.submits()) == 1
    place.books.assert_settled()


@ON_ONE_DATABASE
def test_a_pass_looks_at_what_is_due_itself(place: ParsePlace) -> None:
    collection = place.one()
    place.run(collection)
    place.later(10)
    assert place.run(collection).result is Result.CLOSED
    place.assert_one_of_each()


def test_documents_that_are_parsed_already_do_not_wait_for_one_that_is_not(place: ParsePlace) -> None:
    files = {"dell/a.md": "Model: A\n\nPrice USD: 1", "dell/b.md": "Model: B\n\nPrice USD: 2"}
    collection = place.collection({"dell/a.md": files["dell/a.md"]}, parse="reducto")
    place.run(collection)
    place.later(10)
    place.look()
    place.sandbox.parse_seconds(None)
    report = place.run(place.collection(files, parse="reducto"))
    assert report.result is Result.SUBMITTED
    assert report.reason == "1 parse jobs (dell/b.md)"
    assert report.run is not None
    assert (report.run["status"], report.run["completed_count"]) == ("completed", 1)


@ON_ONE_DATABASE
def test_equal_bytes_are_one_job(place: ParsePlace) -> None:
    place.run(place.collection({"dell/a.md": "Model: A", "dell/b.md": "Model: A"}, parse="reducto"))
    assert len(place.sandbox.parse_jobs()["jobs"]) == 1
    place.later(10)
    place.look()
    place.assert_one_of_each()


@ON_ONE_DATABASE
def test_names_of_statuses_that_nobody_knows_are_no_end(place: ParsePlace) -> None:
    collection = place.one()
    place.sandbox.parse_seconds(100)
    place.sandbox.faults([{"kind": "job_status", "path": LOOK, "status": name} for name in ("SomethingNew", "Idle")])
    place.parse_only(collection)
    seen: list[str] = []
    for _ in range(6):
        place.later(20)
        seen += place.look()
    said = [f"the service says {name}" for name in ("SomethingNew", "Idle", "InProgress", "InProgress")]
    assert seen == [*said, "completed, 1 pages"]
    place.assert_one_of_each()


@pytest.mark.parametrize("passing", [pytest.param("late", id="a look that comes late"), "again"])
def test_a_completed_parse_is_never_failed_by_a_later_failure(place: ParsePlace, passing: str) -> None:
    place.parse_only(place.one())
    place.later(10)
    failed = {"kind": "job_failed", "path": LOOK}
    if passing == "again":
        assert place.look() == ["completed, 1 pages"]
        place.sandbox.faults([failed])
        place.later(LONG_S)
        assert place.look() == []
    else:
        place.sandbox.faults([failed])
        place.sandbox.hold("late", path=LOOK)
        with in_background(place.look) as late:
            place.sandbox.wait_until_held("late")
            place.later(LONG_S)
            assert place.look() == ["completed, 1 pages"]
            place.sandbox.release("late")
            assert late.result() == ["superseded"]
    place.assert_one_of_each()


def test_two_workers_that_poll_one_job_write_one_parse(place: ParsePlace) -> None:
    place.parse_only(place.one())
    place.later(10)
    place.sandbox.hold("first", path=LOOK)
    with in_background(place.look) as first:
        place.sandbox.wait_until_held("first")
        assert place.look() == []  # somebody looks at it
        place.later(LONG_S)  # and takes longer than a look may
        assert place.look() == ["completed, 1 pages"]
        completed = place.job
        place.sandbox.release("first")
        assert first.result() == ["superseded"]
    assert place.job == completed
    place.assert_one_of_each()


@ON_ONE_DATABASE
def test_a_result_behind_a_link_is_fetched_at_once_and_without_the_key(place: ParsePlace) -> None:
    place.sandbox.faults([{"kind": "by_url", "path": SUBMIT}])
    place.parse_only(place.one())
    place.later(10)
    assert place.look() == ["completed, 1 pages"]
    (fetch,) = [one for one in place.sandbox.requests() if one["path"].startswith("/storage/")]
    assert (fetch["status"], fetch["api_key_fingerprint"]) == (200, None)
    assert place.books.ledger.parse_jobs.usage(1).pages == 1
    place.assert_one_of_each()


@ON_ONE_DATABASE
def test_a_link_that_is_refused_is_asked_for_anew(place: ParsePlace) -> None:
    stored = "GET /storage/results/{name}"
    place.sandbox.faults([{"kind": "by_url", "path": SUBMIT}, {"kind": "status", "status": 403, "path": stored}])
    place.parse_only(place.one())
    place.later(10)
    assert place.look() == ["no answer: the link to the result answers HTTP 403"]
    place.later(60)
    assert place.look() == ["completed, 1 pages"]
    links = [one["path"] for one in place.sandbox.requests() if one["path"].startswith("/storage/")]
    assert len(set(links)) == 2
    place.assert_one_of_each()


ACCEPTED: dict[str, dict[str, Any]] = {
    "the connection is reset": {"kind": "drop", "when": "after", "how": "reset"},
    "the answer is cut": {"kind": "drop", "when": "mid_body"},
    "the answer is an error": {"kind": "status", "status": 500, "when": "after"},
}


@pytest.mark.parametrize("fault", ACCEPTED)
def test_a_submission_that_was_accepted_without_an_answer_is_found_and_not_repeated(
    place: ParsePlace, fault: str
) -> None:
    place.sandbox.faults([{**ACCEPTED[fault], "path": SUBMIT}])
    place.parse_only(place.one())
    assert place.job["job_state"] == "submitting"
    place.later(10)
    (found,) = place.look()
    assert found == f"found as {place.job['job_id']}"
    assert place.look() == ["completed, 1 pages"]
    assert len(place.submits()) == 1
    place.assert_one_of_each()


def test_a_submission_is_repeated_only_when_two_listings_a_settle_time_apart_lack_it(place: ParsePlace) -> None:
    collection = place.one()
    place.sandbox.faults([{"kind": "drop", "when": "before", "path": SUBMIT}])
    place.parse_only(collection)
    place.later(10)
    assert place.look() == ["not in the service's list so far"]
    place.later(LONG_S)
    assert place.look() == ["not in the service's list"]
    assert (place.parse_only(collection).result, len(place.submits())) == (Result.SUBMITTED, 1)
    place.later(LONG_S)
    assert place.look() == ["no job was made; the document goes back to the queue"]
    assert (place.job["status"], place.job["job_state"], place.job["reclaims"]) == ("queued", None, 1)

    place.parse_only(collection)
    place.later(10)
    assert place.look() == ["completed, 1 pages"]
    place.assert_one_of_each()


@ON_ONE_DATABASE
def test_a_job_that_is_listed_late_is_waited_for(place: ParsePlace) -> None:
    drop = {"kind": "drop", "when": "after", "path": SUBMIT}
    place.sandbox.faults([drop, {"kind": "listed_late", "path": SUBMIT, "seconds": 300}])
    place.parse_only(place.one())
    found: list[str] = []
    for _ in range(4):
        place.later(120)
        found += place.look()
    assert found[:2] == ["not in the service's list so far"] * 2
    assert found[-1] == "completed, 1 pages"
    assert len(place.submits()) == 1
    place.assert_one_of_each()


@pytest.mark.parametrize(("after_s", "deleted"), [(DAY_S + 60, False), (JOB_DEADLINE_S / 2, True)])
def test_a_job_that_was_purged_is_given_up_and_not_paid_for_again(
    place: ParsePlace, after_s: float, *, deleted: bool
) -> None:
    collection = place.one()
    place.parse_only(collection)
    if deleted:
        place.sandbox.faults([{"kind": "status", "status": 410, "path": LOOK, "times": None}])
    place.later(after_s)
    (found,) = place.look()
    assert found.startswith("expired: the service does not know it any more")
    job = place.job
    assert (job["status"], job["job_state"], job["reason"]) == ("failed", "expired", "job_expired")
    assert (job["job_pages"], job["job_credits"], job["retryable"]) == (None, None, False)
    assert place.books.ledger.parse_jobs.usage(1).unknown == 1

    report = place.run(collection)
    assert report.run is not None
    assert (report.result, report.run["status"], len(place.submits())) == (Result.CLOSED, "failed", 1)
    assert place.books.result("r700.md")["reason"] == "job_expired"
    assert len(place.books.parse_runs) == 1
    place.run(collection, Order(select=Select.FAILED))  # a person asks
    assert len(place.submits()) == 2


@ON_ONE_DATABASE
def test_a_job_that_does_not_end_is_cancelled_at_its_deadline(place: ParsePlace) -> None:
    place.sandbox.parse_seconds(None)
    place.parse_only(place.one())
    place.later(JOB_DEADLINE_S + 60)
    assert place.look() == ["expired: not done by its deadline; the service says Pending"]
    assert [job["status"] for job in place.sandbox.parse_jobs()["jobs"]] == ["Cancelled"]
    assert place.job["job_state"] == "expired"


@ON_ONE_DATABASE
def test_a_document_that_the_service_cannot_parse_fails_with_its_words(place: ParsePlace) -> None:
    collection = place.collection({"dell/r700.pdf": b"%PDF-1.7 \xff\xfe"}, parse="reducto")
    place.parse_only(collection)
    place.later(10)
    words = "DOCUMENT_UNSUPPORTED: the sandbox parses nothing but UTF-8 text"
    assert place.look() == [f"failed: {words}"]
    assert (place.job["reason"], place.job["message"]) == ("unsupported", words)
    assert place.run(collection).result is Result.CLOSED
    assert place.books.result("r700.pdf")["reason"] == "unsupported"
    assert len(place.submits()) == 1


def test_a_failure_of_the_service_is_tried_anew_and_not_without_end(place: ParsePlace) -> None:
    collection = place.one()
    place.sandbox.faults([{"kind": "job_failed", "path": LOOK, "times": None}])
    for _ in range(5):
        place.parse_only(collection)
        place.later(10)
        place.look()
    assert [row["retryable"] for row in place.books.parse_runs] == [True, True, False]
    assert len(place.submits()) == 3
    usage = place.books.ledger.parse_jobs.usage(1)
    assert (usage.jobs, usage.open, usage.unknown) == (3, 0, 3)


@ON_ONE_DATABASE
def test_a_document_without_any_text_is_a_failure_of_its_own(place: ParsePlace) -> None:
    place.parse_only(place.one(content="\n\n"))
    place.later(10)
    assert place.look() == ["failed: Reducto found no text in the document"]
    assert (place.job["reason"], place.job["job_pages"]) == ("empty_text", 1)


@ON_ONE_DATABASE
@pytest.mark.parametrize("path", ["POST /upload", SUBMIT])
def test_a_key_that_is_refused_stops_the_line_and_leaves_the_queue(place: ParsePlace, path: str) -> None:
    place.sandbox.faults([{"kind": "status", "status": 401, "path": path, "times": None}])
    report = place.run(place.one())
    assert report.result is Result.LINE_STOPPED
    assert "HTTP 401" in report.reason
    assert (place.job["status"], place.job["job_state"]) == ("queued", None)
    assert place.sandbox.parse_jobs()["jobs"] == []


@ON_ONE_DATABASE
def test_a_busy_service_is_asked_again_in_the_same_pass(place: ParsePlace) -> None:
    busy = {"kind": "status", "status": 429, "headers": {"retry-after": "1"}, "path": SUBMIT}
    place.sandbox.faults([busy])
    place.parse_only(place.one())
    assert [one["status"] for one in place.submits()] == [429, 200]
    assert len(place.sandbox.parse_jobs()["jobs"]) == 1
