"""What must be there before a document is handed to the service: the unit, the package."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from extraction_core.collection import CollectionFile
from extraction_core.errors import ConfigurationError
from resources.parsing.reducto_access import ReductoAccess
from resources.parsing.reducto_client import open_reducto

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.mark.parametrize("unit", ["directory", {"directory": 1}])
def test_a_document_of_several_files_cannot_be_one_job(unit: str | Mapping[str, Any]) -> None:
    with pytest.raises(ValidationError, match="documents of one file"):
        CollectionFile.model_validate({"source": "x", "unit": unit, "parse": "reducto"})
    assert CollectionFile.model_validate({"source": "x", "parse": "reducto"}).parse == "reducto"


def test_a_package_that_is_missing_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "resources.parsing.reducto_service", raising=False)
    monkeypatch.setitem(sys.modules, "reducto", None)
    access = ReductoAccess(api_key="k", base_url=None)
    with pytest.raises(ConfigurationError, match=r"not installed.*extraction-assets\[reducto\]"), open_reducto(access):
        pass
