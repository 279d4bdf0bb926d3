"""Text from outside, made fit to be shown: in a terminal, a log line, an audit line or an error's message."""

from __future__ import annotations

from typing import Final

#: Characters of one shown text: what is longer is cut, and says how long it was.
MAX_SHOWN_CHARS: Final = 1_000


def printable(text: str, max_chars: int = MAX_SHOWN_CHARS) -> str:
    """Return the text on one line of at most about `max_chars` characters, with nothing that steers a terminal.

    Control characters, line breaks, bidirectional controls, other invisible characters and lone surrogates become
    Python's escapes; what was cut is told by the number of characters that the text had.
    """
    head = text[:max_chars]
    if not head.isprintable():
        head = "".join(char if char.isprintable() else _escape(char) for char in head)
    return head if len(text) <= max_chars else f"{head}... ({len(text)} characters)"


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
