"""Alembic migrations of the ledger. Revisions are frozen: they import nothing that may change."""
