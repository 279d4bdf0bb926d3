"""The group of an audit that writes a file: each file has its own, whose name is kept beside the file."""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from afl.core.process.private_files import make_private_file
from afl_stream.errors import StreamError
from afl_stream.settings.config import StreamConfig

#: Suffix of the file beside an audit file that holds its group's name.
SUFFIX: Final = ".group"
#: Characters of a group's name; Kafka itself has no limit below that of its requests.
MAX_GROUP_CHARS: Final = 249


class GroupNameUnreadable(StreamError):
    """The file beside an audit file does not hold the name of a group."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} does not hold the name of a group; it should be one line that `afl-stream audit --file` wrote. "
            "Name the group with --group, which writes the file again"
        )


def default_group(stream: StreamConfig) -> str:
    """Return the group of an audit that names none; every file's own group begins with it."""
    return f"{stream.prefix}audit"


def group_of(stream: StreamConfig, file: Path, named: str | None) -> str:
    """Return the group in which this file is written, and keep its name beside the file.

    It is the group that is `named`; else the one of the last time; else, for a file of an older version that has lines
    but no group beside it, `{prefix}audit`; else a new one, which no other file has. Two files never share a group
    unless it is named for both. Raises OSError and GroupNameUnreadable.
    """
    beside = file.with_name(file.name + SUFFIX)
    kept = None if named else _kept(beside)
    if kept is not None:
        return kept
    draft = beside.with_name(f"{beside.name}.{secrets.token_hex(4)}")
    try:
        _write(draft, named or _first_group(stream, file))
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise type(error)(error.errno, error.strerror, str(beside)) from error
    try:
        if named:
            # The name is there whole or not at all: half a name would be another group.
            draft.replace(beside)
        else:
            beside.hardlink_to(draft)
    except FileExistsError:
        pass  # An audit that began on this file at the same time was first.
    except OSError:
        draft.replace(beside)  # A file system without hard links.
    finally:
        draft.unlink(missing_ok=True)
    return named or _kept(beside) or default_group(stream)


def is_own_group(stream: StreamConfig, group: str) -> bool:
    """Return whether `group_of` has drawn this name for one file, so that no other file shares it."""
    return re.fullmatch(re.escape(default_group(stream)) + r"\.[A-Za-z0-9_-]*-[0-9a-f]{8}", group) is not None


def _kept(beside: Path) -> str | None:
    try:
        text = beside.read_bytes()
    except FileNotFoundError:
        return None
    try:
        name = text.decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise GroupNameUnreadable(beside) from None
    if not name or len(name) > MAX_GROUP_CHARS or not name.isprintable():
        raise GroupNameUnreadable(beside)
    return name


def _first_group(stream: StreamConfig, file: Path) -> str:
    if file.exists() and file.stat().st_size:
        return default_group(stream)
    stem = re.sub(r"[^A-Za-z0-9_-]", "-", file.stem)[:64]
    return f"{default_group(stream)}.{stem}-{secrets.token_hex(4)}"


def _write(path: Path, group: str) -> None:
    make_private_file(path)
    with path.open("wb") as file:
        file.write(f"{group}\n".encode())
        file.flush()
        os.fsync(file.fileno())
