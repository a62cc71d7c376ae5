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
_UMASK = os.umask(0)
os.umask(_UMASK)  # it can only be read by setting it, which is not thread-safe: once, at import

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
                self.failpoints(Failpoint.REPLACE_OUTPUT)
                os.replace(self.temp, self.target)  # noqa: PTH105 - Path.replace is the same call; this is its name in POSIX
                self._published = True
            self.failpoints(Failpoint.SYNC_FOLDER)
            _sync_folder(self.target.parent)
        except OSError as error:
            raise translated(error, self.target) from error

    def discard(self) -> None:
        """Remove the temp file, if it is still there."""
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
        _make_folders(target.parent)
        with temp.open("xb") as file:
            os.fchmod(file.fileno(), _mode_for(target))
            file.write(data)
            file.flush()
            failpoints(Failpoint.SYNC_OUTPUT)
            _sync_file(file.fileno())
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


def _mode_for(target: Path) -> int:
    try:
        return target.stat().st_mode & 0o7777
    except FileNotFoundError:
        return 0o666 & ~_UMASK


def _make_folders(folder: Path) -> None:
    """Create missing folders and sync the parent of each: a synced file in a lost folder is lost as well."""
    missing: list[Path] = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for made in reversed(missing):
        made.mkdir(exist_ok=True)
        _sync_folder(made.parent)


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
