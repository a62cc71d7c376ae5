"""The real SDK against the sandbox: what is sent, how often, and what each outcome is read as."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from extraction_core.errors import ConfigurationError
from extraction_core.parse_jobs import JobAccepted, JobFailed, JobGone, JobRefused, JobResult, JobUnclear, NoAnswer
from resources.parsing.reducto_access import reducto_access_from
from resources.parsing.reducto_answer import read_answer
from resources.parsing.reducto_download import Links
from resources.parsing.reducto_service import ReductoService
from tests.reducto.support import LOOK, SUBMIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sandbox_server import SandboxServer

LONG_AGO = datetime.now(UTC) - timedelta(days=1)


@pytest.fixture
def service(reducto: SandboxServer) -> Iterator[ReductoService]:
    """The API on the sandbox, with uploads through itself up to a kilobyte, and short pages."""
    opened = ReductoService(reducto_access_from({"REDUCTO_API_KEY": "k", "REDUCTO_BASE_URL": reducto.url}),
                            timeout_s=1.0, direct_upload_bytes=1000, page=2)  # fmt: skip
    yield opened
    opened.close()


def submitted(service: ReductoService, data: bytes = b"text") -> JobAccepted:
    file_id = service.upload(data, "a/b.txt")
    assert isinstance(file_id, str)
    outcome = service.submit(file_id, "n0nce")
    assert isinstance(outcome, JobAccepted)
    return outcome


def paths(sandbox: SandboxServer) -> list[str]:
    return [one["path"].split("/")[1] for one in sandbox.requests()]


def test_a_submission_is_sent_once_with_its_mark_and_what_decides_the_text(
    service: ReductoService, reducto: SandboxServer
) -> None:
    job_id = submitted(service).job_id
    (job,) = reducto.parse_jobs()["jobs"]
    assert (job["job_id"], job["metadata"]) == (job_id, {"extraction_nonce": "n0nce"})
    assert isinstance(service.look(job_id), JobResult)
    assert [one["retry_count"] for one in reducto.requests()] == [0, 0, 0]


SUBMISSIONS: dict[str, tuple[dict[str, Any], type | JobRefused]] = {
    "time-out": ({"kind": "slow", "seconds": 3}, JobUnclear),
    "conflict": ({"kind": "status", "status": 409}, JobUnclear),
    "server error": ({"kind": "status", "status": 503}, JobUnclear),
    "a page of a proxy": ({"kind": "raw", "body": "<html>hello</html>"}, JobUnclear),
    "not JSON of a job": ({"kind": "raw", "body": "{}", "content_type": "application/json"}, JobUnclear),
    "refused": ({"kind": "status", "status": 422, "body": {"detail": "no"}}, JobRefused(message="HTTP 422: no")),
    "key": ({"kind": "status", "status": 401, "body": {"detail": "no"}}, JobRefused(message="HTTP 401: no", stop=True)),
    "busy": (
        {"kind": "status", "status": 429, "headers": {"retry-after": "7"}, "body": {"detail": "slow"}},
        JobRefused(message="HTTP 429: slow", wait_s=7.0),
    ),
}


@pytest.mark.parametrize("case", SUBMISSIONS)
def test_each_outcome_of_a_submission_is_told_apart_and_never_repeated(
    service: ReductoService, reducto: SandboxServer, case: str
) -> None:
    fault, expected = SUBMISSIONS[case]
    file_id = service.upload(b"text", "b.txt")
    reducto.faults([{**fault, "path": SUBMIT}])
    outcome = service.submit(str(file_id), "n0nce")
    assert outcome == expected if isinstance(expected, JobRefused) else isinstance(outcome, expected)
    assert paths(reducto).count("parse_async") == 1


def test_a_service_that_cannot_be_reached_has_made_no_job() -> None:
    nobody = ReductoService(reducto_access_from({"REDUCTO_API_KEY": "k", "REDUCTO_BASE_URL": "http://127.0.0.1:9"}))
    outcome = nobody.submit("reducto://x", "n0nce")
    nobody.close()
    assert isinstance(outcome, JobRefused)
    assert outcome.wait_s


def test_an_upload_is_repeated_because_it_makes_no_job(service: ReductoService, reducto: SandboxServer) -> None:
    reducto.faults([{"kind": "drop", "path": "POST /upload"}])
    assert isinstance(service.upload(b"text", "b.txt"), str)
    assert paths(reducto) == ["upload", "upload"]


def test_a_large_document_goes_to_the_address_that_the_service_gives_without_the_key(
    service: ReductoService, reducto: SandboxServer
) -> None:
    seen = service.look(submitted(service, b"word " * 300).job_id)
    assert isinstance(seen, JobResult)
    assert b"word word" in seen.data
    (put,) = [one for one in reducto.requests() if one["method"] == "PUT"]
    assert put["api_key_fingerprint"] is None


def test_a_job_is_found_on_whatever_page_of_the_list_it_stands(service: ReductoService, reducto: SandboxServer) -> None:
    file_id = service.upload(b"text", "b.txt")
    made = [service.submit(str(file_id), f"nonce-{number}") for number in range(5)]
    assert isinstance(made[0], JobAccepted)
    assert service.find("nonce-0", LONG_AGO) == made[0].job_id
    assert service.find("another", LONG_AGO) is None
    assert len([path for path in paths(reducto) if path == "jobs"]) == 6
    assert service.find("another", datetime.now(UTC) + timedelta(hours=1)) is None  # all older: one page is enough
    assert len([path for path in paths(reducto) if path == "jobs"]) == 7


def test_a_list_that_breaks_off_is_not_read_as_an_empty_one(service: ReductoService, reducto: SandboxServer) -> None:
    reducto.faults([{"kind": "status", "status": 500, "path": "GET /jobs"}])
    with pytest.raises(Exception, match="500"):
        service.find("n0nce", LONG_AGO)


@pytest.mark.parametrize(
    ("status", "expected"), [(404, JobGone), (410, JobGone), (409, NoAnswer), (429, NoAnswer), (500, NoAnswer)]
)
def test_a_look_that_fails_is_no_end_unless_the_job_is_gone(
    service: ReductoService, reducto: SandboxServer, status: int, expected: type
) -> None:
    job_id = submitted(service).job_id
    reducto.faults([{"kind": "status", "status": status, "path": LOOK, "headers": {"retry-after": "9"}}])
    seen = service.look(job_id)
    assert isinstance(seen, expected)
    assert getattr(seen, "for_good", status == 410) == (status == 410)
    assert getattr(seen, "retry_after_s", 9.0) == 9.0
    assert len([path for path in paths(reducto) if path == "job"]) == 1


def test_a_result_that_is_larger_than_is_taken_fails_with_its_cost(
    service: ReductoService, reducto: SandboxServer
) -> None:
    reducto.faults([{"kind": "by_url", "path": SUBMIT}])
    job_id = submitted(service).job_id
    data = httpx.get(f"{reducto.url}/job/{job_id}", headers={"authorization": "Bearer k"}).content
    links = Links(httpx.Timeout(1.0), plain_http=True, most_bytes=20)
    seen = read_answer(data, links)
    links.close()
    assert isinstance(seen, JobFailed)
    assert (seen.reason, seen.retryable, seen.pages) == ("limit", False, 1)


def test_a_key_that_the_service_echoes_is_not_told(reducto: SandboxServer) -> None:
    key = "canary-of-this-test"
    service = ReductoService(reducto_access_from({"REDUCTO_API_KEY": f"{key}\n", "REDUCTO_BASE_URL": reducto.url}))
    echo = {"kind": "status", "status": 422, "path": SUBMIT, "body": {"detail": f"no rights for Bearer {key}"}}
    reducto.faults([echo])
    refused = service.submit("file", "n0nce")
    service.close()
    assert isinstance(refused, JobRefused)
    assert refused.message == "HTTP 422: no rights for Bearer ***"


def test_a_key_that_no_header_can_hold_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigurationError, match="no key has") as refused:
        reducto_access_from({"REDUCTO_API_KEY": "ca\nnary"})
    assert "nary" not in str(refused.value)


def test_without_a_key_the_setting_and_the_way_out_are_named() -> None:
    with pytest.raises(ConfigurationError, match=r"REDUCTO_API_KEY: is not set.*parse: local"):
        reducto_access_from({})
    assert "secret" not in repr(reducto_access_from({"REDUCTO_API_KEY": "secret"}))
