"""What we raise on purpose.

::

    DocumentExtractionError            everything we raise on purpose
    ├── ConfigurationError             YAML, schema or environment; raised at load, never retried
    ├── OutputStoreError               a file could not be written
    │   ├── OutputStoreFullError       nothing can be written any more: stop the line
    │   └── OutputPathError            this one path cannot be written: fail this one document
    └── LedgerError
        ├── SchemaTooNewError          the ledger was migrated by a newer version of this project
        └── LedgerInvariantError       the ledger contradicts itself: fail loudly, never repair silently

A provider call that failed and an answer that cannot be used are not exceptions: they are values
(:mod:`extraction_core.causes`), since every one of them becomes a row. Losing a guarded write is not an error either.
"""

from __future__ import annotations


class DocumentExtractionError(Exception):
    """Base of everything this project raises on purpose."""


class ConfigurationError(DocumentExtractionError):
    """A setting is wrong. The message names the file or variable, the field, the problem and the remedy."""

    def __init__(self, where: str, field: str | None, problem: str, remedy: str) -> None:
        self.where, self.field, self.problem, self.remedy = where, field, problem, remedy
        name = f"{where}: {field}" if field else where
        super().__init__(f"{name}: {problem} {remedy}".strip())


class OutputStoreError(DocumentExtractionError):
    """A file could not be written; the previous file is as it was."""


class OutputStoreFullError(OutputStoreError):
    """The store takes nothing any more (disk full, quota, read-only, I/O error): no further call should be paid for."""


class OutputPathError(OutputStoreError):
    """One path cannot be written (permission, name too long, a file in the way); others can."""


class LedgerError(DocumentExtractionError):
    """The ledger cannot be used."""


class SchemaTooNewError(LedgerError):
    """The ledger was migrated by a newer version of this project; this version would damage it."""


class LedgerInvariantError(LedgerError):
    """The ledger contradicts itself."""
