"""Compiled statements, shared by all ledgers of one process that speak to databases of one kind and version.

Whoever ticks opens a ledger each time, and compiling its statements takes longer than running them. SQLAlchemy keeps
compiled statements by engine, and knows them by its dialect object, of which each engine has one of its own; equal
dialects compile alike, so here they are known by what their dialect is instead.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import Dialect

MOST = 500
"""As many as an engine of SQLAlchemy keeps by itself: statements with a row for each document differ in length."""


class CompiledStatements(dict[Any, Any]):
    """What SQLAlchemy takes as ``compiled_cache``: it looks with ``get`` and keeps by assignment. Thread-safe."""

    def get(self, key: Any, default: Any = None, /) -> Any:
        """Return the compiled statement, whichever engine compiled it."""
        return super().get(_of_any_engine(key), default)

    def __setitem__(self, key: Any, compiled: Any, /) -> None:
        """Keep a compiled statement; begin anew when there are too many."""
        if len(self) >= MOST:
            self.clear()
        super().__setitem__(_of_any_engine(key), compiled)


def _of_any_engine(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dialect, *statement = key
    if not isinstance(dialect, Dialect):  # a key of another shape serves its own engine, as it would without us
        return key
    return (type(dialect), dialect.server_version_info, *statement)
