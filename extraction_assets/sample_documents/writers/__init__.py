"""Writers: one module per file format, each turning a `Document` into the same bytes every time it is asked.

Nothing is compressed and no clock is read: the output of a deflater differs between zlib builds, and the committed
files are compared byte for byte with freshly made ones.
"""

from collections.abc import Callable

from extraction_assets.sample_documents.document import Document
from extraction_assets.sample_documents.writers.to_docx import to_docx
from extraction_assets.sample_documents.writers.to_html import to_html
from extraction_assets.sample_documents.writers.to_markdown import to_markdown
from extraction_assets.sample_documents.writers.to_pdf import to_pdf
from extraction_assets.sample_documents.writers.to_xlsx import to_xlsx

WRITERS: dict[str, Callable[[Document], bytes]] = {
    "docx": to_docx,
    "html": to_html,
    "md": to_markdown,
    "pdf": to_pdf,
    "xlsx": to_xlsx,
}
"""File extension -> writer."""
