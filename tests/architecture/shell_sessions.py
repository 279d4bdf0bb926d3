"""A page typed into one shell: what it exports, and services that it leaves in the background, stay to its end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.architecture.page_tables import ROOT
from tests.architecture.walkthroughs import Command, File, Shown, walkthrough

_MARK: Final = "\x1e"
_ENDED = re.compile(rf"{_MARK}(\d+) (\d+)\n")
#: Services that the page leaves running are told to end with the session, and have to end with 0 by then.
_BEGIN: Final = """exec 2>&1 </dev/null
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
"""


def files_of(page: str) -> list[File]:
    """Return the files that a page shows."""
    return [item for item in walkthrough(page) if isinstance(item, File)]


def clone_into(folder: Path) -> Path:
    """Copy the repository there as it is now, with the environment of the tests in place of one of its own."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def type_page(
    page: str,
    folder: Path,
    *,
    environment: Mapping[str, str],
    in_place_of: Mapping[str, str],
    files: Iterable[File] = (),
    timeout_s: float,
) -> None:
    """Type all that a page has people type, in this folder with these files, and see that it ends and prints as shown.

    `in_place_of` maps what stands in the page (an address) to what holds here.
    """
    items = [*files, *walkthrough(_replaced(page, in_place_of))]
    for item in items:
        if isinstance(item, File):
            (folder / item.name).write_text(item.text)
    commands = [item for item in items if isinstance(item, Command) and item.untyped is None]
    assert commands
    script = "".join(f"{command.line}\nprintf '\\036%d %d\\n' {at} $?\n" for at, command in enumerate(commands))
    said = _run(_BEGIN + script, folder, environment, timeout_s)
    printed, ended = _by_command(said)
    expected = {at: command.exit_code for at, command in enumerate(commands)}
    assert ended == expected, said
    _check_shown(items, printed)


def _check_shown(items: Iterable[File | Command | Shown], printed: Mapping[int, str]) -> None:
    at, since = 0, ""
    for item in items:
        if isinstance(item, Command) and item.untyped is None:
            since += printed[at]
            at += 1
        elif isinstance(item, Shown):
            assert item.missing_in(since) == [], since
            since = ""


def _by_command(said: str) -> tuple[dict[int, str], dict[int, int]]:
    """Return what each command printed, and what it ended with."""
    printed, ended, begin = {}, {}, 0
    for found in _ENDED.finditer(said):
        at = int(found[1])
        printed[at], ended[at] = said[begin : found.start()], int(found[2])
        begin = found.end()
    return printed, ended


def _run(script: str, folder: Path, environment: Mapping[str, str], timeout_s: float) -> str:
    commands = str(Path(sys.executable).parent)
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    with (folder / ".said").open("w+", errors="replace") as said:
        process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=folder,
            env={**os.environ, "COLUMNS": "200", **environment, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=said,
            start_new_session=True,
        )
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            said.seek(0)
            sys.stderr.write(said.read())
            raise
        finally:
            # A tool may have started another program, and have ended without it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            said.seek(0)
            text = said.read()
    return text


def _replaced(page: str, in_place_of: Mapping[str, str]) -> str:
    for shown, here in in_place_of.items():
        assert shown in page, f"the page does not show {shown}"
        page = page.replace(shown, here)
    return page
