"""The companies that bill, each with the labels of its own letterhead."""

from extraction_assets.sample_documents.catalogue.invoice import Seller

HALDEN = Seller("Halden Components Ltd", "GB 771 4402 18", {"tax_rate_percent": "VAT rate (%)", "tax_amount": "VAT"})
NORDWIND = Seller("Nordwind Bürobedarf GmbH", "DE 318004772", {"subtotal": "Net amount", "total": "Amount due"})
ALPENHOF = Seller("Alpenhof Datentechnik AG", "CHE-118.402.771", {"due_date": "Payable until", "buyer_name": "Bill to"})
PRAIRIE = Seller(
    "Prairie Rack & Cable Inc.",
    "48-2210774",
    {
        "seller_tax_id": "Tax ID",
        "purchase_order": "PO number",
        "tax_rate_percent": "Sales tax rate (%)",
        "tax_amount": "Sales tax",
    },
)
MINATO = Seller("Minato Keisoku KK", "T7010401188204", {"seller_tax_id": "Registration number"})
LINDQVIST = Seller("Lindqvist Nätverk AB", "SE559112004801", {})
