"""The catalogue: what every sample document says, per collection and document key.

`documents` is what the writers turn into files, `expected_values` what a correct extraction of each file holds.
"""

from collections.abc import Mapping
from typing import Any

from extraction_assets.sample_documents.catalogue import dell, hpe, invoice, invoices, lenovo, server, supermicro
from extraction_assets.sample_documents.document import Document

SERVERS = (*dell.SERVERS, *hpe.SERVERS, *lenovo.SERVERS, *supermicro.SERVERS)
INVOICES = invoices.INVOICES


def documents() -> Mapping[str, Mapping[str, Document]]:
    """Return collection -> document key -> document; a key is the path below the collection's folder."""
    return {
        "servers": {machine.key: server.data_sheet(machine) for machine in SERVERS},
        "invoices": {item.key: invoice.bill(item) for item in INVOICES},
    }


def expected_values() -> Mapping[str, Mapping[str, dict[str, Any]]]:
    """Return collection -> document key -> the answer of a correct extraction, as the collection's schema has it.

    Numbers that may have decimals are `Decimal`; compare with JSON that was read with `parse_float=Decimal`.
    """
    return {
        "servers": {machine.key: server.answer(machine) for machine in SERVERS},
        "invoices": {item.key: invoice.answer(item) for item in INVOICES},
    }
