"""The whole cycle against a server that we did not write, as far as it has the API.

It answers in prose, ends a batch only when its results are asked for, and knows neither a list by date nor a custom id's
pattern: what is shown is that submitting, looking and collecting agree with somebody else's reading of the API.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import Request

from extraction_assets.workers.orders import Result
from tests.sandbox_server import DIRECT
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from tests.workplace import Workplace

START_S = 60.0


@contextmanager
def independent_server() -> Iterator[str]:
    """Run the server on a free loopback port. Yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "app.anthropic_app:app", "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            _wait_for(f"http://127.0.0.1:{port}/v1/messages/batches")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            get(url)
        except URLError:
            assert time.monotonic() < deadline, "the server did not start"
        else:
            return


def get(url: str) -> bytes:
    with DIRECT.open(Request(url, headers={"x-api-key": "k"}), timeout=10) as answer:
        return answer.read()


@ON_ONE_DATABASE
def test_a_set_goes_through_the_batches_of_another_server(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with independent_server() as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        collection = workplace.collection(mode="batch", max_attempts=1)
        assert workplace.run(collection).result is Result.SUBMITTED
        (batch,) = workplace.books.batches
        workplace.later(60)
        assert workplace.watch(collection) == ["in_progress, 0 of 3 requests done"]

        lines = get(f"{url}/v1/messages/batches/{batch['provider_id']}/results").splitlines()
        assert len(lines) == 3
        workplace.later(60)
        assert workplace.watch(collection) == ["ended, 3 of 3 requests done"]
        report = workplace.run(collection)

    assert report.run is not None
    assert (report.result, report.run["request_count"], report.run["failed_count"]) == (Result.CLOSED, 3, 3)
    answered = [attempt for attempt in workplace.books.attempts if attempt["status"] == "answered"]
    assert len(answered) == 3
    assert all(attempt["cost_usd"] > 0 and attempt["response"] for attempt in answered)
    assert {row["reason"] for row in workplace.books.results} == {"unparsable"}
    workplace.books.assert_settled()
