"""Documents to Markdown, each in a process of its own, or by a job of Reducto's.

``local_provider`` is what the rest of the project uses. It starts a ``fork_server``, which imports the parsing
libraries once and forks a limited child per document; the child runs ``document_reader``. Documents that are named as
text have a smaller server, whose children run ``text_reader``. It never goes to the network, and the libraries are
never imported into the calling process. The modules named ``reducto`` are all that does.
"""

from __future__ import annotations

from pathlib import Path

from extraction_core.errors import ConfigurationError
from extraction_core.parsing import ParseProvider
from resources.parsing.local_provider import LocalParseProvider
from resources.parsing.reducto import REDUCTO, ReductoParseProvider

__all__ = ["REDUCTO", "LocalParseProvider", "ReductoParseProvider", "build_parse_provider"]


def build_parse_provider(name: str, *, home: Path) -> ParseProvider:
    """Build the provider that a collection names in ``parse``.

    Args:
        name: ``local`` or ``reducto``.
        home: the folder of all state; temporary files without a name are kept in ``home/tmp``.

    Raises:
        ConfigurationError: there is no provider of that name.
    """
    if name == LocalParseProvider.name:
        return LocalParseProvider(scratch_folder=home / "tmp")
    if name == REDUCTO:
        return ReductoParseProvider()
    raise ConfigurationError(
        "defs.yaml",
        "parse",
        f"there is no parse provider '{name}'.",
        f"Use '{LocalParseProvider.name}' or '{REDUCTO}'.",
    )
