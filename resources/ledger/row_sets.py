"""Many rows in one statement: the only place where the two databases spell a set of rows differently.

PostgreSQL takes one array per column (``unnest``), SQLite one JSON text (``json_each``). Either way the statement's
text does not depend on the number of rows, so it is prepared once. The column types of :mod:`resources.ledger.types`
are kept: their values pass through as the tables keep them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

ColumnTypes = Mapping[str, sa.types.TypeEngine[Any]]
_SQLITE = sqlite.dialect()


def row_set(columns: ColumnTypes, *, postgres: bool) -> sa.FromClause:
    """Return a row source named ``given`` with these columns, fed by :func:`row_set_arguments`."""
    if postgres:
        arrays = [
            sa.cast(sa.bindparam(f"given_{name}", type_=array), array)
            # one dimension, said aloud: a list where text should be would be taken for a second one
            for name, array in ((name, postgresql.ARRAY(kind, dimensions=1)) for name, kind in columns.items())
        ]
        shape = [sa.column(name, kind) for name, kind in columns.items()]
        return sa.func.unnest(*arrays).table_valued(*shape, name="given").render_derived(name="given")
    rows = sa.func.json_each(sa.bindparam("given_rows", type_=sa.Text)).table_valued("value", name="given_rows")
    picked = [
        sa.type_coerce(sa.func.json_extract(rows.c.value, f"$[{position}]"), kind).label(name)
        for position, (name, kind) in enumerate(columns.items())
    ]
    return sa.select(*picked).subquery("given")


def row_set_arguments(columns: ColumnTypes, rows: Sequence[Sequence[Any]], *, postgres: bool) -> dict[str, Any]:
    """Return the parameters that feed a row set."""
    if postgres:
        return {f"given_{name}": [row[position] for row in rows] for position, name in enumerate(columns)}
    storing = [_storing(kind) for kind in columns.values()]
    stored = [[store(value) for store, value in zip(storing, row, strict=True)] for row in rows]
    return {"given_rows": json.dumps(stored)}


def _storing(kind: sa.types.TypeEngine[Any]) -> Callable[[Any], Any]:
    """What the database's driver would be handed through a parameter of its own."""
    if not isinstance(kind, sa.types.TypeDecorator):
        return lambda value: value
    return lambda value: kind.process_bind_param(value, _SQLITE)


def is_postgres(connection: sa.Connection) -> bool:
    """Tell which of the two databases a connection leads to."""
    return connection.dialect.name == "postgresql"
