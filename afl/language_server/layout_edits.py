"""Formats a text by one edit, of the stretch that has to change."""

from __future__ import annotations

from lsprotocol import types as lsp

from afl.formatting import format_text
from afl.language_server.texts import Text


def layout_edits(text: Text) -> list[lsp.TextEdit]:
    """Return the edits that bring a valid text into the one layout of the language. Raises FormatRefused.

    The kind of line ends is the editor's business and stays what it is.
    """
    before = text.content
    after = format_text(before)
    if "\r\n" in before:
        after = after.replace("\n", "\r\n")
    if after == before:
        return []
    start = _shared(before, after)
    behind = _shared(before[start:][::-1], after[start:][::-1])
    changed = lsp.Range(text.position_of(start), text.position_of(len(before) - behind))
    return [lsp.TextEdit(range=changed, new_text=after[start : len(after) - behind])]


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (mine, yours) in pairs if mine != yours), min(len(one), len(other)))
