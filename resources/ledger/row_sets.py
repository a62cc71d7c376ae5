"""Many rows in one statement: the only place where the two databases spell a set of rows differently.

PostgreSQL takes one array per column (``unnest``), SQLite one JSON text (``json_each``). Either way the statement's
text does not depend on the number of rows, so it is prepared once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

ColumnTypes = Mapping[str, sa.types.TypeEngine[Any]]


def row_set(columns: ColumnTypes, *, postgres: bool) -> sa.FromClause:
    """Return a row source named ``given`` with these columns, fed by :func:`row_set_arguments`."""
    if postgres:
        arrays = [
            sa.cast(sa.bindparam(f"given_{name}", type_=postgresql.ARRAY(kind)), postgresql.ARRAY(kind))
            for name, kind in columns.items()
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
    return {"given_rows": json.dumps([list(row) for row in rows])}


def is_postgres(connection: sa.Connection) -> bool:
    """Tell which of the two databases a connection leads to."""
    return connection.dialect.name == "postgresql"
