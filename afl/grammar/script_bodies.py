"""The code of a script in braces: where it ends, and what it is without the indentation of its place in the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

#: What may stand in a raw body besides code that has no braces: Python strings and comments, where braces are text.
#: A string in single marks ends with its line at the latest; one in triple marks that never ends hides all behind it.
_RAW_PIECE = re.compile(
    r"""(?s)
      \#[^\n]*
    | \"\"\"(?:[^"\\]|\\.|"(?!""))*+(?:\"\"\")? | '''(?:[^'\\]|\\.|'(?!''))*+(?:''')?
    | "(?:[^"\\\n]|\\[^\n])*"? | '(?:[^'\\\n]|\\[^\n])*'?
    | (?P<open>\{) | (?P<close>\})
    | [^\#"'{}]+
    """,
    re.VERBOSE,
)

#: What stands in front of the keyword `script`; anywhere else the word is a name. Words that are no place for a script
#: are among them, so that a script in the wrong place is reported as what it is.
_BEFORE_SCRIPT = frozenset(["RPAR", "ANDTHEN", "CATCH", "RBRACE", "STRING", "RAW_BODY"])


class Code(NamedTuple):
    """Python code cut out of a raw body.

    `line` counts the line ends between the brace and the first character of the code; `offset` is that character's
    place in its line, from the brace's own place on if `line` is 0; `indent` is what the later lines have lost.
    """

    text: str
    line: int
    offset: int
    indent: int


def opens_script(before: Sequence[str]) -> bool:
    """Whether a brace behind tokens of these types opens a script; five are enough to tell.

    `script` as a keyword has to stand there, perhaps a dialect behind it.
    """
    behind = 2 if before and before[-1] == "NAME" else 1
    if len(before) <= behind or before[-behind] != "SCRIPT":
        return False
    kinds = before[-behind - 3 : -behind]
    # The alias of a mixin may be any word, so that it takes three tokens to tell `M() as schema script {` from
    # `namespace as schema script {`.
    return kinds[-1] in _BEFORE_SCRIPT or kinds[:2] == ["RPAR", "AS"]


def end_of_body(text: str, start: int) -> int | None:
    """Return the position behind the brace that closes the one at `start`; None where there is none."""
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
    """Return the Python code of a body, braces included in what is given."""
    return cut_code(body).text


def cut_code(body: str) -> Code:
    """Return the Python code of a body, braces included in what is given, and where it was."""
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
    """Return the white space that all lines with more than that begin with."""
    margins = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    shared = min(margins, key=len, default="")
    while not all(margin.startswith(shared) for margin in margins):
        shared = shared[:-1]
    return shared
