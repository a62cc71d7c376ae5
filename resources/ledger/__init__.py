"""The SQL ledger: sets, documents, parse runs, extraction runs, results, attempts, workers. The only user of SQL."""

from resources.ledger.ledger import Ledger

__all__ = ["Ledger"]
