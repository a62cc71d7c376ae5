"""The proof: ledger, files and the provider's own log, compared when nobody is at work any more.

Every figure of :func:`violations` is 0, or a promise was broken. Nothing is asked of the workers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from extraction_assets.chaos.lives import Lives, Sleep
from extraction_assets.chaos.place import NAME, Place
from extraction_assets.chaos.provider import Billed, Call, Provider
from extraction_assets.workers.tools import Tools, build_tools
from extraction_core.failpoints import Failpoint
from extraction_core.states import AttemptStatus
from resources.ledger.audit import broken_promises, charges
from resources.ledger.trials import TAKEN, witnessed
from resources.output.atomic_write import PREFIX

TITLES = {
    "documents_lost": "documents lost",
    "terminal_twice": "results terminal more than once",
    "taken_early": "results taken from a holder whose lease was not over",
    "torn_files": "files torn or unlike their hash",
    "stray_temp_files": "stray temp files after the start-up sweep",
    "paid_again": "answers received and paid again",
    "cost_difference_usd": "ledger cost minus bill for all answered attempts",
    "unaccounted": "calls and results without an attempt that stands for them",
    "open_attempts": "attempts open at the end",
    "open_runs": "runs open at the end",
    "unbalanced": "runs whose counts or sums are not those of their rows",
}


def violations(place: Place, provider: Provider, documents: int) -> dict[str, Any]:
    """Compare all books.

    Args:
        place: where the trial took place.
        provider: what it billed.
        documents: how many documents were written.
    """
    tools = build_tools(place.environment)
    try:
        promises, seen = broken_promises(tools.ledger.engine), Counter(witnessed(tools.ledger.engine))
        taken = seen.pop(TAKEN, 0)
        attempts = charges(tools.ledger.engine)
        money, forgotten = _money(attempts, provider.billed()), _forgotten(attempts, provider.calls(), place.lives)
        return {
            "documents_lost": promises["unfinished"] + abs(documents - _registered(tools)),
            "terminal_twice": promises["completed_twice"] + seen.total(),
            "taken_early": taken,
            "torn_files": _torn_files(tools),
            "stray_temp_files": _stray_temp_files(tools),
            "paid_again": promises["paid_again"],
            **money,
            "unaccounted": money["unaccounted"] + promises["unbacked"] + forgotten,
            "open_attempts": promises["open_attempts"],
            "open_runs": promises["open_runs"],
            "unbalanced": promises["unbalanced"] + promises["wrong_sums"],
        }
    finally:
        tools.close()


def is_clean(found: Mapping[str, Any]) -> bool:
    """Whether no promise was broken."""
    return all(Decimal(str(value)) == 0 for value in found.values())


def table(found: Mapping[str, Any]) -> str:
    """Return the figures for people, broken promises marked."""
    width = max(map(len, TITLES.values()))
    lines = [f"  {title:<{width}}  {found[name]}" for name, title in TITLES.items()]
    marked = [
        line if Decimal(str(found[name])) == 0 else f"{line}   <-- VIOLATION"
        for name, line in zip(TITLES, lines, strict=True)
    ]
    return "\n".join(marked)


def _registered(tools: Tools) -> int:
    return sum(row["documents"] for row in tools.ledger.reports.sets(NAME))


def _torn_files(tools: Tools) -> int:
    """Count completed documents whose file is not there or not what its row says, and files that no row names."""
    root = tools.outputs.root
    outputs = [row for one in tools.ledger.documents.sets(NAME) for row in tools.ledger.reports.set_outputs(one.set_id)]
    named = {row["output_path"] for row in outputs}
    found = {path.relative_to(root).as_posix() for path in root.rglob("extraction.json")}
    bad = [row for row in outputs if tools.outputs.sha256(row["output_path"]) != row["output_sha256"]]
    return len(bad) + len(found - named) + sum(not _is_json(root / path) for path in found)


def _is_json(path: Path) -> bool:
    try:
        return isinstance(json.loads(path.read_bytes()), dict)
    except ValueError:
        return False


def _stray_temp_files(tools: Tools) -> int:
    """Sweep as every run does at its start, and count what is left."""
    tools.outputs.sweep(NAME)
    tools.parsed.sweep()
    return len(list(tools.environment.home.rglob(f"{PREFIX}*")))


def _money(attempts: Sequence[Mapping[str, Any]], billed: Sequence[Billed]) -> dict[str, Any]:
    """Compare attempts with the bill: answered ones one by one, the others by how many could have been billed."""
    bill = {one.key: one for one in billed}
    answered = {_key(row): row for row in attempts if row["status"] == AttemptStatus.ANSWERED}
    differences = [
        abs((row["cost_usd"] or Decimal(0)) - (bill[key].cost_usd if key in bill else Decimal(0)))
        for key, row in answered.items()
    ]
    unanswered = [one for one in bill.values() if one.key not in answered]
    billed_again = len(billed) - len(bill)
    return {
        "cost_difference_usd": f"{sum(differences, Decimal(0)):f}",
        "unaccounted": billed_again
        + _unaccounted_batched(attempts, unanswered)
        + _unaccounted_calls(attempts, unanswered, answered, bill),
    }


def _key(row: Mapping[str, Any]) -> str:
    return row["token"] if row["batched"] else row["request_id"] or row["token"]


def _unaccounted_batched(attempts: Sequence[Mapping[str, Any]], unanswered: Sequence[Billed]) -> int:
    """A billed request of a batch whose answer is not kept must have an attempt that says: cost unknown."""
    unknown = {row["token"] for row in attempts if row["batched"] and row["cost_usd"] is None}
    return sum(one.batched and one.key not in unknown for one in unanswered)


def _unaccounted_calls(
    attempts: Sequence[Mapping[str, Any]],
    unanswered: Sequence[Billed],
    answered: Mapping[str, Mapping[str, Any]],
    bill: Mapping[str, Billed],
) -> int:
    """A billed call without an answer has no id in the ledger: its document must have an attempt of unknown cost."""
    document_of = {bill[key].document_sha256: row["document_id"] for key, row in answered.items() if key in bill}
    unknown = Counter(row["document_id"] for row in attempts if not row["batched"] and row["cost_usd"] is None)
    lost = Counter(document_of.get(one.document_sha256) for one in unanswered if not one.batched)
    without_answer = sum(unknown[key] for key in set(unknown) - set(document_of.values()))
    known = sum(max(0, count - unknown[key]) for key, count in lost.items() if key is not None)
    return known + max(0, lost[None] - without_answer)


def _forgotten(attempts: Sequence[Mapping[str, Any]], calls: Sequence[Call], lives: Lives) -> int:
    """Count those who were frozen with an answer in hand, woke up and ended in order, and kept none.

    The provider's log does not tell which of a process's answers it was.
    """
    closed_ms = {row["request_id"]: row["closed_ms"] for row in attempts if row["status"] == AttemptStatus.ANSWERED}

    def kept_none(sleep: Sleep) -> bool:
        asked = [one for one in calls if one.key_fingerprint == sleep.key_fingerprint and one.at_s < sleep.begun_s]
        kept = [one for one in asked if closed_ms.get(one.request_id, 0) >= sleep.woke_ms]
        return not kept

    answered = [one for one in lives.recovered() if one.failpoint == Failpoint.PROVIDER_ANSWERED]
    return sum(map(kept_none, answered))
