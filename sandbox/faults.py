"""Scripted faults: which request goes wrong, how, and how often. `sandbox.fault_kinds` lists them all.

The book is read in order; the first fault that matches, is past its `skip` and has times left applies, and only that
one is counted down. The event loop runs `take` without a break, so concurrent requests never share one time.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sandbox.body import Json, JsonObject
from sandbox.errors import refuse
from sandbox.fault_kinds import ANYWHERE, OPTIONS, PATHS, Option

COMMON = ("kind", "times", "skip", "match", "path")


@dataclass(slots=True)
class Fault:
    """One fault; `times` left (None: for ever), `skip` matching requests still to let pass."""

    kind: str
    path: str
    times: int | None = 1
    skip: int = 0
    match: str | None = None
    options: JsonObject = field(default_factory=dict)
    applied: int = 0

    @property
    def before_processing(self) -> bool:
        """Tell whether the request is turned away unprocessed, and so not billed."""
        return self.kind == "raw" or self.options.get("when") == "before"

    @property
    def withholds(self) -> bool:
        """Tell whether a processed request does not get its answer."""
        return self.options.get("when") in {"after", "mid_body"}

    def as_json(self) -> JsonObject:
        """Return the fault for `GET /_sandbox/faults`."""
        return {**{name: getattr(self, name) for name in (*COMMON, "applied")}, **self.options}


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
        self.faults.extend([_read(f"faults.{position}", spec) for position, spec in enumerate(specs)])

    def take(self, paths: Collection[str], kinds: Collection[str], text: str) -> Fault | None:
        """Return the fault of one of these kinds, at one of these paths, that applies to a text, counted down."""
        for fault in self.faults:
            if fault.path not in paths or fault.kind not in kinds or fault.times == 0:
                continue
            if fault.match is not None and not re.search(fault.match, text):
                continue
            if fault.skip:
                fault.skip -= 1
                continue
            fault.times = None if fault.times is None else fault.times - 1
            fault.applied += 1
            return fault
        return None


def _read(where: str, spec: Json) -> Fault:
    if not isinstance(spec, dict) or spec.get("kind") not in OPTIONS:
        refuse(f"{where}.kind: unknown fault")
    kind = spec["kind"]
    options = OPTIONS[kind]
    unknown = set(spec) - set(COMMON) - set(options)
    if unknown:
        refuse(f"{where}.{min(unknown)}: unknown option of '{kind}'")
    values = {name: spec.get(name, option.default) for name, option in options.items()}
    for name, option in options.items():
        _check_option(f"{where}.{name}", option, values[name])
    common: JsonObject = {"path": PATHS[kind][0]} | {name: spec[name] for name in COMMON if name in spec}
    fault = Fault(**common, options=values)
    _check_common(where, fault)
    return fault


def _check_option(where: str, option: Option, value: Json) -> None:
    if option.required and value is None:
        refuse(f"{where}: Field required")
    if option.types and (not isinstance(value, option.types) or (isinstance(value, bool) and bool not in option.types)):
        refuse(f"{where}: Input has the wrong type")
    if option.choices and value not in option.choices:
        refuse(f"{where}: Input should be one of {', '.join(option.choices)}")
    if isinstance(value, int | float) and value < 0:
        refuse(f"{where}: Input should be 0 or more")


def _check_common(where: str, fault: Fault) -> None:
    if fault.times is not None and (not isinstance(fault.times, int) or fault.times < 1):
        refuse(f"{where}.times: Input should be a positive integer, or null for ever")
    if not isinstance(fault.skip, int) or fault.skip < 0:
        refuse(f"{where}.skip: Input should be an integer of 0 or more")
    if fault.path not in ANYWHERE:
        refuse(f"{where}.path: no such endpoint")
    if fault.path not in PATHS[fault.kind]:
        refuse(f"{where}.path: '{fault.kind}' does not apply to {fault.path}")
    if fault.match is not None:
        try:
            re.compile(fault.match)
        except re.error as error:
            refuse(f"{where}.match: {error}")
