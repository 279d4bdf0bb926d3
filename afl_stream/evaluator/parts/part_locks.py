"""One process has a part of a store: a lock on a file beside it, which the system frees when the process ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from afl.core.process.file_holders import holders_text, is_locked
from afl.engine.errors import StoreUnavailable


@contextmanager
def held(path: Path, rule: str = "one process writes a part") -> Iterator[None]:
    """Hold the part of a store that is this file. Raises StoreUnavailable, naming the process that has it, and why
    that is too many: the `rule`.
    """
    lock = _lock_of(path)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holders = holders_text([lock])
            reason = f"another evaluator has it{f': {holders}' if holders else ''}; {rule}"
            raise StoreUnavailable(path=str(path), reason=reason) from error
        yield
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool | None:
    """Return whether a process has the part of a store that is this file; None where that cannot be told from here."""
    return is_locked(_lock_of(path))


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")
