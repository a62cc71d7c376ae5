"""Documents to Markdown, each in a process of its own.

``local_provider`` is what the rest of the project uses. It starts a ``fork_server``, which imports the parsing
libraries once and forks a limited child per document; the child runs ``document_reader``. Nothing here goes to the
network, and the libraries are never imported into the calling process.
"""

from __future__ import annotations

from pathlib import Path

from extraction_core.errors import ConfigurationError
from extraction_core.parsing import ParseProvider
from resources.parsing.local_provider import LocalParseProvider

__all__ = ["LocalParseProvider", "build_parse_provider"]


def build_parse_provider(name: str, *, home: Path) -> ParseProvider:
    """Build the provider that a collection names in ``parse``.

    Args:
        name: ``local``, the only one there is.
        home: the folder of all state; temporary files without a name are kept in ``home/tmp``.

    Raises:
        ConfigurationError: there is no provider of that name.
    """
    if name != LocalParseProvider.name:
        raise ConfigurationError(
            "defs.yaml", "parse", f"there is no parse provider '{name}'.", f"Use '{LocalParseProvider.name}'."
        )
    return LocalParseProvider(scratch_folder=home / "tmp")
