"""Several files as one document: their Markdown one after another, each below a heading that names it.

Pure, so the same files give the same text. A file that could not be parsed keeps its heading, with the reason below it,
and a warning ``file_not_read``: whether a collection takes a document with a missing file is its own decision, made
where its row is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from extraction_core.parsing import Page, ParsedDocument, ParseFailure

MEDIA_TYPE = "inode/directory"
ENGINE, ENGINE_VERSION = "joined files", "1"
NOT_READ = "file_not_read"
SEPARATOR = "\n\n"
MOST_NAMED = 5

FileOutcome = tuple[str, ParsedDocument | ParseFailure]


def join_files(files: Sequence[FileOutcome]) -> ParsedDocument | ParseFailure:
    """Join what was parsed of a document's files.

    Args:
        files: name and outcome of each file, at least one, in the order that the text takes.

    Returns:
        The joined document with a page map over all files; a failure if none could be parsed.
    """
    failed = [(name, outcome) for name, outcome in files if isinstance(outcome, ParseFailure)]
    if len(failed) == len(files):
        return _none_read(failed)
    text, pages, warnings = "", list[Page](), list[str]()
    for name, outcome in files:
        text += (SEPARATOR if text else "") + f"# File: {name}{SEPARATOR}"
        if isinstance(outcome, ParseFailure):
            text += f"(This file is missing here: it could not be read, {outcome.reason}.)"
            warnings.append(f"{NOT_READ}:{name}: {outcome.reason}, {outcome.message}")
        else:
            pages += _pages(name, outcome, len(text))
            text += outcome.markdown
            warnings += [_of_file(name, warning) for warning in outcome.warnings]
    return ParsedDocument(
        markdown=text,
        pages=tuple(pages),
        engine=ENGINE,
        engine_version=ENGINE_VERSION,
        media_type=MEDIA_TYPE,
        warnings=tuple(warnings),
    )


def missing_files(on_failed_file: Literal["fail", "leave_out"], warnings: Sequence[str]) -> str | None:
    """Return which files a collection misses in a joined document; None when it takes the document as it is."""
    missing = [warning.removeprefix(f"{NOT_READ}:") for warning in warnings if warning.startswith(f"{NOT_READ}:")]
    if on_failed_file == "leave_out" or not missing:
        return None
    more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
    return "; ".join(missing[:MOST_NAMED]) + more


def _none_read(failed: Sequence[tuple[str, ParseFailure]]) -> ParseFailure:
    """Return why nothing is there; a reason that may pass comes first, so that the document is tried again."""
    first = min(failed, key=lambda one: not one[1].retryable)[1]
    told = "; ".join(f"{name}: {failure.reason}, {failure.message}" for name, failure in failed[:MOST_NAMED])
    return ParseFailure(reason=first.reason, message=f"none of {len(failed)} files could be read: {told}")


def _pages(name: str, parsed: ParsedDocument, offset: int) -> list[Page]:
    own = parsed.pages or (Page(number=1, start=0, end=len(parsed.markdown)),)
    return [Page(number=page.number, start=page.start + offset, end=page.end + offset, file=name) for page in own]


def _of_file(name: str, warning: str) -> str:
    code, _, detail = warning.partition(":")
    return f"{code}:{name}:{detail}"
