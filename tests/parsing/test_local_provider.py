"""The provider: one limited process per document, and what its death means for that document and for the next."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psutil
import pytest

from extraction_core.errors import ConfigurationError
from extraction_core.parsing import ParsedDocument, ParseFailure, ParseFailureReason
from resources.parsing import LocalParseProvider, build_parse_provider
from resources.parsing.limits import ParseLimits
from tests.parsing.documents import pdf, pdf_that_expands

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOOD = pdf(["Invoice number: 17"])
BOMB = pdf_that_expands(60)
"""Never ends by itself: its memory grows by about 200 MB a second."""
PATIENCE_S = 20.0


def text_of(result: ParsedDocument | ParseFailure) -> str:
    assert isinstance(result, ParsedDocument), result
    return result.markdown


def reason_of(result: ParsedDocument | ParseFailure) -> ParseFailureReason:
    assert isinstance(result, ParseFailure), result.markdown[:80]
    return result.reason


def eventually(look: Callable[[], list[psutil.Process]]) -> list[psutil.Process]:
    """What ``look`` finds, as soon as it finds something."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := look():
            return found
        os.sched_yield()
    pytest.fail("waited in vain")


def fork_servers() -> list[psutil.Process]:
    return [p for p in psutil.Process().children() if "resources.parsing.fork_server" in " ".join(p.cmdline())]


def test_a_document_becomes_markdown_with_engine_and_media_type(provider: LocalParseProvider) -> None:
    result = provider.parse(GOOD, "invoices/17.pdf")
    assert text_of(result) == "Invoice number: 17"
    assert isinstance(result, ParsedDocument)
    assert (result.engine, result.media_type, result.warnings) == ("liteparse", "application/pdf", ())
    assert f"liteparse {result.engine_version}" in provider.version


def test_the_same_bytes_give_the_same_result_in_different_processes(provider: LocalParseProvider) -> None:
    assert provider.parse(GOOD, "a.pdf") == provider.parse(GOOD, "a.pdf")


def test_an_empty_file_fails_without_a_process(provider: LocalParseProvider) -> None:
    assert reason_of(provider.parse(b"", "a.pdf")) == ParseFailureReason.EMPTY_FILE


def test_many_threads_get_their_own_documents(provider: LocalParseProvider) -> None:
    with ThreadPoolExecutor(8) as threads:
        numbers = range(24)
        results = list(threads.map(lambda n: provider.parse(pdf([f"Invoice number: {n}"]), f"{n}.pdf"), numbers))
    assert [text_of(result) for result in results] == [f"Invoice number: {n}" for n in numbers]


def test_a_document_that_needs_too_much_memory_fails_and_the_next_one_is_parsed(tmp_path: Path) -> None:
    with LocalParseProvider(scratch_folder=tmp_path, limits=ParseLimits(memory_bytes=700 * 1024**2)) as provider:
        failure = provider.parse(BOMB, "bomb.pdf")
        assert reason_of(failure) == ParseFailureReason.LIMIT
        assert "needs more memory than the limit of 700 MB" in failure.message  # type: ignore[union-attr]
        assert text_of(provider.parse(GOOD, "a.pdf")) == "Invoice number: 17"


def test_a_document_that_hangs_is_killed_at_the_time_limit_and_its_process_is_gone(tmp_path: Path) -> None:
    with LocalParseProvider(scratch_folder=tmp_path, limits=ParseLimits(wall_s=1)) as provider:
        failure = provider.parse(BOMB, "bomb.pdf")
        assert reason_of(failure) == ParseFailureReason.TIMEOUT
        assert [child for server in fork_servers() for child in server.children()] == []
        assert text_of(provider.parse(GOOD, "a.pdf")) == "Invoice number: 17"


def test_a_document_that_burns_processor_time_is_over_the_limit(tmp_path: Path) -> None:
    with LocalParseProvider(scratch_folder=tmp_path, limits=ParseLimits(cpu_s=1)) as provider:
        assert reason_of(provider.parse(BOMB, "bomb.pdf")) == ParseFailureReason.LIMIT


