"""AFL as people write it, as much of it as is wanted: the programs of the examples and the documents, over and over.

Comments, doc comments and blank lines are kept as they are. Each program of each round has namespaces of its own, so
that the whole is one program without a mistake.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final

from afl.compiler import check_input
from afl.source import CompilerInput, FileOrigin, SourceEntry

_ROOT: Final = Path(__file__).parents[1]
_DOCUMENTS: Final = ("README.md", "docs/**/*.md")
_EXAMPLES: Final = "examples/**/*.afl"
_PROGRAM: Final = re.compile(r"^```afl\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NAMESPACE: Final = re.compile(r"\bnamespace\s+([\w.]+)")


def programs(root: Path = _ROOT) -> list[str]:
    """Return the programs of a tree of files: whole ones, not the fragments nor those that show a mistake.

    Left out are those that would not compile beside others, because they leave it to the program which namespace a
    short name is of.
    """
    found = [path.read_text(encoding="utf-8") for path in sorted(root.glob(_EXAMPLES))]
    for pattern in _DOCUMENTS:
        for path in sorted(root.glob(pattern)):
            found += _PROGRAM.findall(path.read_text(encoding="utf-8"))
    twice = [
        SourceEntry(renamed(text, f"_{number}"), FileOrigin(str(number)))
        for number, text in enumerate([*found, *found])
    ]
    wrong = {finding.source_id for finding in check_input(CompilerInput(twice)).diagnostics if finding.is_error}
    return [text for text, entry in zip(found, twice, strict=False) if entry.source_id not in wrong]


def corpus(lines: int, written: Sequence[str] | None = None) -> str:
    """One text of at least so many lines, made of whole programs; a blank line stands between two."""
    pieces: list[str] = []
    so_far = 0
    for piece in _endless(written or programs()):
        pieces.append(piece)
        so_far += piece.count("\n") + 1
        if so_far >= lines:
            break
    return "\n".join(pieces)


def renamed(program: str, suffix: str) -> str:
    """Return the program with a suffix on all its namespaces, where they are declared, used and named in full."""
    # Longest first, so that the name of one is not taken for the beginning of another's.
    names = sorted(set(_NAMESPACE.findall(program)), key=len, reverse=True)
    name = "|".join(map(re.escape, names))
    place = rf"(\b(?:namespace|uses?)\s+)({name})(?![\w.])|(?<![\w.$])({name})(?=\.[A-Z])"
    return re.sub(place, lambda found: f"{found[1] or ''}{found[2] or found[3]}{suffix}", program)


def _endless(written: Sequence[str]) -> Iterator[str]:
    for number in count():
        # No program shares a namespace with another: two of the documents' are about the same shop.
        yield renamed(written[number % len(written)], f"_{number}")
