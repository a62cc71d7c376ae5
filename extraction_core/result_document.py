"""One result on disk: its bytes and its path. Both are pure functions, so a redo writes the same file byte for byte."""

from __future__ import annotations

from pathlib import PurePosixPath

import simplejson

OUTPUT_NAME = "extraction.json"


def canonical_json(value: object) -> bytes:
    """Return strict JSON in UTF-8: keys in the order of the answer, digits as answered, one line end at the end.

    Numbers with a fraction are expected as :class:`decimal.Decimal` and are written digit by digit, never by way of a
    float. Lone surrogates and NaN must have been dealt with before; either raises ValueError.
    """
    text = simplejson.dumps(
        value, use_decimal=True, ensure_ascii=False, allow_nan=False, indent=2, namedtuple_as_object=False
    )
    return (text + "\n").encode("utf-8")


def output_path(collection: str, document_key: str) -> PurePosixPath:
    """Return ``<collection>/<document key>/extraction.json``, relative to the output root.

    The key keeps its folders and its extension, so ``a/scan.pdf``, ``b/scan.pdf`` and ``a/scan.docx`` never share an
    output.

    Raises:
        ValueError: the key is empty, absolute, or has a ``..`` or an empty component.
    """
    key = PurePosixPath(document_key)
    if not key.parts or key.is_absolute() or ".." in key.parts or "\0" in document_key:
        msg = f"document key {document_key!r} cannot be a path below the output root"
        raise ValueError(msg)
    return PurePosixPath(collection) / key / OUTPUT_NAME
