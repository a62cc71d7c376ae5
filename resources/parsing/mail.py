"""E-mail (EML): header fields and the texts; and its attachments, which are documents of their own."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator
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
_WORD = re.compile(r"\w+")
_FIELDS = ("Subject", "From", "To", "Cc", "Date")


def read_mail(data: bytes) -> Draft:
    """The message as text: its fields, the names of its attachments, and what a mail program shows as one text."""
    message = _message(data)
    lines = [f"{field}: {message[field]}" for field in _FIELDS if message[field]]
    attachments = [part.get_filename() or part.get_content_type() for part in _attached_parts(message)]
    if attachments:
        lines.append("Attachments: " + ", ".join(attachments))
    warnings = [f"attachment_not_read:{name}" for name in attachments[MOST_ATTACHMENTS:]]
    texts: list[str] = []
    for part in _texts(message):
        text, noted = _shown(part)
        texts.append(text)
        warnings.extend(noted)
    return Draft.of_text("\n".join(lines) + "\n\n" + "\n\n".join(texts), engine=OWN_RULES, warnings=warnings)


def list_attachments(data: bytes) -> list[Attachment]:
    """The first :data:`MOST_ATTACHMENTS` attachments of a mail, in its order."""
    found: list[Attachment] = []
    for number, part in enumerate(_attached_parts(_message(data))[:MOST_ATTACHMENTS], start=1):
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
    parts = _attached_parts(_message(data))[:MOST_ATTACHMENTS]
    if not 1 <= number <= len(parts):
        raise DocumentRefusedError(ParseFailureReason.SOURCE_CHANGED, f"the mail has no attachment {number}")
    return _content(parts[number - 1])


def _message(data: bytes) -> EmailMessage:
    return message_from_bytes(data, policy=policy.default)


def _attached_parts(message: EmailMessage) -> list[EmailMessage]:
    """Every part that is not shown as text, however deep. A mail may be nothing but a file, as scanners send them."""
    return [part for part in _leaves(message) if not _is_text(part)]


def _leaves(part: EmailMessage) -> Iterator[EmailMessage]:
    """The parts that are no parts of parts; a mail in a mail is one."""
    if not _is_container(part):
        yield part
    for child in part.iter_parts() if _is_container(part) else ():
        yield from _leaves(cast("EmailMessage", child))


def _texts(part: EmailMessage) -> Iterator[EmailMessage]:
    """Texts and choices between texts, in their order. Some programs cut a text in pieces around its pictures."""
    if _is_text(part) or part.get_content_type() == "multipart/alternative":
        yield part
    elif _is_container(part):
        for child in part.iter_parts():
            yield from _texts(cast("EmailMessage", child))


def _is_container(part: EmailMessage) -> bool:
    return part.get_content_maintype() == "multipart" and part.is_multipart()


def _is_text(part: EmailMessage) -> bool:
    """What mail programs show, not offer to save; or a multipart that lacks the boundaries that it announces."""
    is_shown = part.get_content_maintype() == "text" and not part.is_attachment() and part.get_filename() is None
    return is_shown or (part.get_content_maintype() == "multipart" and not part.is_multipart())


def _name(part: EmailMessage) -> str:
    """The name that the mail gives, with the suffix of its type if it has none; a mail in a mail ends in ``.eml``."""
    name = (part.get_filename() or "unnamed").encode("utf-8", "replace").decode()
    if part.get_content_maintype() == "message":
        return name if name.lower().endswith(".eml") else f"{name}.eml"
    return name if "." in name else name + (mimetypes.guess_extension(part.get_content_type()) or "")


def _content(part: EmailMessage) -> bytes:
    """The decoded bytes; of a mail in a mail its source. What cannot be put together is empty, and fails as such."""
    if not part.is_multipart():
        return cast("bytes", part.get_payload(decode=True) or b"")
    inner = cast("list[Message]", part.get_payload())
    try:
        return inner[0].as_bytes()
    except (LookupError, UnicodeError, ValueError):
        return b""


def _shown(part: EmailMessage) -> tuple[str, list[str]]:
    """The plain text, unless most words of the HTML are missing from it: it may only say that there is some."""
    leaves = [leaf for leaf in _leaves(part) if _is_text(leaf)]
    html, plain = ([leaf for leaf in leaves if leaf.get_content_subtype() == kind] for kind in ("html", "plain"))
    if not html or not plain:
        return _joined(html or plain or leaves)
    as_html, as_plain = _joined(html), _joined(plain)
    words = set(_WORD.findall(as_html[0]))
    return as_html if len(words - set(_WORD.findall(as_plain[0]))) > len(words) / 2 else as_plain


def _joined(parts: list[EmailMessage]) -> tuple[str, list[str]]:
    texts: list[str] = []
    warnings: list[str] = []
    for part in parts:
        text, noted = _decode(cast("bytes", part.get_payload(decode=True) or b""), part.get_content_charset())
        warnings.extend(noted)
        if part.get_content_subtype() == "html":
            html = read_html(text.encode("utf-8", "replace"))
            text = html.pages[0].text
            warnings.extend(html.warnings)
        texts.append(text)
    return "\n\n".join(texts), warnings


def _decode(content: bytes, charset: str | None) -> tuple[str, list[str]]:
    """By the charset that the part declares; by our own rules where it is unknown or wrong."""
    try:
        return content.decode(charset or "ascii").replace("\r\n", "\n"), []
    except (LookupError, UnicodeDecodeError):
        return decode_text(content)
