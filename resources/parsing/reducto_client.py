"""Opening Reducto's API where its SDK is installed: it comes with the extra ``reducto``."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from extraction_core.errors import ConfigurationError
from resources.parsing.reducto_access import ReductoAccess

if TYPE_CHECKING:
    from resources.parsing.reducto_service import ReductoService


@contextmanager
def open_reducto(access: ReductoAccess) -> Generator[ReductoService]:
    """Open the API, and close it at the end of the block.

    Raises:
        ConfigurationError: the SDK is not installed.
    """
    try:
        from resources.parsing.reducto_service import ReductoService  # noqa: PLC0415 - loads the SDK, which is optional
    except ModuleNotFoundError as error:
        if error.name != "reducto":
            raise
        raise ConfigurationError(
            "defs.yaml",
            "parse",
            "is reducto, but the package reductoai is not installed.",
            "Install the extra: pip install 'extraction-assets[reducto]'.",
        ) from None
    service = ReductoService(access)
    try:
        yield service
    finally:
        service.close()
