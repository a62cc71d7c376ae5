"""What a claim is, and the statements that take it and keep it.

Threads that claim at the same moment share a statement, which takes rows for several workers and says whose each is. A
worker alone has a statement without that: its plan is made anew each time, and is the shorter one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any, NamedTuple

import sqlalchemy as sa

from extraction_core.states import RowStatus
from resources.ledger.row_sets import row_set, row_set_arguments
from resources.ledger.types import literal, now_ms

HELD_COLUMNS = {"row_id": sa.BigInteger(), "generation": sa.BigInteger()}
PLACES = {"worker": sa.Text(), "first": sa.BigInteger(), "last": sa.BigInteger()}


class Held(NamedTuple):
    """A claim that a worker holds: the row and the generation (fencing token) under which it holds it."""

    row_id: int
    generation: int


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """A freshly claimed row with the columns that its worker needs."""

    held: Held
    row: Mapping[str, Any]


class Claim(NamedTuple):
    """What one caller asks for: up to ``limit`` due rows of a scope, under a lease of so many seconds."""

    worker: str
    scope: int
    limit: int
    lease_s: float


def of_several(claims: Sequence[Claim]) -> bool:
    """Tell whether the rows are more than one worker's."""
    return any(claim.worker != claims[0].worker for claim in claims)


def claim_arguments(claims: Sequence[Claim], *, postgres: bool) -> dict[str, Any]:
    """Return the arguments of the statement for these claims, which are of one scope and lease."""
    first = claims[0]
    limit = sum(claim.limit for claim in claims)
    arguments: dict[str, Any] = {"scope": first.scope, "limit": limit, "lease_ms": int(first.lease_s * 1000)}
    if not of_several(claims):
        return {**arguments, "worker": first.worker}
    ends = accumulate(claim.limit for claim in claims)
    places = [(claim.worker, end - claim.limit + 1, end) for claim, end in zip(claims, ends, strict=True)]
    return {**arguments, **row_set_arguments(PLACES, places, postgres=postgres)}


def claim_statement(
    table: sa.Table, row_id: sa.Column[int], scope: sa.ColumnElement[bool], *, several: bool, postgres: bool
) -> sa.UpdateBase:
    """Return the statement that claims rows, for :func:`claim_arguments`; it returns whole rows in no order."""
    due = (
        sa.select(row_id.label("row_id"), table.c.due_ms)
        .where(table.c.status == literal(RowStatus.QUEUED), table.c.due_ms <= now_ms(), scope)
        .order_by(table.c.due_ms, row_id)
        .limit(sa.bindparam("limit", type_=sa.Integer))
        .with_for_update(skip_locked=True, of=table)
        # a CTE that locks is never inlined, so it runs once; a plain subquery could run again and claim too much
        .cte("candidates")
    )
    if several:
        place = sa.func.row_number().over(order_by=[due.c.due_ms, due.c.row_id]).label("place")
        placed = sa.select(due.c.row_id, place).cte("placed")
        given = row_set(PLACES, postgres=postgres)
        chosen = sa.and_(row_id == placed.c.row_id, placed.c.place.between(given.c.first, given.c.last))
        owner = given.c.worker
    else:
        chosen, owner = row_id == due.c.row_id, sa.bindparam("worker", type_=sa.Text)
    return (
        sa.update(table)
        .where(chosen)
        .values(
            status=literal(RowStatus.RUNNING),
            owner=owner,
            generation=table.c.generation + 1,
            claimed_ms=now_ms(),
            lease_expires_ms=now_ms() + sa.bindparam("lease_ms", type_=sa.BigInteger),
        )
        .returning(*table.c)
    )


def lease_statement(table: sa.Table, row_id: sa.Column[int], *, postgres: bool) -> sa.UpdateBase:
    """Return the statement that extends the leases of held rows, given as :data:`HELD_COLUMNS`, to ``lease_ms``."""
    given = row_set(HELD_COLUMNS, postgres=postgres)
    matches = sa.and_(row_id == given.c.row_id, table.c.generation == given.c.generation)
    # "is held", not status = 'running': the CHECK makes them equal, and the planner would start from the tiny
    # partial index of running rows and loop over the whole set for each
    is_held = table.c.lease_expires_ms.is_not(None)
    if postgres:  # take the row locks in one order, so that two overlapping statements cannot deadlock
        locked = (
            sa.select(row_id.label("row_id"))
            .select_from(table.join(given, matches))
            .where(is_held)
            .order_by(row_id)
            .with_for_update(of=table, key_share=True)
            .cte("locked")
        )
        conditions = [row_id == locked.c.row_id]
    else:
        conditions = [matches, is_held]
    return (
        sa.update(table)
        .where(*conditions)
        .values(lease_expires_ms=now_ms() + sa.bindparam("lease_ms", type_=sa.BigInteger))
        .returning(row_id, table.c.cancel_requested)
    )


def shared_out(claimed: Iterable[Claimed], claims: Sequence[Claim]) -> list[list[Claimed]]:
    """Give each caller rows of its worker, up to its limit, in the order of the callers."""
    of_worker: dict[str, list[Claimed]] = {claim.worker: [] for claim in claims}
    for one in claimed:
        of_worker[one.row["owner"]].append(one)
    left = {worker: iter(its) for worker, its in of_worker.items()}
    return [list(islice(left[claim.worker], claim.limit)) for claim in claims]
