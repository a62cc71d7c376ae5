"""Documents named as text: read by children of a small server without the engines, unless they are something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil
import pytest

from extraction_core.parsing import ParsedDocument, ParseFailure, ParseFailureReason
from resources.parsing import LocalParseProvider
from resources.parsing.limits import ParseLimits
from tests.parsing.documents import pdf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXT = b"# PowerEdge R740\n\nPrice USD: 12000\n"
LIMITS = ParseLimits(output_bytes=4096)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalParseProvider]:
    """A provider with a low limit on what a document becomes."""
    with LocalParseProvider(scratch_folder=tmp_path_factory.mktemp("scratch"), limits=LIMITS) as running:
        yield running


def servers() -> set[psutil.Process]:
    return {one for one in psutil.Process().children() if "resources.parsing.fork_server" in " ".join(one.cmdline())}


def test_a_text_is_read_by_a_server_of_one_thread_that_has_no_engine(tmp_path: Path) -> None:
    others = servers()
    with LocalParseProvider(scratch_folder=tmp_path) as provider:
        parsed = provider.parse(TEXT, "a/r740.md")
        (server,) = servers() - others
        assert server.num_threads() == 1  # else a fork could inherit a lock that nobody releases
        assert not [mapped.path for mapped in server.memory_maps() if "site-packages" in mapped.path]
    assert isinstance(parsed, ParsedDocument)
    assert (parsed.markdown, parsed.engine, parsed.media_type) == (TEXT.decode().strip(), "rules", "text/markdown")
    assert servers() <= others


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.csv"])
def test_another_format_under_the_name_of_a_text_is_parsed_as_what_it_is(own: LocalParseProvider, name: str) -> None:
    assert own.parse(pdf(["Invoice number: 17"]), name) == own.parse(pdf(["Invoice number: 17"]), "a.pdf")


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b" \n\t\n", ParseFailureReason.EMPTY_TEXT), (b"\x89PNG\r\n\x1a\n", ParseFailureReason.NO_TEXT_LAYER)],
)
def test_what_the_readers_refuse_is_final(own: LocalParseProvider, data: bytes, reason: ParseFailureReason) -> None:
    failure = own.parse(data, "a.txt")
    assert isinstance(failure, ParseFailure)
    assert (failure.reason, failure.retryable) == (reason, False)


def test_a_text_beyond_a_limit_is_one_failed_document_and_the_next_one_is_read(own: LocalParseProvider) -> None:
    failure = own.parse(TEXT * LIMITS.output_bytes, "large.md")
    assert isinstance(failure, ParseFailure)
    assert failure.reason == ParseFailureReason.WORKER_DIED
    assert isinstance(own.parse(TEXT, "a.md"), ParsedDocument)
