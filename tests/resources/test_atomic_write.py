"""Writing a file: whole or not at all, whatever fails and whoever else writes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from extraction_core.errors import OutputPathError, OutputStoreFullError
from extraction_core.failpoints import Failpoint, Failpoints
from resources.output import atomic_write
from tests import processes

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

NOBODY = 65534
OLD, NEW = b"old" * 1000, b"new" * 1000
MEGABYTES = 8 * 1024 * 1024
BEFORE_THE_REPLACEMENT = [Failpoint.WRITE_OUTPUT, Failpoint.SYNC_OUTPUT, Failpoint.REPLACE_OUTPUT]
DENIED, NOT_REFUSED = 13, 14


def fail_at(step: Failpoint, code: int) -> Failpoints:
    def failpoint(name: Failpoint) -> None:
        if name == step:
            raise OSError(code, os.strerror(code))

    return failpoint


def kill_at(step: Failpoint) -> Failpoints:
    return lambda name: processes.kill_self() if name == step else None


def uniform(path: Path) -> tuple[bytes, int]:
    """Return the one byte that a file consists of, and its size; a mixed file fails without being printed."""
    data = path.read_bytes()
    kinds = bytes(set(data))
    assert len(kinds) == 1, f"{len(data)} bytes of {len(kinds)} kinds"
    return kinds, len(data)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A file with good old content, alone in its folder."""
    folder = tmp_path / "outputs"
    folder.mkdir()
    path = folder / "extraction.json"
    path.write_bytes(OLD)
    return path


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_the_mode_of_a_new_file_follows_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    path = tmp_path / "deep" / "file"
    code = (
        "import pathlib, sys; from resources.output import atomic_write as a; a.write(pathlib.Path(sys.argv[1]), b'x')"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True, umask=umask)
    assert mode == path.stat().st_mode & 0o7777


def test_a_file_that_is_overwritten_keeps_its_mode(target: Path) -> None:
    target.chmod(0o640)
    atomic_write.write(target, NEW)
    assert (0o640, NEW) == (target.stat().st_mode & 0o7777, target.read_bytes())


def test_missing_folders_are_made(tmp_path: Path) -> None:
    atomic_write.write(tmp_path / "a" / "b" / "c", NEW)
    assert (tmp_path / "a" / "b" / "c").read_bytes() == NEW


@pytest.mark.parametrize("step", BEFORE_THE_REPLACEMENT)
@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.ENOSPC, OutputStoreFullError),
        (errno.EDQUOT, OutputStoreFullError),
        (errno.EROFS, OutputStoreFullError),
        (errno.EIO, OutputStoreFullError),
        (errno.EACCES, OutputPathError),
    ],
)
def test_a_failure_at_any_step_leaves_the_old_file_and_nothing_else(
    target: Path, step: Failpoint, code: int, error: type[Exception]
) -> None:
    with pytest.raises(error, match=str(target)):
        atomic_write.write(target, NEW, fail_at(step, code))
    assert target.read_bytes() == OLD
    assert names(target.parent) == [target.name]


@pytest.mark.parametrize("code", [errno.EBUSY, errno.ESTALE, errno.EAGAIN])
def test_what_is_in_the_way_for_a_moment_is_waited_for(target: Path, code: int) -> None:
    passes: list[Failpoint] = []

    def once(name: Failpoint) -> None:
        passes.append(name)
        if passes.count(Failpoint.REPLACE_OUTPUT) == 1 and name == Failpoint.REPLACE_OUTPUT:
            raise OSError(code, os.strerror(code))

    atomic_write.write(target, NEW, once)
    assert (target.read_bytes(), names(target.parent)) == (NEW, [target.name])
    assert passes.count(Failpoint.REPLACE_OUTPUT) == 2


def test_what_stays_in_the_way_fails_this_document_alone(target: Path) -> None:
    with pytest.raises(OutputPathError, match=os.strerror(errno.EBUSY)):
        atomic_write.write(target, NEW, fail_at(Failpoint.REPLACE_OUTPUT, errno.EBUSY))
    assert (target.read_bytes(), names(target.parent)) == (OLD, [target.name])


