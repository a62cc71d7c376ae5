"""All handed and real documents and twenty good ones in one pass over one document set: each ends as it should."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from extraction_assets.workers.orders import Order, Result
from extraction_core.parsing import ParseFailureReason
from tests.core.handed_cases import needs_cases
from tests.parsing.test_manifest import EXPECTED, GOOD, REAL_FAILURES, handed_documents, real_documents
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from tests.workplace import Workplace


def a_set() -> dict[str, bytes]:
    handed = {key: path.read_bytes() for key, path in handed_documents().items()}
    real = {f"real/{name}": path.read_bytes() for name, path in real_documents().items()}
    return {f"all/{key}": data for key, data in {**handed, **real, **GOOD}.items()}


@needs_cases
@ON_ONE_DATABASE
def test_hostile_and_damaged_documents_fail_alone_and_every_page_of_the_others_is_mapped(workplace: Workplace) -> None:
    files = a_set()
    report = workplace.run(workplace.collection(files), Order(extract=False))
    assert report.result == Result.PARSED
    runs = {run["parse_run_id"]: run for run in workplace.books.parse_runs}
    ended = {row["document_key"].removeprefix("all/"): runs[row["parse_run_id"]] for row in workplace.books.documents}
    assert {f"all/{key}" for key in ended} >= files.keys()
    handed = {key: reason for key, reason in EXPECTED.items() if isinstance(reason, ParseFailureReason)}
    real = {f"real/{name}": reason for name, reason in REAL_FAILURES.items()}
    assert {key: run["reason"] for key, run in ended.items() if run["status"] != "completed"} == {**handed, **real}
    assert [text_of(workplace, ended[key]) for key in GOOD] == [f"Invoice number: {number}" for number in range(20)]
    for run in ended.values():
        if run["status"] == "completed" and run["page_count"]:
            text = text_of(workplace, run)
            assert "\n\n---\n\n".join(text[page["start"] : page["end"]] for page in pages_of(workplace, run)) == text


def text_of(workplace: Workplace, run: dict[str, str]) -> str:
    digest = run["markdown_sha256"]
    return (workplace.home / "parsed" / digest[:2] / f"{digest}.md").read_bytes().decode()


def pages_of(workplace: Workplace, run: dict[str, str]) -> list[dict[str, int]]:
    key = run["parse_key"]
    return json.loads((workplace.home / "parsed" / key[:2] / f"{key}.json").read_bytes())["pages"]
