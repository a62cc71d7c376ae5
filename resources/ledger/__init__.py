"""The SQL ledger: documents, parse runs, extraction runs and results, attempts, workers. The only user of SQLAlchemy."""

from resources.ledger.ledger import Ledger

__all__ = ["Ledger"]