def test_a_failed_sync_of_the_folder_is_told_and_leaves_one_whole_file(target: Path) -> None:
    with pytest.raises(OutputStoreFullError):
        atomic_write.write(target, NEW, fail_at(Failpoint.SYNC_FOLDER, errno.EIO))
    assert target.read_bytes() == NEW
    assert names(target.parent) == [target.name]


def test_folders_that_are_made_together_are_there_for_each_and_a_bad_one_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(OLD)
    good = [tmp_path / "new" / name for name in ("one", "two")]
    atomic_write.make_folders([good[0], tmp_path / "file" / "below", good[1]])
    assert all(folder.is_dir() for folder in good)
    with pytest.raises(OutputPathError):
        atomic_write.stage(tmp_path / "file" / "below" / "extraction.json", NEW)


@pytest.mark.parametrize(
    "folders", [[str(number) for number in range(9)], ["n" * 300, "good"]], ids=["nine", "a bad one"]
)
def test_the_parent_of_new_folders_is_synced_once_whatever_became_of_one_of_them(
    tmp_path: Path, folders: list[str]
) -> None:
    code = (
        "import pathlib, sys; from resources.output import atomic_write as a; opened = [];"
        "sys.addaudithook(lambda event, args: opened.append(args[0]) if event == 'open' else None);"
        "a.make_folders(pathlib.Path(sys.argv[1]) / name for name in sys.argv[2:]);"
        "print(*map(str, opened), sep='\\n')"
    )
    command = [sys.executable, "-c", code, tmp_path / "new", *folders]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    assert sorted(told.stdout.split()) == [str(tmp_path), str(tmp_path / "new")]


def test_a_link_that_leads_nowhere_fails_the_documents_below_it_alone(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "unmounted")
    atomic_write.make_folders([tmp_path / "gone" / "one", tmp_path / "good"])
    assert (tmp_path / "good").is_dir()
    with pytest.raises(OutputPathError):
        atomic_write.stage(tmp_path / "gone" / "one" / "extraction.json", NEW)


def test_a_staged_file_changes_nothing_until_it_is_published(target: Path) -> None:
    staged = atomic_write.stage(target, NEW)
    assert target.read_bytes() == OLD
    staged.publish()
    assert target.read_bytes() == NEW
    assert names(target.parent) == [target.name]


def test_a_staged_file_that_is_discarded_leaves_nothing(target: Path) -> None:
    atomic_write.stage(target, NEW).discard()
    assert target.read_bytes() == OLD
    assert names(target.parent) == [target.name]


def test_publishing_again_after_a_rolled_back_transaction_is_harmless(target: Path) -> None:
    staged = atomic_write.stage(target, NEW)
    staged.publish()
    staged.publish()
    staged.discard()
    assert target.read_bytes() == NEW


def test_a_disk_that_is_really_full_leaves_the_old_file_and_stops_the_line(small_disk: Path) -> None:
    target = small_disk / "extraction.json"
    atomic_write.write(target, OLD)
    with pytest.raises(OutputStoreFullError, match="No space left"):
        atomic_write.write(target, b"x" * 2 * 1024 * 1024)
    assert target.read_bytes() == OLD
    assert names(small_disk) == [target.name]


def test_room_that_comes_back_is_used(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 1000 * 1024)
    with pytest.raises(OutputStoreFullError):
        atomic_write.write(small_disk / "file", b"x" * 100 * 1024)
    filler.unlink()
    atomic_write.write(small_disk / "file", b"x" * 100 * 1024)


def _write_as_nobody(target: Path) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        atomic_write.write(target, NEW)
    except OutputPathError:
        sys.exit(DENIED)
    sys.exit(NOT_REFUSED)


def test_a_folder_that_may_not_be_written_leaves_the_old_file_and_fails_this_document_alone(
    public_folder: Path,
) -> None:
    target = public_folder / "extraction.json"
    target.write_bytes(OLD)
    public_folder.chmod(0o555)
    assert processes.run(_write_as_nobody, target) == DENIED
    public_folder.chmod(0o755)
    assert target.read_bytes() == OLD
    assert names(public_folder) == [target.name]


def test_a_file_where_a_folder_should_be_fails_this_document_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(OLD)
    with pytest.raises(OutputPathError):
        atomic_write.write(tmp_path / "a" / "extraction.json", NEW)
    assert (tmp_path / "a").read_bytes() == OLD


