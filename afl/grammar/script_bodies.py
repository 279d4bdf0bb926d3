"""The code of a braced script: its end, and its text without the indentation of its place in the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from afl.core.text.patterns import lazy_pattern

#: Parts of a raw body besides plain code: Python strings and comments, in which braces are text. A string in single
#: marks ends with its line at the latest; one in triple marks that never ends hides the rest of the text.
_RAW_PIECE = lazy_pattern(
    r"""(?s)
      \#[^\n]*
    | \"\"\"(?:[^"\\]|\\.|"(?!""))*+(?:\"\"\")? | '''(?:[^'\\]|\\.|'(?!''))*+(?:''')?
    | "(?:[^"\\\n]|\\[^\n])*"? | '(?:[^'\\\n]|\\[^\n])*'?
    | (?P<open>\{) | (?P<close>\})
    | [^\#"'{}]+
    """,
    re.VERBOSE,
)

#: Tokens in front of the keyword `script`; anywhere else the word is a name. Words that cannot precede a script are
#: included, so that a script in the wrong place is reported as a script.
_BEFORE_SCRIPT = frozenset(["RPAR", "ANDTHEN", "CATCH", "RBRACE", "STRING", "RAW_BODY"])


class Code(NamedTuple):
    """Python code cut out of a raw body.

    `line` counts the line ends between the brace and the first character of the code. `offset` is that character's
    place in its line, or behind the brace if `line` is 0. `indent` is the indentation taken off the later lines.
    """

    text: str
    line: int
    offset: int
    indent: int


def opens_script(before: Sequence[str]) -> bool:
    """Say whether a brace behind tokens of these types opens a script; the last five types are enough.

    The keyword `script` must be among them, perhaps with a dialect behind it.
    """
    behind = 2 if before and before[-1] == "NAME" else 1
    if len(before) <= behind or before[-behind] != "SCRIPT":
        return False
    kinds = before[-behind - 3 : -behind]
    # The alias of a mixin may be any word, so it takes three tokens to distinguish `M() as schema script {` from
    # `namespace as schema script {`.
    return kinds[-1] in _BEFORE_SCRIPT or kinds[:2] == ["RPAR", "AS"]


def end_of_body(text: str, start: int) -> int | None:
    """Return the position behind the brace that closes the one at `start`; None when no brace does."""
    depth = 0
    for match in _RAW_PIECE.finditer(text, start):
        if match.lastgroup == "open":
            depth += 1
        elif match.lastgroup == "close":
            depth -= 1
            if depth == 0:
                return match.end()
    return None


def script_code(body: str) -> str:
    """Return the Python code of a body that is given with its braces."""
    return cut_code(body).text


def cut_code(body: str) -> Code:
    """Return the Python code of a body that is given with its braces, and the place of the code."""
    lines = [line.removesuffix("\r") for line in body[1:-1].split("\n")]
    first, rest = lines[0], lines[1:]
    blanks = len(first) - len(first.lstrip())
    if not rest:
        return Code(first.strip(), 0, 1 + blanks, 0)
    if not rest[-1].strip():
        rest.pop()
    margin = len(shared_margin(rest))
    code = [line[margin:] for line in rest]
    if first.strip():
        return Code("\n".join([first.lstrip(), *code]), 0, 1 + blanks, margin)
    return Code("\n".join(code), 1, margin, margin)


def shared_margin(lines: list[str]) -> str:
    """Return the white space that all non-blank lines begin with."""
    margins = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    shared = min(margins, key=len, default="")
    while not all(margin.startswith(shared) for margin in margins):
        shared = shared[:-1]
    return shared
