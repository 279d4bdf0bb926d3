"""Puts the tokens of a program down in one of the many ways that mean the same."""

from collections.abc import Sequence
from random import Random

#: A place for a separator, which may stay empty.
SEPARATOR = "<separator>"

_GAPS = ("", "", " ", " ", " ", "\t", "\n", "\n", "\n\n\n", "\r\n  ", "\f", "  \n", " \r ")
_COMMENTS = (
    " // line {n}\n",
    ' // } unpaired ) " in a line\n',
    " /* block {n} */",
    "\n/* own\r\n   lines * {n} **/\n",
    " /**/",
    " /* été 漢字 🎈 */ ",
    "\n// own {n}\n",
)
#: Marks of which two in a row may be another mark, or the beginning of a comment.
_STICKY = frozenset("+-=<>!&|/*#")


def laid_out(tokens: Sequence[str], random: Random) -> str:
    """Return the text of the tokens, with blanks, line ends, comments and separators at unusual places."""
    style = random.choice(["tight", "plain", "wild", "wild"])
    parts = ["\ufeff"] if style == "wild" and random.random() < 0.1 else []
    before = ""
    for n, token in enumerate(tokens):
        if token == SEPARATOR:
            token = random.choice(["", "", ";", "; ;", "\n;"])
            if not token:
                continue
        parts.append(_gap(style, before, token, n, random))
        parts.append(token)
        before = token
    parts.append(random.choice(["", "\n", " ", "\n\n", " // the end", "/* the end */"]))
    return "".join(parts)


def _gap(style: str, before: str, token: str, n: int, random: Random) -> str:
    if style == "plain":
        return " "
    gap = random.choice(_GAPS) if style == "wild" else ""
    if style == "wild" and random.random() < 0.06:
        gap += random.choice(_COMMENTS).replace("{n}", str(n)) + random.choice(["", "\n"])
    return gap or (" " if _would_join(before, token) else "")


def _would_join(before: str, token: str) -> bool:
    if not before or not token:
        return False
    words = (before[-1].isalnum() or before[-1] == "_") and (token[0].isalnum() or token[0] == "_")
    return words or (before[-1] in _STICKY and token[0] in _STICKY)
