"""Files that appear whole or not at all: results for people, parsed text for the workers."""

from resources.output.output_store import OutputStore
from resources.output.parsed_store import ParsedStore

__all__ = ["OutputStore", "ParsedStore"]
