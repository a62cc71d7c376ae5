"""Batches over restarts: with a log file they, their results and what they cost go on where they were."""

import json
import subprocess
import sys
from pathlib import Path

import sandbox
from tests.sandbox.conftest import Http, batch_of

HOUR = 3600


def _made(http: Http, *texts: str) -> str:
    return http.api("POST", "/batches", {"requests": batch_of(*texts)}).json["id"]


def _results(http: Http, batch_id: str) -> bytes:
    reply = http.api("GET", f"/batches/{batch_id}/results")
    assert reply.status == 200, reply.body
    return reply.body


def test_an_ended_batch_keeps_its_results_and_is_billed_once(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    with sandbox.Background(log_file=log) as first:
        http = Http(first.url)
        batch_id = _made(http, "one", "")
        results, bill, books = _results(http, batch_id), http.bill(), http.batches()
    with sandbox.Background(log_file=log) as second:
        http = Http(second.url)
        assert _results(http, batch_id) == results
        assert http.batches() == books
        assert http.bill() == bill | {"requests": 3}
        assert (bill["batch_requests"], bill["requests"]) == (1, 2)


def test_an_open_batch_ends_at_its_time_in_the_next_server(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    with sandbox.Background(log_file=log, batch_seconds=2 * HOUR) as first:
        http = Http(first.url)
        open_id, canceled_id = _made(http, "one", "two"), _made(http, "three")
        http.advance(HOUR)
        http.durations(cancel_seconds=HOUR)
        http.api("POST", f"/batches/{canceled_id}/cancel")
        assert http.bill()["calls"] == 0
    with sandbox.Background(log_file=log) as second:
        http = Http(second.url)
        assert [batch["processing_status"] for batch in http.batches()] == ["in_progress", "canceling"]
        http.advance(HOUR)
        assert [batch["request_counts"]["succeeded"] for batch in http.batches()] == [2, 0]
        assert len(_results(http, open_id).splitlines()) == 2
        assert http.bill()["calls"] == 2
    assert not list(log.with_name("requests.jsonl.batches").glob("*.requests.jsonl"))


def test_what_a_crash_kept_out_of_the_log_is_billed_by_the_next_server(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    with sandbox.Background(log_file=log) as first:
        http = Http(first.url)
        _made(http, "one", "two")
        bill = http.bill()
    lines = log.read_text().splitlines(keepends=True)
    batched = [line for line in lines if "custom_id" in json.loads(line)]
    assert len(batched) == 2
    log.write_text("".join(line for line in lines if line != batched[1]))
    for _ in range(2):
        with sandbox.Background(log_file=log) as server:
            assert Http(server.url).bill() == bill


def test_a_deleted_batch_stays_deleted_and_a_reset_leaves_nothing(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    with sandbox.Background(log_file=log) as first:
        http = Http(first.url)
        batch_id = _made(http, "one")
        assert http.api("DELETE", f"/batches/{batch_id}").status == 200
    with sandbox.Background(log_file=log) as second:
        http = Http(second.url)
        assert http.api("GET", f"/batches/{batch_id}").status == 404
        assert http.batches()[0]["deleted"]
        http.advance(HOUR)
        http.call("DELETE", "/_sandbox/batches")
    with sandbox.Background(log_file=log) as third:
        http = Http(third.url)
        assert http.batches() == []
        assert http.call("GET", "/_sandbox/clock").json["offset_s"] == 0


def test_the_process_takes_the_duration_of_its_batches() -> None:
    command = [sys.executable, "-m", "sandbox", "--port", "0", "--batch-seconds"]
    with subprocess.Popen([*command, "90.5"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        http = Http(process.stdout.readline().split()[-1])
        assert http.call("GET", "/_sandbox/batches").json["batch_seconds"] == 90.5
        process.terminate()
    wrong = subprocess.run([*command, "-1"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, "--batch-seconds" in wrong.stderr) == (2, True)
