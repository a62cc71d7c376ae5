"""One invented invoice: its arithmetic, and the document that bills it.

Amounts are exact: a line is quantity times unit price, the tax is rounded once, half up, to the currency's smallest
unit, and the total is the sum of what the page shows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from functools import cached_property
from typing import Any

from extraction_assets.sample_documents.document import Document, Grid, Pairs, PairStyle

NOTE = "Sample invoice, companies and figures invented."

SMALLEST_UNIT = {"JPY": Decimal(1)}
"""Currencies without cents; all others have two decimals."""


@dataclass(frozen=True)
class LineItem:
    """One billed article."""

    article_number: str
    description: str
    quantity: int
    unit_price: Decimal

    @property
    def amount(self) -> Decimal:
        """Quantity times unit price."""
        return self.quantity * self.unit_price


@dataclass(frozen=True)
class Seller:
    """Who bills, and the words of its letterhead: property -> label, where they differ from `LABELS`."""

    name: str
    tax_id: str
    wording: Mapping[str, str]


@dataclass(frozen=True)
class Invoice:
    """One invoice: where it lies below the collection's source, how it looks and what it bills."""

    key: str
    style: PairStyle
    number: str
    seller: Seller
    buyer: str
    issued: date
    due: date
    currency: str
    tax_rate: Decimal
    purchase_order: str | None
    items: tuple[LineItem, ...]

    @cached_property
    def subtotal(self) -> Decimal:
        """The sum of the lines."""
        return sum((item.amount for item in self.items), Decimal(0))

    @cached_property
    def tax(self) -> Decimal:
        """The tax on the subtotal, rounded half up."""
        unit = SMALLEST_UNIT.get(self.currency, Decimal("0.01"))
        return (self.subtotal * self.tax_rate / 100).quantize(unit, ROUND_HALF_UP)

    @property
    def total(self) -> Decimal:
        """What is to be paid."""
        return self.subtotal + self.tax


LABELS = {
    "invoice_number": "Invoice number",
    "issue_date": "Invoice date",
    "due_date": "Due date",
    "seller_name": "Seller",
    "seller_tax_id": "Seller VAT ID",
    "buyer_name": "Buyer",
    "purchase_order": "Purchase order",
    "currency": "Currency",
    "subtotal": "Subtotal",
    "tax_rate_percent": "Tax rate (%)",
    "tax_amount": "Tax amount",
    "total": "Total",
}
"""Property -> label, where a seller has no wording of its own."""


def answer(invoice: Invoice) -> dict[str, Any]:
    """Return what a correct extraction of the invoice holds: JSON types, with `Decimal` for amounts."""
    return {
        "invoice_number": invoice.number,
        "issue_date": invoice.issued.isoformat(),
        "due_date": invoice.due.isoformat(),
        "seller_name": invoice.seller.name,
        "seller_tax_id": invoice.seller.tax_id,
        "buyer_name": invoice.buyer,
        "purchase_order": invoice.purchase_order,
        "currency": invoice.currency,
        "line_items": [_line(item) for item in invoice.items],
        "subtotal": invoice.subtotal,
        "tax_rate_percent": invoice.tax_rate,
        "tax_amount": invoice.tax,
        "total": invoice.total,
    }


def bill(invoice: Invoice) -> Document:
    """Return the document that bills `invoice`: parties and dates, the lines, the sums."""
    facts = answer(invoice)
    labels = {**LABELS, **invoice.seller.wording}
    names = [name for name in LABELS if facts[name] is not None]
    sums = names.index("subtotal")
    head, foot = ([(labels[name], facts[name]) for name in part] for part in (names[:sums], names[sums:]))
    # The sums are lines: PDF readers take the vertical rules of a narrow table for columns of the wide one above it.
    blocks = (
        Pairs(head, style=invoice.style),
        _table(facts["line_items"]),
        Pairs(foot, "Amounts", "lines"),
    )
    return Document(f"Invoice {invoice.number}", NOTE, blocks)


def _line(item: LineItem) -> dict[str, Any]:
    return asdict(item) | {"amount": item.amount}


def _table(lines: Sequence[Mapping[str, Any]]) -> Grid:
    header = ("Article number", "Description", "Quantity", "Unit price", "Amount")
    return Grid(header, [tuple(line.values()) for line in lines], "Line items")
