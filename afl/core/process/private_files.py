"""Files and folders that only their owner reads: they hold workflows' data, whatever the umask of a process is."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from pathlib import Path
from typing import Final

_log = logging.getLogger(__name__)

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700
#: The runtime's own folder, in any parent folder.
OWN_FOLDER: Final = ".afl"
#: Files that SQLite puts beside its file. New ones get the mode of the file; old ones may have another.
_BESIDE: Final = ("", "-wal", "-shm", "-journal")
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def make_private_folder(path: Path) -> None:
    """Make a folder, and those above it, that only its owner may enter.

    An existing folder stays as it is, unless it is the runtime's own, which is tightened.
    """
    with contextlib.suppress(FileExistsError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(PRIVATE_FOLDER)
        return
    path.mkdir(parents=True, exist_ok=True)
    if path.resolve().name == OWN_FOLDER:
        tighten_folder(path)


def tighten_folder(path: Path) -> None:
    """Remove all access but the owner's from a folder of the runtime; warn where that is impossible."""
    _tighten(path, PRIVATE_FOLDER)


def make_private_file(path: Path) -> None:
    """Make an empty file that only its owner reads, unless it exists."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))


def tighten_file(path: Path) -> None:
    """Remove all access but the owner's from a file, and SQLite's files beside it; warn where that is impossible."""
    for suffix in _BESIDE:
        _tighten(path.with_name(path.name + suffix), PRIVATE_FILE)


def protect(path: Path, data_dir: Path | None = None) -> None:
    """Tighten a file in the data folder, or in the runtime's own folder; elsewhere the file's owner decides."""
    whole = path.resolve()
    if whole.parent.name == OWN_FOLDER:
        tighten_folder(whole.parent)
    if OWN_FOLDER in whole.parts[:-1] or (data_dir is not None and whole.is_relative_to(data_dir.resolve())):
        tighten_file(path)


def warn_of_readers(path: Path) -> None:
    """Warn when all users of the machine may read or write a file outside our folders; such a file is not changed."""
    with contextlib.suppress(OSError):
        mode = path.stat().st_mode
        if os.name == "posix" and mode & stat.S_IRWXO and stat.S_ISREG(mode):
            _log.warning(
                "%s is open to every user of this machine (mode %04o), and holds the data of workflows: chmod 600 %s",
                path,
                stat.S_IMODE(mode),
                path,
            )


def _tighten(path: Path, wanted: int) -> None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if os.name == "posix" and mode & _OTHERS:
            path.chmod(wanted)
    except FileNotFoundError:
        return
    except OSError as error:
        _log.warning(
            "%s may be read by other users (mode %04o), which cannot be changed: %s; have its owner chmod it to %04o",
            path,
            mode,
            error.strerror,
            wanted,
        )
