"""E-mail (EML): header fields and the body; and its attachments, which are documents of their own."""

from __future__ import annotations

import mimetypes
from email import message_from_bytes, policy
from email.message import EmailMessage, Message
from typing import cast

from extraction_core.fingerprints import sha256_hex
from extraction_core.parsing import Attachment, ParseFailureReason
from resources.parsing.draft import DocumentRefusedError, Draft
from resources.parsing.encodings import decode_text
from resources.parsing.versions import OWN_RULES
from resources.parsing.web_page import read_html

MOST_ATTACHMENTS = 200
_FIELDS = ("Subject", "From", "To", "Cc", "Date")


def read_mail(data: bytes) -> Draft:
    """The message as text: the plain body if there is one, else the HTML body. Attachments are named."""
    message = _message(data)
    lines = [f"{field}: {message[field]}" for field in _FIELDS if message[field]]
    attachments = [part.get_filename() or part.get_content_type() for part in message.iter_attachments()]
    if attachments:
        lines.append("Attachments: " + ", ".join(attachments))
    body = message.get_body(("plain", "html"))
    text, warnings = ("", []) if body is None else _body_text(cast("EmailMessage", body))
    warnings.extend(f"attachment_not_read:{name}" for name in attachments[MOST_ATTACHMENTS:])
    return Draft.of_text("\n".join(lines) + "\n\n" + text, engine=OWN_RULES, warnings=warnings)


def list_attachments(data: bytes) -> list[Attachment]:
    """The first :data:`MOST_ATTACHMENTS` attachments of a mail, in its order."""
    found: list[Attachment] = []
    for number, part in enumerate(_attached_parts(data), start=1):
        content = _content(part)
        found.append(
            Attachment(number=number, name=_name(part), content_hash=sha256_hex(content), size_bytes=len(content))
        )
    return found


def attachment_content(data: bytes, number: int) -> bytes:
    """The bytes of one attachment of a mail.

    Raises:
        DocumentRefusedError: SOURCE_CHANGED, if the mail has no such attachment.
    """
    parts = _attached_parts(data)
    if not 1 <= number <= len(parts):
        raise DocumentRefusedError(ParseFailureReason.SOURCE_CHANGED, f"the mail has no attachment {number}")
    return _content(parts[number - 1])


def _message(data: bytes) -> EmailMessage:
    return message_from_bytes(data, policy=policy.default)


def _attached_parts(data: bytes) -> list[EmailMessage]:
    return list(_message(data).iter_attachments())[:MOST_ATTACHMENTS]


def _name(part: EmailMessage) -> str:
    """The name that the mail gives, with the suffix of its type if it has none; a mail in a mail ends in ``.eml``."""
    name = (part.get_filename() or "unnamed").encode("utf-8", "replace").decode()
    if part.get_content_maintype() in {"message", "multipart"}:
        return name if name.lower().endswith(".eml") else f"{name}.eml"
    return name if "." in name else name + (mimetypes.guess_extension(part.get_content_type()) or "")


def _content(part: EmailMessage) -> bytes:
    """The decoded bytes; of a mail in a mail its source. What cannot be put together is empty, and fails as such."""
    if not part.is_multipart():
        return cast("bytes", part.get_payload(decode=True) or b"")
    inner = cast("list[Message]", part.get_payload())
    try:
        return inner[0].as_bytes() if part.get_content_maintype() == "message" else part.as_bytes()
    except (LookupError, UnicodeError, ValueError):
        return b""


def _body_text(body: EmailMessage) -> tuple[str, list[str]]:
    text, warnings = _decode(cast("bytes", body.get_payload(decode=True) or b""), body.get_content_charset())
    if body.get_content_subtype() != "html":
        return text, warnings
    html = read_html(text.encode("utf-8", "replace"))
    return html.pages[0].text, [*warnings, *html.warnings]


def _decode(content: bytes, charset: str | None) -> tuple[str, list[str]]:
    """By the charset that the part declares; by our own rules where it is unknown or wrong."""
    try:
        return content.decode(charset or "ascii").replace("\r\n", "\n"), []
    except (LookupError, UnicodeDecodeError):
        return decode_text(content)
