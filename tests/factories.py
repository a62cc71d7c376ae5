"""Valid things with defaults; a test overrides what it is about."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from extraction_assets.workers.tools import Tools, build_tools
from extraction_core.batches import BatchSeen, BatchState, new_nonce
from extraction_core.causes import Cause
from extraction_core.collection import Collection, CollectionFile
from extraction_core.failpoints import Failpoint, Failpoints, no_failpoints
from extraction_core.fingerprints import sha256_hex
from extraction_core.pricing import TokenUsage
from extraction_core.settings import CallerUse, Timing
from extraction_core.states import Select
from resources.environment import CALLER_VARIABLE, Environment
from resources.ledger.attempts import Answer, AttemptPlan, Opened
from resources.ledger.documents import DocumentSet, FoundDocument
from resources.ledger.parses import ParseRequest
from resources.ledger.reservations import BatchOrder, PlannedRequest, Reservation
from resources.ledger.results import Failed, Output
from resources.ledger.runs import RunRequest
from resources.ledger.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from resources.ledger import Ledger
    from resources.ledger.claims import Claimed, Held

COLLECTION = "servers"
FOLDER = "server/dell"
MODEL = "claude-haiku-5-5"
LEASE_S = 300.0
MAX_ATTEMPTS = 3

SCHEMA: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "required": ["model", "price_usd"],
    "properties": {
        "model": {"type": "string", "minLength": 1, "description": "Name of the model."},
        "price_usd": {"type": "number", "minimum": 0, "description": "List price in US dollars."},
    },
}
INSTRUCTIONS = "Extract the model and its list price."


class Crash(BaseException):
    """The process dies here."""


class CrashAt:
    """Failpoints that raise :class:`Crash` when the named one is passed for the n-th time, and only then."""

    def __init__(self, name: Failpoint, on_pass: int = 1) -> None:
        self._name, self._left = name, on_pass

    def __call__(self, name: Failpoint) -> None:
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                raise Crash(name)


def fingerprint(text: str) -> str:
    """Return 64 hexadecimal digits that stand for a text."""
    return sha256_hex(text.encode())


def a_document(number: int, *, folder: str = FOLDER, signature: str = "1") -> FoundDocument:
    """Return a document of a listing; its key sorts by its number."""
    return FoundDocument(key=f"{folder}/{number:05d}.pdf", folder=folder, size_bytes=1000, signature=signature)


def a_set(
    ledger: Ledger, documents: int = 3, *, collection: str = COLLECTION, folder: str = FOLDER, question: str = "q"
) -> DocumentSet:
    """Register a document set whose documents were read and fingerprinted, ready to be selected by a run."""
    found = [a_document(number, folder=folder) for number in range(documents)]
    if not found:  # a set is registered with its documents; take the only one away again
        ledger.documents.register(collection, [a_document(0, folder=folder)])
    ledger.documents.register(collection, found)
    document_set = next(known for known in ledger.documents.sets(collection) if known.folder == folder)
    ask(ledger, document_set, question)
    return document_set


def ask(ledger: Ledger, document_set: DocumentSet, question: str, keys: Sequence[str] | None = None) -> None:
    """Give the documents of a set, or some of them, the input fingerprints of a question."""
    ledger.documents.keep_contents(
        [
            {
                "row_id": row["document_id"],
                "content_hash": fingerprint(row["document_key"]),
                "read_signature": row["signature"],
                "input_fingerprint": fingerprint(f"{row['document_key']} {question}"),
                "parse_run_id": row["parse_run_id"],
            }
            for row in ledger.documents.of_set(document_set.set_id)
            if keys is None or row["document_key"] in keys
        ]
    )


def a_request(document_set: DocumentSet, **changes: Any) -> RunRequest:
    """Return a request for an extraction run of a set."""
    values = {"select": Select.PENDING, "documents": None, "model": MODEL, "max_cost_usd": None, "dagster_run_id": None}
    return RunRequest(set_id=document_set.set_id, collection=document_set.collection, **{**values, **changes})


def a_selection(document_set: DocumentSet, **changes: Any) -> Selection:
    """Return what a run takes of a set: what is pending, unless told otherwise."""
    values = {"select": Select.PENDING, "keys": None, "max_attempts": MAX_ATTEMPTS}
    return Selection(set_id=document_set.set_id, **{**values, **changes})


def a_run(
    ledger: Ledger,
    document_set: DocumentSet | None = None,
    *,
    documents: int = 3,
    select: Select = Select.PENDING,
    keys: Sequence[str] | None = None,
    max_attempts: int = MAX_ATTEMPTS,
    max_cost_usd: Decimal | None = None,
    seal: bool = True,
) -> int:
    """Open, fill and (unless told not to) seal an extraction run over a set, made if not given. Returns the run's id."""
    document_set = document_set or a_set(ledger, documents)
    request = a_request(document_set, select=select, documents=keys, max_cost_usd=max_cost_usd)
    run_id = ledger.runs.open_or_join(request).run_id
    ledger.runs.fill(run_id, a_selection(document_set, select=select, keys=keys, max_attempts=max_attempts))
    if seal:
        ledger.runs.seal(run_id)
    return run_id


