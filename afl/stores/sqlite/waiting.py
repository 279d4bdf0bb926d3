"""Waits for a SQLite file that another process has locked: reported with the holder, and ended by a request to stop."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from afl.core.process.file_holders import holders_text
from afl.core.process.long_waits import WAITS
from afl.core.process.stopping import PROCESS_STOP, Stop

T = TypeVar("T")

#: The longest wait inside SQLite, where neither a signal nor a request to stop is noticed. A longer wait is several of
#: these.
SLICE_S: Final = 0.5
#: The time that a process still waits after a request to end: transactions of others are shorter.
_LAST_WAIT_S: Final = 1.0


class HeldInOlderFormat(sqlite3.OperationalError):
    """A store to migrate is open elsewhere: by an older release, which would write rows of its own format into it."""

    def __init__(self, found: int, wanted: int) -> None:
        super().__init__(
            f"it is of format {found}, and becomes format {wanted} only while no other process has it open: "
            "end those of the older release first"
        )
        self.sqlite_errorcode = sqlite3.SQLITE_BUSY


def is_locked(error: sqlite3.Error) -> bool:
    """Say whether another process has the file, so that waiting may help."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def holders_of(path: Path) -> str:
    """Return who has locked the store's file: ` by process 4711 (sqlite3 store.sqlite3)`; empty if unknown."""
    # Writers lock the file's shared memory in write-ahead mode, the file itself in any other.
    found = holders_text([path.with_name(f"{path.name}-shm"), path])
    return f" by {found}" if found else ""


def waited_for(path: Path, attempt: Callable[[], T], timeout_s: float, stop: Stop = PROCESS_STOP) -> T:
    """Repeat an attempt while the file is locked, and return its result.

    Each attempt takes at most `SLICE_S`. Raises the attempt's errors; the last refusal after `timeout_s`, or once the
    process is to end.
    """
    began_s = time.monotonic()
    reason = ""

    def detail() -> str:
        return f", which is locked{holders_of(path)}{reason}, {timeout_s:g} s at most"

    with WAITS.on(f"the store {path}", detail):
        while True:
            try:
                return attempt()
            except HeldInOlderFormat as error:
                refusal: sqlite3.OperationalError = error
                reason = f" ({error})"
            except sqlite3.OperationalError as error:
                refusal = error
            waited_s = time.monotonic() - began_s
            is_over = waited_s >= timeout_s or (stop.is_set() and waited_s >= _LAST_WAIT_S)
            if not is_locked(refusal) or is_over:
                raise refusal
            # SQLite does not always wait by itself.
            time.sleep(0.005)
