"""Alembic's entry: runs the migrations on the connection that :mod:`resources.ledger.migrate` hands over."""

from __future__ import annotations

from alembic import context

from resources.ledger.migrate import VERSION_TABLE
from resources.ledger.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
