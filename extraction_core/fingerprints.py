"""Fingerprints: what decides an answer, and what decides a parse.

An answer is paid for once per (document key, input fingerprint). Anything that can change the answer is in the
fingerprint; anything that cannot (concurrency, limits on money and attempts) is not, or a change of it would pay
for every document again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

PROMPT_REVISION = 1
"""Raised whenever the wording of the prompt or the rules for judging an answer change."""

UNREADABLE_CONTENT = "unreadable"
"""Stands for the content hash of a document whose bytes could not be read."""


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of some bytes as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def canonical_digest(value: Mapping[str, object]) -> str:
    """Return the SHA-256 of a JSON-compatible mapping, independent of the order of its keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return sha256_hex(text.encode("ascii"))


def directory_hash(files: Mapping[str, str]) -> str:
    """Return the content hash of a directory: over the names of its files and the SHA-256 of their bytes."""
    return canonical_digest({"directory": dict(files)})


def parse_key(content_hash: str, provider: str, provider_version: str) -> str:
    """Return the identity of one parsing of some bytes: equal bytes are parsed once, whatever they are called."""
    return canonical_digest({"content": content_hash, "provider": provider, "version": provider_version})


def question_digest(
    *, schema: Mapping[str, object], instructions: str, model: str, max_output_tokens: int, parser: str
) -> str:
    """Return the digest of the part of the fingerprint that all documents of a collection share."""
    return canonical_digest(
        {
            "schema": schema,
            "instructions": instructions,
            "model": model,
            "max_output_tokens": max_output_tokens,
            "parser": parser,
            "prompt": PROMPT_REVISION,
        }
    )


def input_fingerprint(content_hash: str | None, question: str) -> str:
    """Return the input fingerprint of a document: its bytes and everything that is asked of them."""
    return sha256_hex(f"{content_hash or UNREADABLE_CONTENT}:{question}".encode("ascii"))
