"""A document as something to be followed: the files that it shows, and the commands that it has people type.

A program, module or settings file whose first line is a comment with a file name is written to that file. The lines of
a shell block are typed in order. A comment behind a command says what is expected of it: `# exits with 1`, or
`# until Ctrl-C` for a service. What a `text` block shows is what the shell block above it printed. What
stands behind a block's language is for other tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_BLOCK = re.compile(r"^```(\w*)[^\n`]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"\A(?://|#) ([\w./-]+\.(?:afl|py|toml))\n")
_EXPECTATION = re.compile(r" +# (?:exits with (?P<code>\d+)|(?P<service>until Ctrl-C))$")

SHELL = frozenset({"sh", "bash", "shell", "console"})


@dataclass(frozen=True, slots=True)
class File:
    """A file that the reader is to make."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A line to type."""

    line: str
    exit_code: int = 0
    is_service: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """Lines that the commands since the last of these have printed."""

    lines: tuple[str, ...] = field(default_factory=tuple)


def walkthrough(text: str) -> Iterator[File | Command | Shown]:
    """What a document shows and asks for, in its order."""
    before = ""
    for language, body in _BLOCK.findall(text):
        named = _FILE.match(body)
        if named is not None:
            yield File(named[1], body)
        elif language in SHELL:
            for line in body.replace("\\\n", " ").splitlines():
                if line.strip() and not line.startswith("#"):
                    yield _command(line.removeprefix("$ ").strip())
        elif language == "text" and before in SHELL:
            yield Shown(tuple(line.strip() for line in body.splitlines() if line.strip()))
        before = language


def _command(line: str) -> Command:
    expected = _EXPECTATION.search(line)
    if expected is None:
        return Command(line)
    return Command(line[: expected.start()], int(expected["code"] or 0), expected["service"] is not None)
