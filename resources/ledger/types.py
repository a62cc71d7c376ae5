"""Column types and SQL constructs that mean the same on SQLite and PostgreSQL.

Time is the database's own clock in milliseconds since 1970; it is never compared with a clock of ours. Money is
exact: NUMERIC on PostgreSQL, whole units of 1e-12 dollar on SQLite, whose own NUMERIC goes by way of a float. JSON is
ASCII text, so that NUL and lone surrogates survive as escapes in both databases.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

PICO = Decimal(10) ** 12

AnySelect = sa.Select[*tuple[Any, ...]]
"""A SELECT of any number of columns; their types are those of :mod:`resources.ledger.tables`, not of the checker."""

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""Identity columns: SQLite numbers rows by itself only for INTEGER PRIMARY KEY."""


class now_ms(FunctionElement[int]):  # noqa: N801 - reads as the SQL function that it is
    """The database's clock: milliseconds since 1970, of the transaction's start on PostgreSQL."""

    type = sa.BigInteger()
    inherit_cache = True
    name = "now_ms"


@compiles(now_ms, "postgresql")
def _now_ms_postgresql(*_: Any, **__: Any) -> str:
    return "(extract(epoch from now()) * 1000)::bigint"


@compiles(now_ms, "sqlite")
def _now_ms_sqlite(*_: Any, **__: Any) -> str:
    return "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"


class ExactDecimal(sa.types.TypeDecorator[Decimal]):
    """US dollars, exact to twelve decimals; floats are refused."""

    impl = sa.Numeric
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """Return the column type of the database at hand."""
        return dialect.type_descriptor(sa.BigInteger() if dialect.name == "sqlite" else sa.Numeric(38, 12))

    def process_bind_param(self, value: Decimal | None, dialect: sa.Dialect) -> Decimal | int | None:
        """Turn dollars into what is stored; what would not be stored exactly is refused on both databases."""
        if value is None:
            return None
        if isinstance(cast("object", value), float):
            msg = "money is never a float"
            raise TypeError(msg)
        units = Decimal(value) * PICO
        if not units.is_finite() or units != units.to_integral_value():
            msg = f"{value} has more than twelve decimals"
            raise ValueError(msg)
        return int(units) if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Decimal | None:
        """Turn what is stored into dollars."""
        if value is None:
            return None
        return Decimal(int(value)) / PICO if dialect.name == "sqlite" else Decimal(value)


class SafeJson(sa.types.TypeDecorator[Any]):
    """JSON kept as ASCII text."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str | None:
        """Turn a value into text."""
        return None if value is None else json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> Any:
        """Turn text into a value."""
        return None if value is None else json.loads(value)


class SafeText(sa.types.TypeDecorator[str]):
    """Text from outside, with what PostgreSQL cannot hold (NUL) and UTF-8 cannot encode (lone surrogates) replaced.

    What a server sends where text should be is kept as the text that it would be in Python: it must not stop the row.
    """

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Replace what cannot be stored."""
        if value is None:
            return None
        return str(value).replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def literal(value: str) -> sa.ColumnElement[str]:
    """Return a constant as it must stand in a statement whose plan needs a partial index.

    With a bind parameter neither database can prove that the index's predicate holds, and it is not used.
    """
    return sa.literal_column(f"'{value}'", sa.String)


def zero() -> sa.ColumnElement[int]:
    """Return the constant 0 as text of the statement."""
    return sa.literal_column("0", sa.BigInteger)
