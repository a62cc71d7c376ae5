"""What the provider does to everybody in a trial: the faults of the sandbox, drawn or chosen."""

from __future__ import annotations

import random
from typing import Any

CREATE, RESULTS, RETRIEVE = (
    "POST /v1/messages/batches", "GET /v1/messages/batches/{id}/results", "GET /v1/messages/batches/{id}"
)  # fmt: skip

Storm = list[dict[str, Any]]
"""Faults as the sandbox takes them."""

LISTED_AFTER_S = 1500.0
"""More than one settle time (15 min), less than the two after which a batch that nobody lists is given up."""


def slow_calls() -> Storm:
    """Answers that come when who asked at the same time has had his: he ends, and leaves these to the other one."""
    return [{"kind": "slow", "seconds": 1.2, "times": 4}]


def revoked_key() -> Storm:
    """A refusal that stops whoever meets it, with documents in the queue: none of them is to blame."""
    return [{"kind": "status", "status": 401}]


def lost_creates() -> Storm:
    """Batches that are made although who asked is not told, and that are listed late."""
    return [
        {"kind": "drop", "when": "after", "path": CREATE, "times": 3},
        {"kind": "listed_late", "seconds": LISTED_AFTER_S, "times": 4},
    ]


def draw_for_calls(chance: random.Random) -> Storm:
    """Rate limits, overload, broken connections, answers that come late or are cut."""
    served_later = {"headers": {"retry-after": "0.1"}, "times": chance.randint(3, 12)}
    return chance.choice(
        [
            [{"kind": "status", "status": 429, **served_later}],
            [{"kind": "status", "status": 529, "times": chance.randint(1, 5)}],
            [{"kind": "status", "status": 500, "times": chance.randint(1, 2)}],
            [{"kind": "drop", "when": when, "how": how} for when in ("before", "after") for how in ("fin", "reset")],
            [{"kind": "drop", "when": "mid_body"}],
            [{"kind": "slow", "seconds": seconds, "times": 3} for seconds in (0.3, 1.0)],
            [{"kind": "slow", "seconds": 4.0}],
            revoked_key(),
        ]
    )


def draw_for_batches(chance: random.Random) -> Storm:
    """The same for the endpoints of batches: creates whose outcome is unclear, lists that lag, results that are cut."""
    lines = chance.randint(0, 5)
    return chance.choice(
        [
            [{"kind": "drop", "when": chance.choice(["before", "after"]), "path": CREATE}],
            [{"kind": "status", "status": 500, "when": "after", "path": CREATE}],
            [{"kind": "status", "status": status, "path": CREATE} for status in (529, 401)],
            [{"kind": "found_late", "seconds": 100}, {"kind": "listed_late", "seconds": LISTED_AFTER_S}],
            [{"kind": "cut", "lines": lines, "how": how} for how in ("line_end", "mid_line")],
            [{"kind": "cut", "lines": lines, "how": how} for how in ("fin", "reset")],
            [{"kind": "duplicate_lines", "count": 3}],
            [{"kind": "status", "status": status, "path": RETRIEVE} for status in (429, 529, 500)],
        ]
    )
