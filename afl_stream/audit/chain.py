"""The hash chain over audit lines: each line has a hash of itself and of the line before it.

The chain value of a line is the SHA-256, in hexadecimal, of the value before it (nothing before the first one), of all
bytes behind that line, and of the line itself without its closing `}`, its newline and the member `chain`. So it also
covers lines without a value, which an earlier release wrote: they are the bytes before the first value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final, NamedTuple

from afl.core.text.printable import bounded

#: Bytes of a line's end that hold its value: `,"chain":"`, 64 digits, `"}`.
_MEMBER: Final = b',"chain":"'
_SEALED: Final = re.compile(rb',"chain":"([0-9a-f]{64})"\}\Z')
#: Breaks that a report names; the others are counted.
MOST_BREAKS: Final = 100
_SHOWN_CHARS: Final = 120


class HashChain:
    """The chain at the end of a sink, to which lines are added."""

    def __init__(self, head: str = "", unsealed: Iterable[bytes] = ()) -> None:
        """Continue behind the value `head`; `unsealed` are the bytes behind its line."""
        self.head = head
        self._begin(unsealed)

    def _begin(self, unsealed: Iterable[bytes] = ()) -> None:
        self._digest = sha256(self.head.encode())
        for part in unsealed:
            self._digest.update(part)

    def add(self, line: bytes) -> str:
        """Return the value of a line, which ends with `}` and a newline, and move the chain behind it."""
        self._digest.update(line[:-2])
        self.head = self._digest.hexdigest()
        self._begin()
        return self.head

    def sealed(self, line: bytes) -> bytes:
        """Return a line with its value as its last member."""
        return b'%b%b%b"}\n' % (line[:-2], _MEMBER, self.add(line).encode())

    def pass_over(self, line: bytes) -> None:
        """Take bytes that have no value: the next one covers them."""
        self._digest.update(line)

    def follow(self, line: bytes, value: str) -> bool:
        """Move behind a line of this value; return whether that is its value."""
        is_right = self.add(line) == value
        self.head = value
        self._begin()
        return is_right


class SealedLine(NamedTuple):
    """A line as it was before its value was added, and the value; None: it has none."""

    line: bytes
    value: str | None


def split_line(line: bytes) -> SealedLine:
    """Return a line of a file, with its newline, apart from its value."""
    body = line.removesuffix(b"\n")
    found = _SEALED.search(body[-(len(_MEMBER) + 66) :])
    if found is None:
        return SealedLine(line, None)
    return SealedLine(body[: -(len(_MEMBER) + 66)] + b"}\n", found[1].decode())


class Break(NamedTuple):
    """A place where the chain is broken: the line's number, counted from 1, what is wrong, and the line's beginning."""

    number: int
    problem: str
    line: str


class ChainReport(NamedTuple):
    """The result of a look at a chain.

    `unsealed` lines stand before the first value: an earlier release wrote them, and the first value covers them.
    `heads`: those of the asked-for values that lines have, with the lines' numbers.
    """

    lines: int
    unsealed: int
    head: str
    breaks: tuple[Break, ...]
    break_count: int
    heads: dict[str, int]


def check_chain(lines: Iterable[SealedLine], heads: Iterable[str] = ()) -> ChainReport:
    """Check every value of a chain. Behind a break the look continues with the value that is there."""
    chain, wanted, found = HashChain(), frozenset(heads), dict[str, int]()
    number = unsealed = break_count = 0
    breaks: list[Break] = []
    for number, (line, value) in enumerate(lines, 1):
        problem = ""
        if value is None:
            chain.pass_over(line)
            if not chain.head:
                unsealed += 1
            else:
                problem = "is not of an audit: it has no chain value, and lines before it have one"
        else:
            if value in wanted:
                found.setdefault(value, number)
            if not chain.follow(line, value):
                problem = (
                    "is not what was written behind the line before it: one of the two was changed, or lines between "
                    "them were deleted, inserted or moved"
                    if number > 1
                    else "is not what was written first: it was changed, or lines before it were deleted"
                )
        if problem:
            break_count += 1
            if len(breaks) < MOST_BREAKS:
                breaks.append(Break(number, problem, bounded(line.decode("utf-8", "replace").strip(), _SHOWN_CHARS)))
    return ChainReport(number, unsealed, chain.head, tuple(breaks), break_count, found)


def lines_of_file(lines: Iterable[bytes]) -> Iterator[SealedLine]:
    """Return the lines of a file apart from their values."""
    return map(split_line, lines)
