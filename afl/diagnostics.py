"""The compiler's findings about a program, and how a person sees them."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY
from enum import StrEnum

from afl.core.frozen import frozen
from afl.core.text.line_ends import with_line_feeds
from afl.core.text.printable import printable

#: The longest piece of a source line in an excerpt, in characters. Generated files have lines of megabytes.
EXCERPT_WIDTH = 160

TAB_WIDTH = 4

_RESET, _BOLD, _RED, _YELLOW, _CYAN = "\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[36m"


class Severity(StrEnum):
    """The severity of a finding: an error refuses the program, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@frozen
class Diagnostic:
    """One finding at one place.

    Lines and columns are 1-based and count characters; the end column is exclusive.
    """

    _: KW_ONLY
    code: str
    severity: Severity
    message: str
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    source_id: str | None = None
    hint: str | None = None

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    def place(self) -> str:
        """Return `file:line:column`, as far as it is known."""
        parts = [display_name(self.source_id)]
        if self.line is not None:
            parts.append(str(self.line))
            if self.column is not None:
                parts.append(str(self.column))
        return ":".join(parts)

    def headline(self) -> str:
        """Return the finding on one line: `file:line:column: error[CODE]: message`."""
        return f"{printable(self.place())}: {self.severity}[{self.code}]: {printable(self.message)}"

    def to_json(self) -> dict[str, object]:
        """Return the finding as a JSON object; parts that are unknown are left out."""
        members: dict[str, object] = {
            "code": self.code,
            "severity": self.severity.value,
            "message": self.message,
            "line": self.line,
            "column": self.column,
            "endLine": self.end_line,
            "endColumn": self.end_column,
            "sourceId": self.source_id,
            "hint": self.hint,
        }
        return {name: value for name, value in members.items() if value is not None}

    def sort_key(self) -> tuple[int, int, str]:
        """Return the order inside one source: by place, then code."""
        return (self.line or 0, self.column or 0, self.code)


def display_name(source_id: str | None) -> str:
    """Return the name of the source for people: the path of a file, `<string>` when it has no path."""
    return source_id.removeprefix("file://") if source_id else "<string>"


def render(diagnostic: Diagnostic, source_text: str | None, *, colour: bool = False) -> str:
    """Return the finding with an excerpt of the source and a caret line below it."""
    paint = _painter(colour)
    tone = _RED if diagnostic.is_error else _YELLOW
    head = paint(f"{diagnostic.severity}[{diagnostic.code}]", _BOLD + tone)
    lines = [f"{paint(printable(diagnostic.place()), _BOLD)}: {head}: {printable(diagnostic.message)}"]
    if source_text is not None:
        lines.extend(excerpt(diagnostic, source_text, lambda carets: paint(carets, tone)))
    if diagnostic.hint:
        lines.append(f"  {paint('hint', _CYAN)}: {printable(diagnostic.hint)}")
    return "\n".join(lines)


def excerpt(diagnostic: Diagnostic, source_text: str, paint: Callable[[str], str] = str) -> list[str]:
    """Return the source line of a finding with its number, and the carets below it; nothing without a source line."""
    shown = None if diagnostic.line is None else _excerpt(diagnostic, source_text)
    if shown is None:
        return []
    number = str(diagnostic.line)
    return [f"  {number} | {shown[0]}", f"  {' ' * len(number)} | {paint(shown[1])}"]


def error_count(diagnostics: Iterable[Diagnostic]) -> str | None:
    """Return the last line of a report, `Error: 2 errors in a.afl`, for logs that keep only it; None without errors."""
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.is_error]
    if not errors:
        return None
    sources = {display_name(diagnostic.source_id) for diagnostic in errors}
    where = printable(sources.pop()) if len(sources) == 1 else f"{len(sources)} files"
    return f"Error: {len(errors)} error{'' if len(errors) == 1 else 's'} in {where}"


def _painter(colour: bool) -> Callable[[str, str], str]:
    return (lambda text, style: f"{style}{text}{_RESET}") if colour else (lambda text, _style: text)


def _excerpt(diagnostic: Diagnostic, source_text: str) -> tuple[str, str] | None:
    """Return the source line and the carets under it, both measured in terminal cells."""
    assert diagnostic.line is not None
    line = _nth_line(with_line_feeds(source_text), diagnostic.line)
    if line is None:
        return None
    start = max((diagnostic.column or 1) - 1, 0)
    one_line = diagnostic.end_line in (None, diagnostic.line)
    end = (diagnostic.end_column or start + 2) - 1 if one_line else len(line)
    # A window around the place keeps the carets in sight on very long lines.
    left = max(0, start - EXCERPT_WIDTH // 2) if len(line) > EXCERPT_WIDTH else 0
    shown = line[left : left + EXCERPT_WIDTH]
    before = _cells(shown[: start - left])
    marked = _cells(shown[start - left : max(end - left, start - left + 1)])
    return _expand(shown), " " * before + "^" * max(marked, 1)


def _nth_line(text: str, number: int) -> str | None:
    begin = 0
    for _ in range(number - 1):
        begin = text.find("\n", begin) + 1
        if begin == 0:
            return None
    end = text.find("\n", begin)
    return text[begin : len(text) if end < 0 else end].rstrip("\r")


def _expand(text: str) -> str:
    """Replace tabs by blanks and other control characters by a stand-in, so that they cannot control a terminal."""
    widened = text.replace("\t", " " * TAB_WIDTH)
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in widened)


def _cells(text: str) -> int:
    """Return how many terminal cells the expanded text takes."""
    width = 0
    for char in text:
        if char == "\t":
            width += TAB_WIDTH
        elif not char.isprintable():
            width += 1
        elif unicodedata.combining(char):
            width += 0
        else:
            width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return width
