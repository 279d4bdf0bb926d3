"""Whose a file is that this process may not use, in words."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def denied_text(path: Path) -> str:
    """Return whose the file is, or the folder that it is in, with its mode, and as whom this process runs.

    A file that is missing, or in a folder that may not be entered, is judged by the nearest folder above it.
    """
    for found in (path, *path.absolute().parents):
        with suppress(OSError):
            state = found.stat()
            kind = "folder" if stat.S_ISDIR(state.st_mode) else "file"
            mode, owner, user = stat.S_IMODE(state.st_mode), _user_name(state.st_uid), _user_name(os.geteuid())
            remedy = (
                "its mode, or its file system, denies it"
                if owner == user
                else f"run it as {owner}, or have {owner} give {user} the right"
            )
            return f"{kind} {found} belongs to {owner} (mode {mode:04o}), and this process runs as {user}: {remedy}"
    return "no folder above it can be entered"


def _user_name(number: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return f"user {number}"
