"""The processes that use a file: those that hold a lock on it, else those that have it open, where the system tells."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from afl.core.text.printable import printable

#: Characters of a command line that are shown.
_SHOWN_CHARS: Final = 120
_LOCKS: Final = Path("/proc/locks")
_PROCESSES: Final = Path("/proc")


def holders_text(paths: Iterable[Path]) -> str:
    """Name the processes that use one of these files: `process 4711 (python -m shop)`. Empty when none is known."""
    wanted = list(paths)
    found = _lockers(wanted) or _openers(wanted)
    return " and ".join(f"process {pid}{_command_of(pid)}" for pid in found)


def is_locked(path: Path) -> bool | None:
    """Return whether a process holds a lock on a file, without a lock of one's own; None where that cannot be told."""
    status, lines = _status_of(path), _lines(_LOCKS)
    if status is None or not lines:
        return None
    taken = (line.split() for line in lines)
    return any(len(words) >= 6 and words[5].rpartition(":")[2] == str(status.st_ino) for words in taken)


def _lockers(paths: Sequence[Path]) -> list[int]:
    """Return the processes that hold a lock on one of the files, for writing if any does.

    The kernel's list of locks is read instead of asking by fcntl: that needs the file open, and closing it again drops
    every lock that this process has on it.
    """
    inodes = {found.st_ino for path in paths if (found := _status_of(path)) is not None}
    writers: dict[int, None] = {}
    others: dict[int, None] = {}
    for line in _lines(_LOCKS):
        words = line.split()
        # "1: POSIX  ADVISORY  WRITE 4711 fe:00:9979058 120 120"; a wait for a lock has an arrow there.
        if len(words) < 6 or words[1] == "->":
            continue
        kind, pid, place = words[3], words[4], words[5]
        # 0 or less: a process of another container, whose number is hidden.
        if pid.isdigit() and int(pid) > 0 and place.rpartition(":")[2] in map(str, inodes) and int(pid) != os.getpid():
            (writers if kind == "WRITE" else others)[int(pid)] = None
    return list(writers or others)


def _openers(paths: Sequence[Path]) -> list[int]:
    wanted = {(status.st_dev, status.st_ino) for path in paths if (status := _status_of(path)) is not None}
    names = [name for name in _names(_PROCESSES) if name.isdigit() and int(name) != os.getpid()]
    return sorted(int(name) for name in names if _has_open(_PROCESSES / name / "fd", wanted))


def _has_open(descriptors: Path, wanted: set[tuple[int, int]]) -> bool:
    for name in _names(descriptors):
        status = _status_of(descriptors / name)
        if status is not None and (status.st_dev, status.st_ino) in wanted:
            return True
    return False


def _command_of(pid: int) -> str:
    try:
        words = (_PROCESSES / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""
    shown = printable(words.strip())
    return f" ({shown[:_SHOWN_CHARS]})" if shown else ""


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _names(path: Path) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _status_of(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
