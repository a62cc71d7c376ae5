"""Scripted faults: which request goes wrong, how, and how often.

The book is read in order; the first fault that matches, is past its `skip` and has times left applies, and only that
one is counted down. The event loop runs `take` without a break, so concurrent requests never share one time.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sandbox.body import Json, JsonObject
from sandbox.errors import refuse

MESSAGES = "/v1/messages"
COUNT_TOKENS = "/v1/messages/count_tokens"

BEFORE_PROCESSING = frozenset({"status", "raw"})
DELIVERY = frozenset({"slow", "hold", "drop"})
SHAPES = frozenset({
    "max_tokens", "refusal", "thinking_first", "fenced", "trailing_text", "prose_around", "nul", "lone_surrogate",
    "wrong_schema", "empty", "reply",
})  # fmt: skip
OPTIONS: Mapping[str, Mapping[str, Json]] = {
    "status": {"status": None, "headers": {}, "body": None, "content_type": None},
    "raw": {"status": 200, "content_type": "text/html", "body": None},
    "slow": {"seconds": None},
    "hold": {"name": None},
    "drop": {"when": "before", "how": "fin"},
    "refusal": {"empty": True},
    "reply": {"message": None},
}
REQUIRED = {"status": "status", "raw": "body", "slow": "seconds", "hold": "name", "reply": "message"}
CHOICES = {"when": ("before", "after", "mid_body"), "how": ("fin", "reset")}
TYPES = {"status": int, "headers": dict, "seconds": (int, float), "name": str, "empty": bool, "message": dict}
COMMON = frozenset({"kind", "times", "skip", "match", "path"})


@dataclass(slots=True)
class Fault:
    """One fault; `times` left (None: for ever), `skip` matching requests still to let pass."""

    kind: str
    times: int | None = 1
    skip: int = 0
    match: str | None = None
    path: str = MESSAGES
    options: JsonObject = field(default_factory=dict)
    applied: int = 0

    @property
    def before_processing(self) -> bool:
        """Tell whether the request is turned away unprocessed, and so not billed."""
        return self.kind in BEFORE_PROCESSING or (self.kind == "drop" and self.options["when"] == "before")

    def as_json(self) -> JsonObject:
        """Return the fault for `GET /_sandbox/faults`."""
        common = {name: getattr(self, name) for name in ("kind", "times", "skip", "match", "path", "applied")}
        return {**common, **self.options}


class FaultBook:
    """The faults of one server."""

    def __init__(self) -> None:
        """Start without faults."""
        self.faults: list[Fault] = []

    def add(self, specs: Sequence[Json]) -> None:
        """Append faults, all or none.

        Raises:
            ApiError: 400, when a fault has an unknown kind or option, or lacks one it needs.

        """
        self.faults.extend([_read(position, spec) for position, spec in enumerate(specs)])

    def take(self, path: str, user_text: str) -> Fault | None:
        """Return the fault that applies to a request, counted down."""
        for fault in self.faults:
            if fault.path != path or fault.times == 0:
                continue
            if fault.match is not None and not re.search(fault.match, user_text):
                continue
            if fault.skip:
                fault.skip -= 1
                continue
            fault.times = None if fault.times is None else fault.times - 1
            fault.applied += 1
            return fault
        return None


def _read(position: int, spec: Json) -> Fault:
    where = f"faults.{position}"
    if not isinstance(spec, dict) or spec.get("kind") not in BEFORE_PROCESSING | DELIVERY | SHAPES:
        refuse(f"{where}.kind: unknown fault")
    kind = spec["kind"]
    options = dict(OPTIONS.get(kind, {}))
    unknown = set(spec) - COMMON - set(options)
    if unknown:
        refuse(f"{where}.{min(unknown)}: unknown option of '{kind}'")
    options |= {name: spec[name] for name in options if name in spec}
    if kind in REQUIRED and options[REQUIRED[kind]] is None:
        refuse(f"{where}.{REQUIRED[kind]}: Field required")
    for name, kinds in TYPES.items():
        if name in options and not isinstance(options[name], kinds):
            refuse(f"{where}.{name}: Input has the wrong type")
    for name, choices in CHOICES.items():
        if name in options and options[name] not in choices:
            refuse(f"{where}.{name}: Input should be one of {', '.join(choices)}")
    fault = Fault(kind, options=options, **{name: spec[name] for name in COMMON - {"kind"} if name in spec})
    _check_common(where, fault)
    return fault


def _check_common(where: str, fault: Fault) -> None:
    if fault.times is not None and (not isinstance(fault.times, int) or fault.times < 1):
        refuse(f"{where}.times: Input should be a positive integer, or null for ever")
    if not isinstance(fault.skip, int) or fault.skip < 0:
        refuse(f"{where}.skip: Input should be an integer of 0 or more")
    if fault.path not in {MESSAGES, COUNT_TOKENS}:
        refuse(f"{where}.path: no such endpoint")
    if fault.kind in SHAPES and fault.path != MESSAGES:
        refuse(f"{where}.kind: '{fault.kind}' changes a message, and {fault.path} answers none")
    if fault.match is not None:
        try:
            re.compile(fault.match)
        except re.error as error:
            refuse(f"{where}.match: {error}")
