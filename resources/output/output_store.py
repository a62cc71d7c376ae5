"""The folder of the results: one ``extraction.json`` per document, confined to its root."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from extraction_core.errors import OutputPathError
from extraction_core.failpoints import Failpoints, no_failpoints
from extraction_core.fingerprints import sha256_hex
from extraction_core.result_document import output_path
from resources.output import atomic_write
from resources.output.spelling import other_spelling, takes_no_notice_of_case


class OutputStore:
    """Stages, reads and sweeps results below one root folder.

    Args:
        root: an absolute folder; made when the first result is written.
        failpoints: called right before each file operation; does nothing in production.
    """

    def __init__(self, root: Path, failpoints: Failpoints = no_failpoints) -> None:
        self.root = root
        self._failpoints = failpoints

    def stage(self, collection: str, document_key: str, data: bytes) -> atomic_write.StagedFile:
        """Write and sync a document's result beside the place it will take.

        Raises:
            OutputStoreError: nothing is left behind; or the path is another document's on a file system that takes no
                notice of case.
            ValueError: the document key leads outside the root.
        """
        path = output_path(collection, document_key)
        staged = atomic_write.stage(self.root / path, data, self._failpoints)
        if takes_no_notice_of_case(staged.temp) and (other := other_spelling(self.root, path.parent)):
            staged.discard()
            message = f"{self.root / path} differs in case alone from {other}, of which the file system takes no notice"
            raise OutputPathError(message)
        return staged

    def make_folders(self, collection: str, document_keys: Iterable[str]) -> None:
        """Make the folders of many results ahead of :meth:`stage`, which would sync their parent once for each.

        Raises:
            OutputStoreError: nothing can be written any more.
            ValueError: a document key leads outside the root.
        """
        atomic_write.make_folders(self.root / output_path(collection, key).parent for key in document_keys)

    def relative(self, collection: str, document_key: str) -> str:
        """Return a result's path relative to the root, as the ledger keeps it."""
        return str(output_path(collection, document_key))

    def sha256(self, relative: str) -> str | None:
        """Return the hash of a file as it is on disk; None when there is none."""
        try:
            return sha256_hex((self.root / relative).read_bytes())
        except OSError:
            return None

    def sweep(self, collection: str) -> int:
        """Remove what crashed writers of a collection left behind. Returns how many files were removed."""
        return atomic_write.sweep(self.root / collection)
