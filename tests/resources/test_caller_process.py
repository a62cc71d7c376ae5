"""Calls made by a process of their own: the same outcomes as in this one, and what becomes of them when it ends."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import psutil
import pytest

from extraction_core.calls import CallAnswered, CallFailed
from extraction_core.causes import POLICIES, Cause, Remedy
from extraction_core.errors import ConfigurationError
from extraction_core.prompting import build_request
from resources.extraction import caller_process
from resources.extraction.access import Access, access_from
from resources.extraction.caller_process import CallerProcess
from resources.extraction.caller_wire import Frames, Kind, frame
from tests.caller_processes import callers_of, wait_for_end
from tests.resources.test_realtime import QUESTION, REFUSALS, ask, status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from tests.sandbox_server import SandboxServer

T = TypeVar("T")
MANY = 40
KEY = "sk-ant-canary"


class Shared:
    """A caller process and the loop that it is used from."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self.provider = self.run(self._made())

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run something in the loop."""
        return self._runner.run(work)

    def close(self) -> None:
        """End the process."""
        self.run(self.provider.close())
        self._runner.close()

    async def _made(self) -> CallerProcess:
        access = Access(api_key=KEY, auth_token=None, base_url=access_from().base_url)
        return CallerProcess(access, calls_in_flight=MANY, request_timeout_s=30.0)


@pytest.fixture(scope="module")
def shared_by_all() -> Iterator[list[Shared]]:
    made = list[Shared]()
    yield made
    for one in made:
        one.close()


@pytest.fixture
def shared(shared_by_all: list[Shared], sandbox: SandboxServer) -> Shared:
    """The caller process of those tests that it survives: to start one takes seconds."""
    assert sandbox.url
    if not shared_by_all:
        shared_by_all.append(Shared())
    return shared_by_all[0]


@asynccontextmanager
async def caller(*, timeout_s: float = 30.0) -> AsyncIterator[CallerProcess]:
    provider = CallerProcess(access_from(), calls_in_flight=MANY, request_timeout_s=timeout_s)
    try:
        yield provider
    finally:
        await provider.close()


def a_document(number: int) -> str:
    return f"# R{number}\n\nModel: R{number}\n\nPrice USD: {number}\n"


def a_request(number: int = 0) -> dict[str, object]:
    return build_request(QUESTION, a_document(number))


def the_caller() -> int:
    """The one that was started last."""
    return callers_of(os.getpid())[-1]


async def held(sandbox: SandboxServer, provider: CallerProcess, calls: int) -> list[asyncio.Task[object]]:
    """Have calls in flight whose answers are held back."""
    sandbox.hold("answers", times=calls)
    tasks = [asyncio.create_task(provider.call(a_request(number))) for number in range(calls)]
    await asyncio.to_thread(sandbox.wait_until_held, "answers", calls)
    return tasks


def test_every_outcome_is_that_of_a_call_from_here(sandbox: SandboxServer, shared: Shared) -> None:
    async def outcomes() -> dict[str, CallAnswered | CallFailed]:
        found, provider = dict[str, CallAnswered | CallFailed](), shared.provider
        for name, refusal in REFUSALS.items():
            sandbox.faults([dict(refusal.fault)])
            found[name] = await provider.call(a_request())
        sandbox.faults([dict(status(429, headers={"retry-after": "47"}))])
        found["wait"] = await provider.call(a_request())
        found["no unicode"] = await provider.call(build_request(QUESTION, "half an emoji: \ud83d"))
        found["answer"] = await provider.call(a_request(770))
        return found

    found = shared.run(outcomes())
    requests = sandbox.requests()
    wait, no_unicode, answer = (found.pop(name) for name in ("wait", "no unicode", "answer"))
    for (name, outcome), request in zip(found.items(), requests, strict=False):
        assert isinstance(outcome, CallFailed), name
        assert outcome.cause == REFUSALS[name].cause, name
        assert REFUSALS[name].message in outcome.message
        assert outcome.request_id in (request["request_id"], None)
    assert isinstance(wait, CallFailed)
    assert (wait.cause, wait.retry_after_s) == (Cause.RATE_LIMITED, 47.0)
    assert wait.request_id == requests[-2]["request_id"]
    assert isinstance(no_unicode, CallFailed)
    assert no_unicode.cause == Cause.INVALID_REQUEST
    assert isinstance(answer, CallAnswered)
    assert answer.request_id == requests[-1]["request_id"]
    assert len(requests) == len(REFUSALS) + 2
    here = ask(document=a_document(770))
    assert isinstance(here, CallAnswered)
    assert {**answer.message, "id": ""} == {**here.message, "id": ""}


def test_answers_come_to_those_who_asked_in_whatever_order(sandbox: SandboxServer, shared: Shared) -> None:
    async def asked() -> list[CallAnswered | CallFailed]:
        tasks = await held(sandbox, shared.provider, MANY)
        await asyncio.to_thread(sandbox.release, "answers")
        return [await task for task in tasks]  # type: ignore[misc]

    outcomes = shared.run(asked())
    assert max(request["concurrency"] for request in sandbox.requests()) == MANY
    for number, outcome in enumerate(outcomes):
        assert isinstance(outcome, CallAnswered)
        assert f'"R{number}' in outcome.message["content"][0]["text"].replace('\\"', '"')


def test_tokens_are_counted_there(sandbox: SandboxServer, shared: Shared) -> None:
    assert shared.run(shared.provider.count_tokens(a_request()))
    sandbox.faults([{"kind": "status", "status": 500, "path": "/v1/messages/count_tokens"}])
    assert shared.run(shared.provider.count_tokens(a_request())) is None


def test_a_defect_there_is_raised_here_and_costs_no_other_call(sandbox: SandboxServer, shared: Shared) -> None:
    with pytest.raises(RuntimeError, match="TypeError"):
        shared.run(shared.provider.count_tokens({"max_tokens": 1}))  # the SDK misses an argument
    assert isinstance(shared.run(shared.provider.call(a_request())), CallAnswered)
    assert len(sandbox.requests()) == 1


def test_calls_in_flight_of_one_that_is_killed_are_lost_and_the_next_one_starts_another(
    sandbox: SandboxServer,
) -> None:
    async def asked() -> tuple[list[object], object, int, int]:
        async with caller() as provider:
            tasks = await held(sandbox, provider, 3)
            first = the_caller()
            os.kill(first, signal.SIGKILL)
            lost = [await task for task in tasks]
            return lost, await provider.call(a_request()), first, the_caller()

    lost, after, first, second = asyncio.run(asked())
    assert [getattr(one, "cause", None) for one in lost] == [Cause.CONNECTION_LOST] * 3
    assert isinstance(after, CallAnswered)
    assert first != second
    assert not {first, second} & set(callers_of(os.getpid()))


def test_an_answer_that_nobody_waits_for_any_more_is_nobody_elses(sandbox: SandboxServer, shared: Shared) -> None:
    async def asked() -> tuple[object, bool]:
        (cut_off,) = await held(sandbox, shared.provider, 1)
        pid = the_caller()
        cut_off.cancel()
        await asyncio.to_thread(sandbox.release, "answers")
        return await shared.provider.call(a_request(7)), the_caller() == pid

    outcome, same = shared.run(asked())
    assert isinstance(outcome, CallAnswered)
    assert "R7" in outcome.body
    assert same


def test_an_interruption_from_outside_is_left_to_the_worker(sandbox: SandboxServer, shared: Shared) -> None:
    async def asked() -> list[object]:
        tasks = await held(sandbox, shared.provider, 2)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(the_caller(), number)
        await asyncio.to_thread(sandbox.release, "answers")
        return [await task for task in tasks]

    assert all(isinstance(outcome, CallAnswered) for outcome in shared.run(asked()))


def test_it_is_not_in_the_group_that_a_terminal_interrupts(shared: Shared) -> None:
    shared.run(shared.provider.call(a_request()))
    assert os.getpgid(the_caller()) != os.getpgid(0)


def test_the_key_is_not_in_what_the_system_shows_of_it(shared: Shared) -> None:
    assert isinstance(shared.run(shared.provider.call(a_request())), CallAnswered)
    assert KEY not in " ".join(psutil.Process(the_caller()).cmdline())


def test_one_that_stands_still_is_not_waited_for_and_makes_none_of_its_calls_later(
    sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller_process, "ANSWER_SLACK_S", 0.2)

    async def asked() -> tuple[object, object]:
        async with caller(timeout_s=1.0) as provider:
            await provider.start()
            pid = the_caller()
            os.kill(pid, signal.SIGSTOP)
            outcome = await provider.call(a_request())
            await asyncio.to_thread(wait_for_end, pid)
            await provider.start()
            return outcome, await provider.call(a_request())

    outcome, after = asyncio.run(asked())
    assert isinstance(outcome, CallFailed)
    assert outcome.cause == Cause.TIMEOUT
    assert isinstance(after, CallAnswered)
    assert len(sandbox.requests()) == 1


def test_one_that_is_slow_with_one_call_is_not_ended_for_it(sandbox: SandboxServer, shared: Shared) -> None:
    async def asked() -> tuple[object, bool]:
        (slow,) = await held(sandbox, shared.provider, 1)
        pid = the_caller()
        await shared.provider.call(a_request())
        timed_out = caller_process._too_late(shared.provider._running, 0.0)  # type: ignore[reportPrivateUsage]
        await asyncio.to_thread(sandbox.release, "answers")
        return (await slow, timed_out), the_caller() == pid

    (answer, timed_out), same = shared.run(asked())  # type: ignore[misc]
    assert isinstance(answer, CallAnswered)
    assert timed_out.cause == Cause.TIMEOUT
    assert same


ANSWERS_AND_ENDS = """
import socket, sys
sys.path.insert(0, sys.argv[1])
from resources.extraction.caller_wire import Kind, frame
connection = socket.socket(fileno=int(sys.argv[2]))
connection.recv(1 << 16)
connection.sendall(frame(Kind.READY, b"", number=0))
connection.recv(1 << 16)
connection.sendall(frame(Kind.ANSWERED, b'req_1\\n{"type": "message", "content": []}', number=1))
"""


def test_what_had_arrived_before_a_write_failed_is_read(
    sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller_process, "_START", ANSWERS_AND_ENDS)

    async def asked() -> list[CallAnswered | CallFailed]:
        async with caller() as provider:
            await provider.start()
            (process,) = [one for one in psutil.Process().children() if "connection.sendall" in str(one.cmdline())]
            first = asyncio.create_task(provider.call(a_request()))
            await asyncio.sleep(0)
            process.wait()  # the loop stands still meanwhile, so nothing is read
            second = asyncio.create_task(provider.call(a_request()))
            return [await first, await second]

    first, second = asyncio.run(asked())
    assert isinstance(first, CallAnswered)
    assert first.request_id == "req_1"
    assert isinstance(second, CallFailed)
    assert sandbox.requests() == []


NEVER_READY = "import socket, sys; connection = socket.socket(fileno=int(sys.argv[2]))\nwhile connection.recv(9): pass"


@pytest.mark.parametrize("ticks", range(8))
def test_one_that_is_closed_while_it_starts_leaves_no_process(
    sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch, ticks: int
) -> None:
    assert sandbox.url
    monkeypatch.setattr(caller_process, "_START", NEVER_READY)
    before = psutil.Process().children()

    async def asked() -> None:
        async with caller() as provider:
            call = asyncio.create_task(provider.call(a_request()))
            for _ in range(ticks):
                await asyncio.sleep(0)
            call.cancel()

    asyncio.run(asked())
    assert set(psutil.Process().children()) <= set(before)


def test_one_that_does_not_start_stops_the_line(sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_process, "_START", "raise SystemExit(3)")

    async def asked() -> CallAnswered | CallFailed:
        async with caller() as provider:
            with pytest.raises(ConfigurationError, match=r"EXTRACTION_CALLER_PROCESS.*it ended with exit code 3"):
                await provider.start()
            return await provider.call(a_request())

    outcome = asyncio.run(asked())
    assert isinstance(outcome, CallFailed)
    assert (outcome.cause, POLICIES[outcome.cause].remedy) == (Cause.CALLER_NOT_STARTED, Remedy.STOP)
    assert sandbox.requests() == []


def cut_everywhere(whole: bytes) -> list[list[bytes]]:
    return [[whole[:cut], whole[cut:]] for cut in range(len(whole) + 1)] + [
        [whole[place : place + 1] for place in range(len(whole))]
    ]


@pytest.mark.parametrize("content", [b"", b"x", b"two\nlines \xff"])
def test_frames_are_read_wherever_the_stream_is_cut(content: bytes) -> None:
    parts_of_it = (Kind.CALL, content, 7), (Kind.READY, b"", 2**40), (Kind.ANSWERED, content, 8)
    whole = b"".join(frame(kind, inside, number=number) for kind, inside, number in parts_of_it)
    for parts in cut_everywhere(whole):
        found = list[tuple[Kind, int, bytes]]()
        record: Callable[[Kind, int, bytes], None] = lambda *one, into=found: into.append(one)  # noqa: E731 # type: ignore[misc]
        frames = Frames(record, lambda: None)
        for part in parts:
            frames.data_received(part)
        assert found == [(Kind.CALL, 7, content), (Kind.READY, 2**40, b""), (Kind.ANSWERED, 8, content)]
