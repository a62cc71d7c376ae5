"""Where documents come from: a local folder or any fsspec file system, behind two calls: list and read."""

from resources.source.document_source import DocumentSource
from resources.source.listing import Listing, SkippedFile, SourceFile

__all__ = ["DocumentSource", "Listing", "SkippedFile", "SourceFile"]
