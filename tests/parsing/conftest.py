"""One provider for all tests of this folder: its fork server starts once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from resources.parsing import LocalParseProvider

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalParseProvider]:
    with LocalParseProvider(scratch_folder=tmp_path_factory.mktemp("scratch")) as running:
        yield running
