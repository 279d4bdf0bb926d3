"""Foreign text made safe to show: in a terminal, a log line, an audit line or an error's message."""

from __future__ import annotations

from typing import Final

#: The most characters of one shown text: a longer one is cut, and its length is added.
MAX_SHOWN_CHARS: Final = 1_000
#: The longest line that a command writes for people.
MAX_LINE_CHARS: Final = 20_000

_ASTRAL: Final = 0x10000


def printable(text: str, max_chars: int = MAX_SHOWN_CHARS) -> str:
    """Return the text on one line of at most about `max_chars` characters, without characters that control a terminal.

    Control characters, line breaks, bidirectional controls, other invisible characters and lone surrogates become
    Python's escapes. A cut text ends with the number of characters that it had.
    """
    head = text[:max_chars]
    if not head.isprintable():
        head = "".join(char if char.isprintable() else _escape(char) for char in head)
    return head if len(text) <= max_chars else f"{head}... ({len(text)} characters)"


def printable_lines(text: str, max_chars: int | None = None) -> str:
    """Return a text of several lines without characters that control a terminal; line breaks and tabs stay.

    For text that this program laid out itself; foreign text in it goes through `printable` first.
    """
    cut = text if max_chars is None or len(text) <= max_chars else f"{text[:max_chars]}... ({len(text)} characters)"
    if cut.isprintable():
        return cut
    return "".join(char if char.isprintable() or char in "\n\t" else _escape(char) for char in cut)


def printable_json(document: str) -> str:
    """Return a JSON document with escapes for characters that control a terminal: the same document for a program."""
    if document.isprintable():
        return document
    return "".join(char if char.isprintable() or char in "\n\t" else _json_escape(char) for char in document)


def ascii_json(document: str) -> str:
    """Return a JSON document in ASCII: the same document for a program."""
    return "".join(char if char.isascii() else _json_escape(char) for char in document)


def bounded(text: str, max_chars: int) -> str:
    """Return a text that can be encoded, cut to at most `max_chars` characters; a cut text ends with its full length.

    A text that was bounded once stays as it is.
    """
    kept = text[:max_chars].encode("utf-8", "backslashreplace").decode()
    if len(text) <= max_chars and len(kept) <= max_chars:
        return kept
    message = f"... ({len(text)} characters)"
    return f"{kept[: max(0, max_chars - len(message))]}{message}"


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _json_escape(char: str) -> str:
    code = ord(char)
    if code < _ASTRAL:
        return f"\\u{code:04x}"
    code -= _ASTRAL
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
