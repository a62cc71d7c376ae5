"""The ledger on both databases."""
