"""Attachments of mails as documents of their own: registered when their mail is read, in their mail's document set.

A listing looks at names alone and cannot know them, so they are found where a changed mail is read anyhow, before
anything is parsed. An attachment's signature is the hash of its bytes: it is due again only when they change.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from extraction_assets.workers.originals import Originals
from extraction_assets.workers.tools import Tools
from extraction_core.collection import Collection
from extraction_core.documents import ATTACHED, attachment_key, is_mail, skip_reason
from extraction_core.parsing import Attachment, ParseFailure
from resources.ledger.documents import DocumentSet, FoundDocument

log = logging.getLogger(__name__)

MOST_LEVELS = 3
"""Mails in mails that are opened; a deeper one is a document, but its attachments are not."""


def register_attachments(
    tools: Tools, collection: Collection, document_set: DocumentSet, originals: Originals, mails: Sequence[str]
) -> frozenset[str]:
    """Open mails and register what is attached to them, level by level.

    Args:
        tools: the resources.
        collection: the collection, whose ``include`` and ``exclude`` hold for attachments too.
        document_set: the set that the mails are in.
        originals: reads them.
        mails: their document keys.

    Returns:
        Mails that could not be opened for a reason that may pass: they must be opened again.
    """
    failed: set[str] = set()
    for _ in range(MOST_LEVELS):
        if not mails:
            break
        found: dict[str, list[FoundDocument]] = {}
        for mail in mails:
            attached = originals.attachments(mail)
            if not isinstance(attached, ParseFailure):
                found[mail] = list(_documents(collection, document_set, mail, attached))
            elif attached.retryable:
                failed.add(mail)
        tools.ledger.documents.attach(document_set, found)
        mails = [document.key for documents in found.values() for document in documents if is_mail(document.key)]
    return frozenset(failed)


def _documents(
    collection: Collection, document_set: DocumentSet, mail: str, attached: Iterable[Attachment]
) -> Iterable[FoundDocument]:
    settings = collection.settings
    for one in attached:
        key = attachment_key(mail, one.number, one.name)
        if reason := skip_reason(key, settings.include, settings.exclude):
            log.info("%s is no document: %s", key, reason)
            continue
        signature = f"{ATTACHED}{one.content_hash}"
        yield FoundDocument(key=key, folder=document_set.folder, size_bytes=one.size_bytes, signature=signature)
