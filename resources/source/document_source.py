"""Listing and reading a collection's source.

A listing is complete or it raises: a source that cannot be read must never look like one whose documents were all
removed. Every file is either a document or a skipped file with its reason. Links are followed only to files inside
the source; linked folders are not walked, so no loop and no way out exists.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import Any, Literal, Protocol, cast

from fsspec.core import url_to_fs  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType] - it has no types

from extraction_core.documents import skip_reason
from extraction_core.errors import ConfigurationError
from resources.source.listing import UNREADABLE, Listing, SkippedFile, SourceFile


class DocumentSource:
    """A local folder or an fsspec URL.

    Args:
        url: an absolute path or a URL that fsspec knows, without credentials in it.
        include: glob patterns of which one must match a key.
        exclude: glob patterns of which none may match.
    """

    def __init__(self, url: str, include: Sequence[str], exclude: Sequence[str]) -> None:
        self.url = url
        self._include, self._exclude = include, exclude
        self._local = Path(url.removeprefix("file://")) if "://" not in url or url.startswith("file://") else None

    def list(self, below: str = "") -> Listing:
        """List the whole source, or what lies below one of its folders; keys are paths from the source all the same.

        Raises:
            ConfigurationError: the source is missing or cannot be read.
        """
        files: list[SourceFile] = []
        skipped: list[SkippedFile] = []
        for key, found in self._walk_local(self._local, below) if self._local else self._walk_remote(below):
            reason = found if isinstance(found, str) else skip_reason(key, self._include, self._exclude)
            if reason:
                skipped.append(SkippedFile(key=key, reason=reason))
            else:
                files.append(cast("SourceFile", found))
        return Listing(
            files=tuple(sorted(files, key=lambda file: file.key)),
            skipped=tuple(sorted(skipped, key=lambda file: file.key)),
        )

    def read(self, document_key: str) -> bytes:
        """Read a document to its true end, past any cached size.

        Raises:
            FileNotFoundError: it is gone.
            OSError: it cannot be read.
        """
        if self._local:
            path = self._local / document_key
            if not _real(path).is_relative_to(self._local.resolve()):
                msg = f"{document_key} leads outside the source"
                raise PermissionError(msg)
            return path.read_bytes()
        system, root = _file_system(self.url)
        return system.cat_file(f"{root.rstrip('/')}/{document_key}")

    def _walk_local(self, root: Path, below: str) -> Iterator[tuple[str, SourceFile | str]]:
        if not (root / below).is_dir():
            raise ConfigurationError(self.url, "source", "is not a folder.", "Create it, or correct `source`.")
        resolved = root.resolve()
        for folder, folders, names in os.walk(root / below, onerror=self._refuse):
            folders.sort()
            above = os.path.relpath(folder, root).replace(os.sep, "/") + "/"
            above = "" if above == "./" else above
            for name in sorted(names):
                key = above + name
                yield _storable(key), self._look_at(Path(folder, name), key, resolved)
            for name in list(folders):
                if reason := _no_way_into(Path(folder, name)):
                    folders.remove(name)
                    yield _storable(above + name), reason

    def _look_at(self, path: Path, key: str, resolved_root: Path) -> SourceFile | str:
        """Look at one file with one system call, or two for a link: a tick looks at every file of the source."""
        if key != _storable(key):
            return "name is not valid UTF-8"
        try:
            seen = path.lstat()
            is_link = S_ISLNK(seen.st_mode)
            if is_link and not _real(path).is_relative_to(resolved_root):
                return "link that leads outside the source"
            seen = path.stat() if is_link else seen
        except FileNotFoundError:
            return "link that leads nowhere" if path.is_symlink() else "gone while the source was listed"
        except OSError as error:
            return f"{UNREADABLE}: {error.strerror}"
        if not S_ISREG(seen.st_mode):
            return "not a regular file"
        # ctime and inode change even when a file is replaced with its size and time kept
        signature = f"{seen.st_size}-{seen.st_mtime_ns}-{seen.st_ctime_ns}-{seen.st_ino}"
        return SourceFile(key=key, size_bytes=seen.st_size, signature=signature, modified_s=seen.st_mtime)

    def _refuse(self, error: OSError) -> None:
        raise ConfigurationError(
            self.url, "source", f"cannot be listed: {error.strerror} ({error.filename}).", "Make it readable."
        ) from error

    def _walk_remote(self, below: str) -> Iterator[tuple[str, SourceFile | str]]:
        try:
            system, root = _file_system(self.url)
            system.invalidate_cache()
            found = system.find(f"{root.rstrip('/')}/{below}" if below else root, detail=True)
        except Exception as error:  # any file system raises its own kinds, and one that is not installed an ImportError
            raise ConfigurationError(self.url, "source", f"cannot be listed: {error}.", "Make it readable.") from error
        if not found and not system.exists(root):
            raise ConfigurationError(self.url, "source", "does not exist.", "Create it, or correct `source`.")
        for path, info in sorted(found.items()):
            key = path.removeprefix(root).lstrip("/")
            tags = [
                info.get(name)
                for name in ("size", "ETag", "etag", "mtime", "LastModified", "updated", "created", "generation")
            ]
            signature = "-".join(str(tag) for tag in tags if tag is not None)
            yield key, SourceFile(key=key, size_bytes=int(info.get("size") or 0), signature=signature)


class _FileSystem(Protocol):
    """What is used of fsspec's file systems."""

    def invalidate_cache(self) -> None: ...
    def find(self, path: str, *, detail: Literal[True]) -> dict[str, dict[str, Any]]: ...
    def exists(self, path: str) -> bool: ...
    def cat_file(self, path: str) -> bytes: ...


def _file_system(url: str) -> tuple[_FileSystem, str]:
    """Return a file system without listing caches, so that what it says is true now."""
    return cast("tuple[_FileSystem, str]", url_to_fs(url, use_listings_cache=False))


def _real(path: Path) -> Path:
    """Return where a path leads; one that leads to itself stays as it is, where ``Path.resolve`` would raise."""
    return Path(os.path.realpath(path))


def _no_way_into(folder: Path) -> str | None:
    """Return why a folder is not walked: it is a link, or its path is longer than the system takes."""
    try:
        return "link to a folder" if folder.is_symlink() else None
    except OSError as error:
        return f"{UNREADABLE}: {error.strerror}"


def _storable(key: str) -> str:
    """Return a name as it can be stored and shown: bytes that are not UTF-8 are replaced."""
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\0", "\ufffd")