def test_a_document_over_the_size_limit_is_refused(tmp_path: Path) -> None:
    limits = ParseLimits(document_bytes=len(GOOD) - 1)
    with LocalParseProvider(scratch_folder=tmp_path, limits=limits) as provider:
        assert reason_of(provider.parse(GOOD, "a.pdf")) == ParseFailureReason.LIMIT


def test_a_child_that_dies_by_a_signal_is_one_failed_document_and_names_the_signal(tmp_path: Path) -> None:
    with LocalParseProvider(scratch_folder=tmp_path) as provider, ThreadPoolExecutor(1) as thread:
        others = {server.pid for server in fork_servers()}
        parsing = thread.submit(provider.parse, BOMB, "bomb.pdf")
        [child] = eventually(
            lambda: [child for server in fork_servers() if server.pid not in others for child in server.children()]
        )
        child.send_signal(signal.SIGSEGV)
        failure = parsing.result(PATIENCE_S)
        assert failure == ParseFailure(
            reason=ParseFailureReason.WORKER_DIED, message="the parsing process died by signal 11 (SIGSEGV)"
        )
        assert failure.retryable
        assert text_of(provider.parse(GOOD, "a.pdf")) == "Invoice number: 17"


def test_the_death_of_the_server_fails_what_it_was_parsing_and_the_next_document_starts_a_new_one(
    tmp_path: Path,
) -> None:
    with LocalParseProvider(scratch_folder=tmp_path) as provider, ThreadPoolExecutor(1) as thread:
        others = {server.pid for server in fork_servers()}
        assert text_of(provider.parse(GOOD, "a.pdf")) == "Invoice number: 17"
        [server] = [server for server in fork_servers() if server.pid not in others]
        parsing = thread.submit(provider.parse, BOMB, "bomb.pdf")
        [child] = eventually(server.children)
        server.kill()
        assert reason_of(parsing.result(PATIENCE_S)) == ParseFailureReason.WORKER_DIED
        child.kill()
        assert text_of(provider.parse(GOOD, "a.pdf")) == "Invoice number: 17"


def test_closing_kills_what_runs_and_leaves_nothing_behind(tmp_path: Path) -> None:
    others = {server.pid for server in fork_servers()}
    provider = LocalParseProvider(scratch_folder=tmp_path)
    with ThreadPoolExecutor(1) as thread:
        parsing = thread.submit(provider.parse, BOMB, "bomb.pdf")
        eventually(lambda: [c for server in fork_servers() if server.pid not in others for c in server.children()])
        provider.close()
        assert reason_of(parsing.result(PATIENCE_S)) == ParseFailureReason.WORKER_DIED
    assert {server.pid for server in fork_servers()} <= others
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError, match="closed"):
        provider.parse(GOOD, "a.pdf")


def test_the_parsing_processes_see_no_secret_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    others = {server.pid for server in fork_servers()}
    with LocalParseProvider(scratch_folder=tmp_path) as provider:
        provider.parse(GOOD, "a.pdf")
        [server] = [server for server in fork_servers() if server.pid not in others]
        assert "ANTHROPIC_API_KEY" not in server.environ()
        assert server.num_threads() == 1  # else a fork could inherit a lock that nobody releases


def test_a_warm_provider_takes_no_interpreter_start_per_document(provider: LocalParseProvider) -> None:
    provider.parse(GOOD, "a.pdf")
    begin = time.perf_counter()
    for _ in range(10):
        provider.parse(GOOD, "a.pdf")
    assert (time.perf_counter() - begin) / 10 < 0.25  # a fresh interpreter with the libraries takes 0.5 s


def test_a_provider_is_built_by_name(tmp_path: Path) -> None:
    provider = build_parse_provider("local", home=tmp_path)
    assert (provider.name, list(tmp_path.iterdir())) == ("local", [])


def test_an_unknown_provider_is_a_configuration_error_that_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Use 'local'"):
        build_parse_provider("magic", home=tmp_path)
