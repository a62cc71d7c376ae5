"""Names of assets and checks, in one place."""

from __future__ import annotations

import dagster as dg

ALL_PARSED = "all_documents_parsed"
ALL_EXTRACTED = "all_documents_extracted"
FILES_MATCH = "files_match_ledger"


def parsed_documents_key(collection: str) -> dg.AssetKey:
    """Return the asset key of a collection's parsed documents."""
    return dg.AssetKey([collection, "parsed_documents"])


def extractions_key(collection: str) -> dg.AssetKey:
    """Return the asset key of a collection's extractions."""
    return dg.AssetKey([collection, "extractions"])
