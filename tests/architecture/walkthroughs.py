"""A document as something to be followed: the files that it shows, and the commands that it has people type.

A program, module or settings file whose first line is a comment with a file name is written to that file. The lines of
a shell block are typed in order. A comment behind a command says what is expected of it: `# exits with 1`, or
`# until Ctrl-C` for a service, or why the tests do not type it (UNTYPED). What a `text` block shows is what the shell
block above it printed. What stands behind a block's language is for other tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_BLOCK = re.compile(r"^```(\w*)[^\n`]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"\A(?://|#) ([\w./-]+\.(?:afl|py|toml))\n")
#: Why a command of a page is not typed by a test, as the page says it behind the command.
UNTYPED = ("needs a package index", "takes minutes")
_EXPECTATION = re.compile(
    rf" +# (?:exits with (?P<code>\d+)|(?P<service>until Ctrl-C)|(?P<untyped>{'|'.join(UNTYPED)}))$"
)
#: What differs from run to run: durations, generated ids, dates.
_VARYING = re.compile(r"\d+\.\d s|[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")

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
    #: Why it is not typed; None: it is.
    untyped: str | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """Lines that the commands since the last of these have printed."""

    lines: tuple[str, ...] = field(default_factory=tuple)

    def missing_in(self, printed: str) -> list[str]:
        """Return the lines that were not printed, whatever varies from run to run."""
        steady = _steady(printed)
        return [line for line in self.lines if _steady(line) not in steady]


def _steady(text: str) -> str:
    return _VARYING.sub("~", text)


def blocks(text: str) -> list[tuple[str, str]]:
    """Return the blocks of a document: language and text."""
    return _BLOCK.findall(text)


def walkthrough(text: str) -> Iterator[File | Command | Shown]:
    """Return what a document shows and asks for, in its order."""
    before = ""
    for language, body in blocks(text):
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
    typed = line[: expected.start()]
    return Command(typed, int(expected["code"] or 0), expected["service"] is not None, expected["untyped"])
