"""Mails with attachments, made on the spot."""

from __future__ import annotations

from email.message import EmailMessage
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def a_message(text: str, attached: Mapping[str, bytes | EmailMessage] | None = None) -> EmailMessage:
    """Return a mail with a text and attachments by name; a mail among them has no name of its own."""
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = "Offer", "a@example.org", "b@example.org"
    message.set_content(text)
    for name, content in (attached or {}).items():
        if isinstance(content, EmailMessage):
            message.add_attachment(content)
        else:
            message.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
    return message


def a_mail(text: str, attached: Mapping[str, bytes | EmailMessage] | None = None) -> bytes:
    """Return the same as the bytes of an EML file."""
    return a_message(text, attached).as_bytes()