def claim(
    ledger: Ledger, run_id: int, limit: int = 1, *, worker: str = "worker", lease_s: float = LEASE_S
) -> list[Held]:
    """Claim results of a run; returns the claims."""
    return [item.held for item in ledger.results.claim(worker, run_id, limit, lease_s)]


def claim_one(ledger: Ledger, run_id: int, *, worker: str = "worker") -> Held:
    """Claim one result of a run."""
    (held,) = claim(ledger, run_id, worker=worker)
    return held


def a_parse_request(key: str = "bytes", **changes: Any) -> ParseRequest:
    """Return a request to parse some bytes."""
    values = {
        "parse_key": fingerprint(f"parse {key}"),
        "content_hash": fingerprint(key),
        "provider": "local",
        "provider_version": "1",
        "source": "/documents",
        "document_key": f"{FOLDER}/{key}.pdf",
    }
    return ParseRequest(**{**values, **changes})


def needed_parses(ledger: Ledger, documents: int = 3) -> DocumentSet:
    """Register a set each of whose documents needs a parse run of its own; the runs are queued."""
    document_set = a_set(ledger, documents)
    rows = ledger.documents.of_set(document_set.set_id)
    requests = {row["document_id"]: a_parse_request(row["document_key"]) for row in rows}
    ids = ledger.parses.enqueue(list(requests.values()), again=False)
    columns = ("content_hash", "read_signature", "input_fingerprint")
    ledger.documents.keep_contents(
        [
            {
                "row_id": row["document_id"],
                "parse_run_id": ids[requests[row["document_id"]].parse_key],
                **{name: row[name] for name in columns},
            }
            for row in rows
        ]
    )
    return document_set


def claim_parses(ledger: Ledger, document_set: DocumentSet, limit: int = 1) -> list[Claimed]:
    """Claim parse runs that a set needs."""
    return ledger.parses.claim("worker", document_set.set_id, limit, LEASE_S)


def a_plan(**changes: Any) -> AttemptPlan:
    """Return the plan of an attempt with a token of its own."""
    values = {"token": str(uuid.uuid4()), "model": MODEL, "max_output_tokens": 4096, "reserved_usd": Decimal("0.01")}
    return AttemptPlan(**{**values, **changes})


def an_answer(**changes: Any) -> Answer:
    """Return an answer of 100 input and 20 output tokens for $0.001."""
    values = {
        "response": '{"model": "R770", "price_usd": 1}',
        "request_id": "req_1",
        "served_model": MODEL,
        "stop_reason": "end_turn",
        "usage": TokenUsage(
            input_tokens=100, cache_write_5m_tokens=0, cache_write_1h_tokens=0, cache_read_tokens=0, output_tokens=20
        ),
        "cost_usd": Decimal("0.001"),
    }
    return Answer(**{**values, **changes})


@dataclass(frozen=True, kw_only=True)
class OpenAttempt:
    """An attempt that was opened, with the token that closes it."""

    attempt_id: int
    token: str


def open_attempt(ledger: Ledger, held: Held, *, max_attempts: int = MAX_ATTEMPTS, **changes: Any) -> OpenAttempt:
    """Open an attempt for a claim; it must be granted."""
    plan = a_plan(**changes)
    opened = ledger.attempts.open(held, plan, max_attempts)
    assert isinstance(opened, Opened), opened
    return OpenAttempt(attempt_id=opened.attempt_id, token=plan.token)


def answer(ledger: Ledger, attempt: OpenAttempt, **changes: Any) -> None:
    """Close an attempt with an answer."""
    assert ledger.attempts.answered(attempt.token, an_answer(**changes))


def an_output(**changes: Any) -> Output:
    """Return what a row says of its file."""
    values = {"path": "servers/a/extraction.json", "sha256": fingerprint("file"), "size_bytes": 33, "notes": ()}
    return Output(**{**values, **changes})


def a_failure(**changes: Any) -> Failed:
    """Return why a row ends failed."""
    return Failed(**{"reason": "refused", "message": "declined", **changes})


