"""Texts as an editor handles them: its positions, ranges and edits."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from typing import Protocol

from lsprotocol import types as lsp

from afl.ast import SourceLocation
from afl.core.text.line_ends import with_line_feeds

_COMMENT_OR_WORD = re.compile(r"//[^\n]*|/\*.*?\*/|([A-Za-z_][A-Za-z0-9_]*)", re.DOTALL)


class Units(Protocol):
    """The editor's unit for counting characters, chosen when the conversation begins."""

    def client_num_units(self, string: str) -> int:
        """Return the length of a text in the editor's units."""


class Text:
    """A text that is addressed by offsets, by the compiler's places, and by the editor's positions.

    Lines end as they do for the compiler, with LF, CR LF or a CR alone. The CR in front of a line feed counts as one
    more character of the line.
    """

    def __init__(self, content: str, units: Units) -> None:
        self.content = content
        self._units = units

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", with_line_feeds(self.content)))]

    def line(self, number: int) -> str:
        """Return a line by its number from 0, without its line end; empty beyond the text."""
        if number >= len(self._starts):
            return ""
        end = self._starts[number + 1] - 1 if number + 1 < len(self._starts) else len(self.content)
        return self.content[self._starts[number] : end]

    # -- the editor's positions ---------------------------------------------------------------------------------------

    def offset(self, position: lsp.Position) -> int:
        """Return the offset of a position; one beyond the line or the text counts as its end."""
        if position.line >= len(self._starts):
            return len(self.content)
        line = self.line(position.line)
        start = self._starts[position.line]
        if line.isascii():
            return start + min(position.character, len(line))
        left = position.character
        for number, char in enumerate(line):
            if left <= 0:
                return start + number
            left -= self._units.client_num_units(char)
        return start + len(line)

    def place(self, position: lsp.Position) -> tuple[int, int]:
        """Return line and column of a position as the compiler counts them: both from 1, in characters."""
        line = min(position.line, len(self._starts) - 1)
        return line + 1, self.offset(position) - self._starts[line] + 1

    def position(self, line: int, column: int) -> lsp.Position:
        """Return the position of a place, which is counted from 1."""
        before = self.line(line - 1)[: column - 1]
        units = len(before) if before.isascii() else self._units.client_num_units(before)
        return lsp.Position(line - 1, units)

    def position_of(self, offset: int) -> lsp.Position:
        """Return the position of an offset."""
        line = bisect_right(self._starts, offset)
        return self.position(line, offset - self._starts[line - 1] + 1)

    def range(self, place: SourceLocation | None) -> lsp.Range:
        """Return the range of a place: one character long without an end, the beginning of the text without a place."""
        if place is None:
            return lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0))
        end_line, end_column = place.end_line or place.line, place.end_column or place.column + 1
        return lsp.Range(self.position(place.line, place.column), self.position(end_line, end_column))

    def edited(self, change: lsp.TextDocumentContentChangeEvent) -> Text:
        """Return the text after an edit."""
        if isinstance(change, lsp.TextDocumentContentChangeWholeDocument):
            return Text(change.text, self._units)
        start, end = self.offset(change.range.start), self.offset(change.range.end)
        return Text(self.content[:start] + change.text + self.content[end:], self._units)

    def without_lines(self, numbers: set[int]) -> str:
        """Return the text with blanks in place of some lines, given by their numbers from 0."""
        lines = with_line_feeds(self.content).split("\n")
        return "\n".join(" " * len(line) if number in numbers else line for number, line in enumerate(lines))

    # -- words --------------------------------------------------------------------------------------------------------

    def words(self, place: SourceLocation, count: int, skip: int = 0) -> list[SourceLocation]:
        """Return the places of the words from a place on, without the first `skip`; words in comments do not count."""
        found: list[SourceLocation] = []
        if place.line > len(self._starts):
            return found
        start = self._starts[place.line - 1] + place.column - 1
        for match in _COMMENT_OR_WORD.finditer(with_line_feeds(self.content), start):
            if match[1] is None:
                continue
            if skip:
                skip -= 1
                continue
            line = bisect_right(self._starts, match.start())
            column = match.start() - self._starts[line - 1] + 1
            found.append(SourceLocation(line, column, line, column + len(match[1]), place.source_id))
            if len(found) == count:
                break
        return found

    def cut(self, place: SourceLocation) -> str:
        """Return the text of a place."""
        start = self._starts[place.line - 1] + place.column - 1
        end = self._starts[(place.end_line or place.line) - 1] + (place.end_column or place.column + 1) - 1
        return self.content[start:end]


def holds(place: SourceLocation | None, line: int, column: int) -> bool:
    """Say whether a place contains a point; the point just behind it counts too."""
    if place is None:
        return False
    end = (place.end_line or place.line, place.end_column or place.column)
    return place[:2] <= (line, column) <= end
