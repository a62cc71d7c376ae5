"""Writing a file so that a reader sees the old one or the new one, and a power cut leaves one of them.

A unique temp file beside the target is written and synced (:func:`stage`), then takes the target's place and the
folder is synced (:meth:`StagedFile.publish`). The two steps are apart so that a database row can be guarded between
them. A failed write leaves the old file as it was and no temp file.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from extraction_core.errors import OutputPathError, OutputStoreError, OutputStoreFullError
from extraction_core.failpoints import Failpoint, Failpoints, no_failpoints
from extraction_core.fingerprints import sha256_hex

PREFIX, SUFFIX = ".t-", ".tmp"
FOREIGN_TEMP_AGE_S = 86_400
HOST_DIGITS = 8
_HOST = sha256_hex(socket.gethostname().encode())[:HOST_DIGITS]
PASSING = frozenset({errno.EBUSY, errno.ESTALE, errno.EAGAIN})
"""What network file systems and whoever has a file open answer for a moment."""
WAITS_S = (0.05, 0.2, 0.5)
STORE_IS_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})


@dataclass
class StagedFile:
    """A complete, synced temp file that waits to take its target's place."""

    temp: Path
    target: Path
    failpoints: Failpoints
    _published: bool = field(default=False, init=False)

    def publish(self) -> None:
        """Replace the target and sync its folder. May be called again after a rolled-back transaction.

        Raises:
            OutputStoreError: the target is as it was before; or, when only the sync failed, it is the whole new file.
        """
        try:
            if not self._published:
                _patiently(self._replace)
                self._published = True
            self.failpoints(Failpoint.SYNC_FOLDER)
            _sync_folder(self.target.parent)
        except OSError as error:
            raise translated(error, self.target) from error

    def _replace(self) -> None:
        self.failpoints(Failpoint.REPLACE_OUTPUT)
        os.replace(self.temp, self.target)  # noqa: PTH105 - Path.replace is the same call; this is its name in POSIX

    def discard(self) -> None:
        """Remove the temp file, if it has not taken its place."""
        if not self._published:
            with suppress(FileNotFoundError):
                self.temp.unlink()


def stage(target: Path, data: bytes, failpoints: Failpoints = no_failpoints) -> StagedFile:
    """Write and sync a temp file beside the target.

    A new file's mode follows the umask; a file that replaces another keeps the mode of the one it replaces.

    Raises:
        OutputStoreError: nothing is left behind.
    """
    temp = target.parent / f"{PREFIX}{_HOST}-{os.getpid()}-{secrets.token_hex(6)}{SUFFIX}"
    try:
        failpoints(Failpoint.WRITE_OUTPUT)
        _make_and_sync(target.parent)
        _write_new(temp, data, _mode_of(target), failpoints)
    except OSError as error:
        with suppress(OSError):
            temp.unlink()
        raise translated(error, target) from error
    return StagedFile(temp, target, failpoints)


def write(target: Path, data: bytes, failpoints: Failpoints = no_failpoints) -> None:
    """Stage and publish in one go.

    Raises:
        OutputStoreError: the target is as it was before.
    """
    staged = stage(target, data, failpoints)
    try:
        staged.publish()
    except OutputStoreError:
        staged.discard()
        raise


def sweep(folder: Path) -> int:
    """Remove temp files below a folder that no living process of this machine can still publish.

    Temp files of other machines are left for a day. Returns how many were removed.
    """
    removed = 0
    for temp in folder.rglob(f"{PREFIX}*{SUFFIX}"):
        if _is_stray(temp):
            with suppress(FileNotFoundError):
                temp.unlink()
                removed += 1
    return removed


def translated(error: OSError, target: Path) -> OutputStoreError:
    """Tell a store that takes nothing any more from one path that cannot be written."""
    message = f"{target} could not be written: {error.strerror or error}"
    return OutputStoreFullError(message) if error.errno in STORE_IS_FULL else OutputPathError(message)


def _patiently(step: Callable[[], None]) -> None:
    """Do a step, again after a moment when what is in its way may be gone by then."""
    for wait_s in WAITS_S:
        try:
            return step()
        except OSError as error:
            if error.errno not in PASSING:
                raise
            time.sleep(wait_s)
    return step()


def _is_stray(temp: Path) -> bool:
    host, _, rest = temp.name.removeprefix(PREFIX).partition("-")
    pid = rest.partition("-")[0]
    if host == _HOST and pid.isdigit():
        return not _is_alive(int(pid))
    with suppress(FileNotFoundError):
        return time.time() - temp.stat().st_mtime > FOREIGN_TEMP_AGE_S
    return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def make_folders(folders: Iterable[Path]) -> None:
    """Create missing folders and sync the parents, each once: a synced file in a lost folder is lost as well.

    A folder that cannot be made is left to who writes into it: whose fault it is shows there.

    Raises:
        OutputStoreError: a parent could not be synced.
    """
    made: list[Path] = []
    for folder in folders:
        with suppress(OSError):
            _make_missing(folder, made)
    try:
        _sync_parents(made)
    except OSError as error:
        raise translated(error, made[0]) from error


def _make_and_sync(folder: Path) -> None:
    made: list[Path] = []
    try:
        _make_missing(folder, made)
    finally:
        _sync_parents(made)


def _make_missing(folder: Path, made: list[Path]) -> None:
    """Make a folder and those above it, noting what was made: it stays when one further down fails."""
    try:
        folder.mkdir()
    except FileExistsError:
        return
    except FileNotFoundError:
        if folder == folder.parent:
            raise
        _make_missing(folder.parent, made)
        try:
            folder.mkdir()
        except FileExistsError:  # somebody else was faster
            return
    made.append(folder)


def _sync_parents(made: Sequence[Path]) -> None:
    """Sync the parents of new folders; folders of which that fails are taken away, so that the next try syncs too."""
    try:
        for parent in {folder.parent for folder in made}:
            _sync_folder(parent)
    except OSError:
        for folder in reversed(made):
            with suppress(OSError):
                folder.rmdir()
        raise


def _write_new(file: Path, data: bytes, mode: int | None, failpoints: Failpoints) -> None:
    """Write and sync a file that must not be there yet.

    By system calls: Python's own files ask for much that is not needed here, for thousands of files.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        if mode is not None:
            os.fchmod(descriptor, mode)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        failpoints(Failpoint.SYNC_OUTPUT)
        _sync_file(descriptor)
    finally:
        os.close(descriptor)


def _mode_of(target: Path) -> int | None:
    try:
        return target.stat().st_mode & 0o7777
    except FileNotFoundError:
        return None


def _sync_file(descriptor: int) -> None:
    if sys.platform == "darwin":  # there fsync does not reach the medium
        import fcntl  # noqa: PLC0415 - not on every platform

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
