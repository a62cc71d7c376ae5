"""Mails are opened in a child process: what is attached, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extraction_core.fingerprints import sha256_hex
from extraction_core.parsing import Attachment, ParsedDocument, ParseFailure, ParseFailureReason
from tests.mails import a_mail, a_message
from tests.parsing.documents import pdf

if TYPE_CHECKING:
    from resources.parsing import LocalParseProvider

OFFER = pdf(["Model: R770"])


def attachments(provider: LocalParseProvider, mail: bytes) -> list[Attachment]:
    found = provider.attachments(mail)
    assert not isinstance(found, ParseFailure)
    return found


def test_attachments_are_listed_in_order_with_name_size_and_hash(provider: LocalParseProvider) -> None:
    found = attachments(provider, a_mail("See below.", {"offer.pdf": OFFER, "empty.txt": b""}))
    assert found == [
        Attachment(number=1, name="offer.pdf", content_hash=sha256_hex(OFFER), size_bytes=len(OFFER)),
        Attachment(number=2, name="empty.txt", content_hash=sha256_hex(b""), size_bytes=0),
    ]


def test_an_attachment_comes_out_byte_for_byte(provider: LocalParseProvider) -> None:
    assert provider.attachment(a_mail("See below.", {"a.txt": b"a", "offer.pdf": OFFER}), 2) == OFFER


def test_a_mail_in_a_mail_is_an_attachment_that_can_be_opened_itself(provider: LocalParseProvider) -> None:
    mail = a_mail("Outer", {"": a_message("Inner", {"offer.pdf": OFFER})})
    (inner,) = attachments(provider, mail)
    assert inner.name == "unnamed.eml"
    content = provider.attachment(mail, 1)
    assert isinstance(content, bytes)
    assert sha256_hex(content) == inner.content_hash
    assert [one.name for one in attachments(provider, content)] == ["offer.pdf"]


def test_a_mail_without_attachments_has_none(provider: LocalParseProvider) -> None:
    assert attachments(provider, a_mail("Only text")) == []
    assert attachments(provider, b"no mail at all") == []


def test_an_attachment_that_is_not_there_is_a_failure(provider: LocalParseProvider) -> None:
    failure = provider.attachment(a_mail("Only text"), 1)
    assert isinstance(failure, ParseFailure)
    assert failure.reason is ParseFailureReason.SOURCE_CHANGED


def test_attachments_beyond_the_limit_are_said_by_the_mail(provider: LocalParseProvider) -> None:
    mail = a_mail("Many", {f"{number:03d}.txt": b"x" for number in range(1, 202)})
    assert len(attachments(provider, mail)) == 200
    result = provider.parse(mail, "mail.eml")
    assert isinstance(result, ParsedDocument)
    assert result.warnings == ("attachment_not_read:201.txt",)
