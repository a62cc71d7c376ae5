"""Mails are opened in a child process: what is attached, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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


HEAD = b"From: a@example.com\r\nTo: b@example.com\r\nSubject: s\r\nMIME-Version: 1.0\r\nContent-Type: "
PLAIN, HTML, PDF = b"Content-Type: text/plain", b"Content-Type: text/html", b"Content-Type: application/pdf; name=i.pdf"


def several(kind: bytes, *parts: tuple[bytes, bytes]) -> bytes:
    """A part made of parts, without the name of its own field."""
    mark = kind[:3]
    bodies = b"".join(b"--%s\r\n%s\r\n\r\n%s\r\n" % (mark, head, body) for head, body in parts)
    return b"multipart/%s; boundary=%s\r\n\r\n%s--%s--\r\n" % (kind, mark, bodies, mark)


def inside(part: bytes) -> tuple[bytes, bytes]:
    head, body = part.split(b"\r\n\r\n", 1)
    return b"Content-Type: " + head, body


@pytest.mark.parametrize(
    ("mail", "text", "attached"),
    [
        (several(b"alternative", (PLAIN, b" "), (HTML, b"<p>Total: 5</p>")), "Total: 5", []),
        (several(b"alternative", (PLAIN, b"This mail has HTML."), (HTML, b"<p>Total: 5 EUR</p>")), "Total: 5 EUR", []),
        (several(b"alternative", (PLAIN, b"Total: 5 EUR"), (HTML, b"<b>Total</b>: 5 EUR")), "Total: 5 EUR", []),
        (several(b"mixed", (PLAIN, b"one"), (PDF, b"x"), (PLAIN, b"two")), "one\n\ntwo", ["i.pdf"]),
        (
            several(
                b"alternative",
                (PLAIN, b"one two"),
                inside(several(b"mixed", (HTML, b"one"), (PDF, b"x"), (HTML, b"two"))),
            ),
            "one two",
            ["i.pdf"],
        ),
        (
            several(b"mixed", inside(several(b"signed", (PLAIN, b"one"), (PDF, b"x"))), (HTML, b"footer")),
            "one\n\nfooter",
            ["i.pdf"],
        ),
        (b"application/pdf; name=i.pdf\r\n\r\nx", "", ["i.pdf"]),
        (b"multipart/mixed\r\n\r\nno boundaries", "no boundaries", []),
    ],
)
def test_no_part_of_a_mail_is_lost(provider: LocalParseProvider, mail: bytes, text: str, attached: list[str]) -> None:
    result = provider.parse(HEAD + mail, "mail.eml")
    assert isinstance(result, ParsedDocument)
    assert result.markdown.partition("\n\n")[2].strip() == text
    assert [one.name for one in attachments(provider, HEAD + mail)] == attached
