"""The original bytes of documents: of a file, of the files of a folder, or of an attachment of a mail.

Everything is read at the moment it is needed, and hashed, so a document is what was read and not what was listed.
"""

from __future__ import annotations

from collections.abc import Iterator

from extraction_assets.workers.parsers import Parsers
from extraction_core.collection import Collection
from extraction_core.documents import attachment_key, attachment_place, is_mail, skip_reason
from extraction_core.errors import ConfigurationError
from extraction_core.fingerprints import directory_hash, sha256_hex
from extraction_core.joining import FileOutcome, join_files
from extraction_core.parsing import Attachment, ParsedDocument, ParseFailure, ParseFailureReason, ParseProvider
from resources.source import DocumentSource


class Originals:
    """Reads the documents of one collection. Thread-safe.

    Args:
        collection: the collection, with its source and its unit.
        parsers: the local one opens mails.
    """

    def __init__(self, collection: Collection, parsers: Parsers) -> None:
        self._settings, self._parsers = collection.settings, parsers
        self._source = DocumentSource(collection.source, self._settings.include, self._settings.exclude)
        self._unit = self._settings.unit_rule()

    def content_hash(self, document_key: str) -> str:
        """Return the hash of a document's content.

        Raises:
            OSError: it, or one of its files, cannot be read.
        """
        if not self._unit.is_folder:
            return sha256_hex(self._source.read(document_key))
        return directory_hash({name: sha256_hex(data) for name, data in self._files(document_key)})

    def read(self, document_key: str, content_hash: str) -> bytes | ParseFailure:
        """Read a document that is one file.

        Args:
            document_key: the document.
            content_hash: what its content must be; anything else is a failure.
        """
        try:
            data = self._read(document_key)
        except OSError as error:
            return _unreadable(document_key, error)
        if isinstance(data, ParseFailure):
            return data
        return data if sha256_hex(data) == content_hash else _changed(document_key)

    def attachments(self, mail_key: str) -> list[Attachment] | ParseFailure:
        """List what is attached to a mail that is a document."""
        try:
            data = self._read(mail_key)
        except OSError as error:
            return _unreadable(mail_key, error)
        return data if isinstance(data, ParseFailure) else self._parsers.local.attachments(data)

    def parse(self, document_key: str, content_hash: str, provider: ParseProvider) -> ParsedDocument | ParseFailure:
        """Read a document and parse it, file by file.

        Args:
            document_key: the document.
            content_hash: what its content must be; anything else is a failure.
            provider: parses the bytes.
        """
        if self._unit.is_folder:
            try:
                return self._parse_folder(document_key, content_hash, provider)
            except OSError as error:
                return _unreadable(document_key, error)
        data = self.read(document_key, content_hash)
        return data if isinstance(data, ParseFailure) else provider.parse(data, document_key)

    def _read(self, document_key: str) -> bytes | ParseFailure:
        """Read a file, or an attachment out of its mail.

        Raises:
            OSError: it, or the file that it is in, cannot be read.
        """
        try:
            return self._source.read(document_key)
        except (FileNotFoundError, NotADirectoryError):
            place = attachment_place(document_key)
            if place is None:
                raise
        mail = self._read(place.mail_key)
        return mail if isinstance(mail, ParseFailure) else self._parsers.local.attachment(mail, place.number)

    def _parse_folder(self, folder: str, content_hash: str, provider: ParseProvider) -> ParsedDocument | ParseFailure:
        hashes: dict[str, str] = {}
        outcomes: list[FileOutcome] = []
        for name, data in self._files(folder):
            hashes[name] = sha256_hex(data)
            outcomes.append((name, _parse_file(data, name, provider)))
            outcomes += self._parse_attached(folder, name, data, provider)
        return join_files(outcomes) if directory_hash(hashes) == content_hash else _changed(folder)

    def _parse_attached(self, folder: str, name: str, data: bytes, provider: ParseProvider) -> Iterator[FileOutcome]:
        """Parse what is attached to a file of a folder, if it is a mail; a mail that cannot be opened failed itself."""
        attached = self._parsers.local.attachments(data) if is_mail(name) else []
        for one in [] if isinstance(attached, ParseFailure) else attached:
            key = attachment_key(name, one.number, one.name)
            if skip_reason(f"{folder}/{key}", self._settings.include, self._settings.exclude) is None:
                content = self._parsers.local.attachment(data, one.number)
                yield key, content if isinstance(content, ParseFailure) else _parse_file(content, key, provider)

    def _files(self, folder: str) -> Iterator[tuple[str, bytes]]:
        """Read the files of a folder one after another, by name; names are paths below the folder.

        Raises:
            OSError: the folder or a file of it is gone or cannot be read.
        """
        try:
            listing = self._source.list(below=folder)
        except ConfigurationError as error:
            raise FileNotFoundError(str(error)) from error
        unreadable = [file.key for file in listing.skipped if file.key in listing.unreadable]
        if unreadable:
            msg = f"{unreadable[0]} cannot be read"
            raise PermissionError(msg)
        for file in listing.files:
            if self._unit.document_key(file.key) == folder:
                yield file.key.removeprefix(f"{folder}/"), self._source.read(file.key)


def _parse_file(data: bytes, name: str, provider: ParseProvider) -> ParsedDocument | ParseFailure:
    """Parse one of several files. What may pass is tried once more at once: the joined text is kept for good."""
    outcome = provider.parse(data, name)
    return provider.parse(data, name) if isinstance(outcome, ParseFailure) and outcome.retryable else outcome


def _unreadable(document_key: str, error: OSError) -> ParseFailure:
    message = f"{document_key} cannot be read: {error.strerror or error}"
    return ParseFailure(reason=ParseFailureReason.SOURCE_MISSING, message=message)


def _changed(document_key: str) -> ParseFailure:
    message = f"{document_key} changed after it was looked at; launch again"
    return ParseFailure(reason=ParseFailureReason.SOURCE_CHANGED, message=message)
