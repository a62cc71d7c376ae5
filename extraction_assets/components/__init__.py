"""The components that a ``defs.yaml`` can name."""

from extraction_assets.components.document_collection import DocumentCollection

__all__ = ["DocumentCollection"]
