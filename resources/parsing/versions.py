"""Which engines and which rules of our own make the Markdown."""

from __future__ import annotations

from functools import cache

RULES_REVISION = "2"
"""Raise it with every change here that can change the Markdown of a document that parsed before."""

PDF_ENGINE = "liteparse"
OFFICE_ENGINE = "xberg"
OWN_RULES = "rules"


@cache
def engine_version(engine: str) -> str:
    """The installed version of an engine; for our own rules, their revision."""
    if engine == OWN_RULES:
        return RULES_REVISION
    from importlib.metadata import version  # noqa: PLC0415 - large, and not for the server that reads text alone

    return version(engine)


def provider_version() -> str:
    """All of them in one line, for the input fingerprint, e.g. ``liteparse 2.18.0, xberg 1.3.9, rules 2``."""
    return ", ".join(f"{engine} {engine_version(engine)}" for engine in (PDF_ENGINE, OFFICE_ENGINE, OWN_RULES))