def complete(ledger: Ledger, held: Held, **changes: Any) -> None:
    """Take a claim through a whole good life: attempt, answer, file, completed row. ``changes`` are the answer's."""
    attempt = open_attempt(ledger, held)
    answer(ledger, attempt, **changes)
    assert ledger.results.record_completed(held, an_output(), attempt.attempt_id, lambda: None)


def fail(ledger: Ledger, held: Held, **changes: Any) -> None:
    """End a claim failed. ``changes`` are the failure's."""
    assert ledger.results.record_failed(held, a_failure(**changes))


def end_as(ledger: Ledger, held: Held, ending: str, **changes: Any) -> None:
    """End a claim completed (``changes`` are its answer's), failed, or exhausted: failed with all attempts used."""
    if ending == "completed":
        complete(ledger, held, **changes)
        return
    for _ in range(MAX_ATTEMPTS if ending == "exhausted" else 0):
        attempt = open_attempt(ledger, held)
        ledger.attempts.abandoned(attempt.attempt_id, attempt.token, cause=Cause.TIMEOUT, message="no answer")
    fail(ledger, held)


def a_planned_request(held: Held, **changes: Any) -> PlannedRequest:
    """Return what is written down of a batch's request for a claimed row."""
    values = {"model": MODEL, "max_output_tokens": 4096, "reserved_usd": Decimal("0.01"), "second_try": None}
    return PlannedRequest(held=held, **{**values, **changes})


def an_order(run_id: int, **changes: Any) -> BatchOrder:
    """Return the order of a batch with a nonce of its own."""
    values = {"worker": "worker", "nonce": new_nonce(), "lease_s": LEASE_S, "max_attempts": MAX_ATTEMPTS}
    return BatchOrder(run_id=run_id, **{**values, **changes})


def reserve(ledger: Ledger, run_id: int, held: Sequence[Held], **order: Any) -> Reservation:
    """Reserve a batch for claimed rows, with a cent for each. ``order`` are attributes of the order."""
    return ledger.batches.reserve(an_order(run_id, **order), [a_planned_request(one) for one in held])


def a_look(state: BatchState = BatchState.IN_PROGRESS, **changes: Any) -> BatchSeen:
    """Return what a look at a batch of two requests showed."""
    values = {
        "provider_id": "msgbatch_1",
        "counts": {"processing": 2},
        "created_at": "2026-11-29T10:00:00+00:00",
        "expires_at": "2026-11-30T10:00:00+00:00",
    }
    return BatchSeen(state=state, **{**values, **changes})


def some_files(count: int = 3, folder: str = "dell") -> dict[str, str]:
    """Return Markdown documents by key that the sandbox can read with :data:`SCHEMA`: model ``R700`` at $1000 and so on."""
    return {
        f"{folder}/r{700 + number}.md": f"# PowerEdge R{700 + number}\n\nModel: R{700 + number}\n\nPrice USD: {1000 + number}\n"
        for number in range(count)
    }


def a_collection(
    source: Path,
    files: Mapping[str, str | bytes] | None = None,
    *,
    name: str = COLLECTION,
    schema: Mapping[str, Any] = SCHEMA,
    instructions: str = INSTRUCTIONS,
    **settings: Any,
) -> Collection:
    """Write documents below a folder and return a collection of them.

    Args:
        source: the folder; made if need be.
        files: content by document key; three Markdown documents in one set by default.
        name: the collection's name.
        schema: its JSON Schema.
        instructions: its instructions.
        settings: attributes of the YAML file, such as ``max_attempts``, ``concurrency`` or ``max_cost_usd``.
    """
    source.mkdir(parents=True, exist_ok=True)
    for key, content in (some_files() if files is None else files).items():
        path = source / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    values = {"source": str(source), "model": MODEL, "max_attempts": MAX_ATTEMPTS, "concurrency": 8}
    return Collection(
        name=name,
        settings=CollectionFile(**{**values, **settings}),
        source=str(source),
        schema=schema,
        instructions=instructions,
        defs_file=str(source.parent / "defs.yaml"),
    )


def a_tools(home: Path, database_url: str, *, failpoints: Failpoints = no_failpoints, **timing: float) -> Tools:
    """Open what a worker is handed: files below ``home``, the ledger at ``database_url``. Close it after use."""
    environment = Environment(
        home=home,
        ledger_url=database_url,
        timing=Timing(**timing),
        caller_process=CallerUse(os.environ.get(CALLER_VARIABLE, CallerUse.AUTO)),
    )
    return build_tools(environment, failpoints)
