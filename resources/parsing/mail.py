"""E-mail (EML): header fields and the body. Attachments are documents of their own: they are named, not read."""

from __future__ import annotations

from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import cast

from resources.parsing.draft import Draft
from resources.parsing.encodings import decode_text
from resources.parsing.versions import OWN_RULES
from resources.parsing.web_page import read_html

_FIELDS = ("Subject", "From", "To", "Cc", "Date")


def read_mail(data: bytes) -> Draft:
    """The message as text: the plain body if there is one, else the HTML body."""
    message = message_from_bytes(data, policy=policy.default)
    lines = [f"{field}: {message[field]}" for field in _FIELDS if message[field]]
    attachments = [part.get_filename() or part.get_content_type() for part in message.iter_attachments()]
    if attachments:
        lines.append("Attachments: " + ", ".join(attachments))
    body = message.get_body(("plain", "html"))
    text, warnings = ("", []) if body is None else _body_text(cast("EmailMessage", body))
    warnings.extend(f"attachment_not_read:{name}" for name in attachments)
    return Draft.of_text("\n".join(lines) + "\n\n" + text, engine=OWN_RULES, warnings=warnings)


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
