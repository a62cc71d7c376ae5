"""Which document set a document belongs to, and what that set's partition key is.

Dagster does not validate dynamic partition keys, and its command line splits them at commas and crashes on long
ones, so a key is never a raw folder name: it is a readable slug, ``-`` and ten hexadecimal digits of a hash of the
real name, at most 50 characters of ``[a-z0-9-]``. The real name is looked up in ``document_sets``.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum

LONGEST_KEY = 50
HASH_DIGITS = 10
ROOT_FOLDER = "."


class PartitionRule(StrEnum):
    """How documents are grouped into sets."""

    DIRECTORY = "directory"
    DOCUMENT = "document"
    HASH = "hash"


@dataclass(frozen=True, kw_only=True)
class PartitionBy:
    """A rule with its number: the depth in folders for ``directory``, the bucket count for ``hash``."""

    rule: PartitionRule
    number: int = 0


def folder_of(document_key: str, partition_by: PartitionBy) -> str:
    """Return the real name of the set that a document belongs to: a folder, a document key or a bucket."""
    match partition_by.rule:
        case PartitionRule.DOCUMENT:
            return document_key
        case PartitionRule.HASH:
            digest = hashlib.sha256(document_key.encode()).digest()
            width = len(str(partition_by.number - 1))
            return f"bucket-{int.from_bytes(digest[:8], 'big') % partition_by.number:0{width}d}"
        case PartitionRule.DIRECTORY:
            folders = document_key.split("/")[:-1][: partition_by.number]
            return "/".join(folders) or ROOT_FOLDER


def partition_key(folder: str) -> str:
    """Return the partition key of a set's real name."""
    digest = hashlib.sha256(folder.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]
    plain = unicodedata.normalize("NFKD", folder).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "-", plain.lower())[: LONGEST_KEY - HASH_DIGITS - 1].strip("-")
    return f"{slug or 'set'}-{digest}"
