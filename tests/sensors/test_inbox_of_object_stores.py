"""The inbox in a process that lives long, over a file system that lists from a cache whenever it may."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from extraction_assets.sensor_targets import sensor_target
from resources.source import DocumentSource
from sensors.document_inbox import look_at_source
from tests.factories import a_collection

if TYPE_CHECKING:
    from pathlib import Path

    from resources.ledger import Ledger

SCHEME = "caching"


class CachingFileSystem(MemoryFileSystem):
    """Keeps listings and sizes as the file systems of object stores do."""

    protocol = (SCHEME,)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.removeprefix(f"{SCHEME}:/"))

    def find(self, path: str, **arguments: Any) -> Any:
        """List folder by folder."""
        return AbstractFileSystem.find(self, path, **arguments)

    def ls(self, path: str, detail: bool = True, **arguments: Any) -> Any:  # noqa: FBT001, FBT002 - fsspec's own
        """List from the cache, if there is one. Details are all that is asked for here."""
        try:
            return self.dircache[path]
        except KeyError:
            self.dircache[path] = found = super().ls(path, detail=True, **arguments)
            return found

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forget all listings."""
        self.dircache.clear()


@pytest.fixture
def store(tmp_path: Path) -> CachingFileSystem:
    """The store, through whose cache the code under test would look if it did not ask for none."""
    fsspec.register_implementation(SCHEME, CachingFileSystem, clobber=True)
    store = CachingFileSystem()
    store.pipe_file(f"/{tmp_path.name}/dell/a.md", b"Model: R1")
    return store


def test_new_changed_and_removed_objects_are_seen_and_read_to_their_end(
    store: CachingFileSystem, ledger: Ledger, tmp_path: Path
) -> None:
    root = f"/{tmp_path.name}"
    collection = replace(a_collection(tmp_path / "unused", {}), source=f"{SCHEME}:/{root}")
    target = sensor_target(collection)

    def look() -> tuple[int, int, int]:
        registration = look_at_source(ledger, target)
        return registration.new, registration.changed, registration.removed

    assert look() == (1, 0, 0)
    store.pipe_file(f"{root}/dell/b.md", b"Model: R2")
    assert look() == (1, 0, 0)
    longer = b"Model: R1\n\nPrice USD: 1000\n"
    store.pipe_file(f"{root}/dell/a.md", longer)
    assert look() == (0, 1, 0)
    assert DocumentSource(collection.source, ["**/*"], []).read("dell/a.md") == longer
    store.rm_file(f"{root}/dell/b.md")
    assert look() == (0, 0, 1)