def test_a_name_that_is_too_long_fails_this_document_alone(tmp_path: Path) -> None:
    with pytest.raises(OutputPathError):
        atomic_write.write(tmp_path / ("x" * 300) / "extraction.json", NEW)


def _write_and_die(target: Path, step: Failpoint) -> None:
    atomic_write.write(target, b"B" * MEGABYTES, kill_at(step))


@pytest.mark.parametrize(
    ("step", "letter"), [*((step, b"A") for step in BEFORE_THE_REPLACEMENT), (Failpoint.SYNC_FOLDER, b"B")]
)
def test_a_writer_killed_at_a_step_leaves_a_whole_file(tmp_path: Path, step: Failpoint, letter: bytes) -> None:
    target = tmp_path / "extraction.json"
    target.write_bytes(b"A" * MEGABYTES)
    assert processes.run(_write_and_die, target, step) == -9
    assert uniform(target) == (letter, MEGABYTES)
    atomic_write.sweep(tmp_path)
    assert names(tmp_path) == [target.name]


def _write_for_ever(target: Path, begun: Connection) -> None:
    data = [letter * MEGABYTES for letter in (b"B", b"C")]
    begun.send("begun")
    while True:
        for content in data:
            atomic_write.write(target, content)


@pytest.mark.parametrize("moment", range(6))
def test_a_writer_killed_in_the_middle_of_writing_leaves_a_whole_file(tmp_path: Path, moment: int) -> None:
    target = tmp_path / "extraction.json"
    target.write_bytes(b"A" * MEGABYTES)
    receiver, sender = processes.pipe()
    child = processes.start(_write_for_ever, target, sender)
    receiver.recv()
    for _ in range(200 * moment):  # some work of our own, so that the moments differ
        target.stat()
    child.kill()
    assert processes.end_of(child) == -9
    assert uniform(target)[1] == MEGABYTES
    atomic_write.sweep(tmp_path)
    assert names(tmp_path) == [target.name]


def _write_often(target: Path, letter: bytes) -> None:
    for number in range(500):
        atomic_write.write(target, letter * (40_000 + number))


def test_a_thousand_writes_by_two_processes_never_mix(folder_in_memory: Path) -> None:
    target = folder_in_memory / "extraction.json"
    target.write_bytes(b"AAA")
    children = [processes.start(_write_often, target, letter) for letter in (b"B", b"C")]
    while any(child.is_alive() for child in children):
        letter, size = uniform(target)
        assert size >= 40_000 or letter == b"A"
    assert [0, 0] == [processes.end_of(child) for child in children]
    assert uniform(target)[1] == 40_499
    assert names(folder_in_memory) == [target.name]


def _stage_and_wait(target: Path, staged: Connection, leave: Connection) -> None:
    atomic_write.stage(target, NEW)
    staged.send("staged")
    leave.recv()


def test_what_a_living_writer_staged_is_kept_and_what_a_dead_one_left_is_swept(target: Path) -> None:
    (staged, tell_staged), (leave, tell_leave) = processes.pipe(), processes.pipe()
    child = processes.start(_stage_and_wait, target, tell_staged, leave)
    staged.recv()
    assert atomic_write.sweep(target.parent) == 0
    assert len(names(target.parent)) == 2
    tell_leave.send("leave")
    assert processes.end_of(child) == 0
    assert atomic_write.sweep(target.parent.parent) == 1
    assert names(target.parent) == [target.name]


def test_what_another_machine_staged_is_kept_for_a_day(target: Path) -> None:
    stray = target.parent / ".t-00000000-1-abc.tmp"
    stray.write_bytes(NEW)
    assert atomic_write.sweep(target.parent) == 0
    yesterday = time.time() - 86_401
    os.utime(stray, (yesterday, yesterday))
    assert atomic_write.sweep(target.parent) == 1


def test_sweeping_takes_nothing_but_our_own_temp_files(target: Path) -> None:
    others = ["a.tmp", ".t-notes", ".hidden"]
    for name in others:
        (target.parent / name).write_bytes(OLD)
    assert atomic_write.sweep(target.parent) == 0
    assert names(target.parent) == sorted([*others, target.name])


def test_a_folder_that_is_not_there_has_nothing_to_sweep(tmp_path: Path) -> None:
    assert atomic_write.sweep(tmp_path / "nowhere") == 0
