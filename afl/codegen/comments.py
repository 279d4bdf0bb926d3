"""Doc comments as lines that stay inside the comments of any language."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import dedent, wrap
from typing import Final

from afl.codegen.model import Slot

SENSITIVE: Final = "Sensitive: keep it out of logs."
_WIDTH: Final = 100


def lines_of(text: str) -> list[str]:
    """Return the lines of a doc comment.

    What would end a line elsewhere, what is invisible and what turns the direction of writing become blanks.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    plain = dedent("\n".join("".join(c if c.isprintable() else " " for c in line).rstrip() for line in lines))
    return [one for line in plain.strip("\n").split("\n") for one in _wrapped(line)] if plain.strip() else []


def _wrapped(line: str) -> list[str]:
    if len(line) <= _WIDTH:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    return wrap(line.strip(), _WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False)


def slot_lines(slot: Slot) -> list[str]:
    """Return what is said about a parameter, return or field."""
    return [*lines_of(slot.doc), *([SENSITIVE] if slot.is_sensitive else [])]


def block(lines: Sequence[str], indent: str = "") -> list[str]:
    """Return lines as a `/** ... */` comment; nothing for none. What they say may not hold `*/`."""
    if not lines:
        return []
    if len(lines) == 1:
        return [f"{indent}/** {lines[0]} */"]
    return [f"{indent}/**", *(f"{indent} * {line}".rstrip() for line in lines), f"{indent} */"]


def heading(sources: Sequence[str]) -> str:
    """Return the files that code is made of, as a header names them."""
    return ", ".join(" ".join(lines_of(source)) for source in sources) or "a program"
