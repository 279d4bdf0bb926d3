"""Output of the commands: tables and sentences for people, JSON for programs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TextIO

from afl.core.process.standard_streams import json_for
from afl.core.text.masking import Secrets
from afl.core.text.printable import MAX_LINE_CHARS, printable, printable_json

if TYPE_CHECKING:
    from rich.console import Console

#: Columns of a table that goes to a file or a pipe: nothing there has to fit a screen.
_PIPE_WIDTH = 200
#: More of one value than this is not for reading; --json has all of it.
_LONGEST_VALUE = 400


class Listed(NamedTuple):
    """One row of `Terminal.listing`: its cells, the colour of one of them, and a note below it."""

    cells: Sequence[str]
    colour: str = ""
    note: str = ""


class Terminal:
    """The output of one command: results to stdout, remarks to stderr. With `as_json`, stdout gets JSON only.

    Text for people contains no secret, is on one line, and has no characters that control a terminal. A document for
    programs is data, and is written as it is.
    """

    def __init__(
        self, out: TextIO, err: TextIO, *, as_json: bool, secrets: Secrets | None = None, name: str = ""
    ) -> None:
        """Take the streams. `name` is written before each remark: which of several processes makes it."""
        self._out, self._err = out, err
        self.as_json = as_json
        self._start = f"[{name}] " if name else ""
        self._secrets = secrets if secrets is not None else Secrets()

    @cached_property
    def console(self) -> Console:
        """The rich console of stdout."""
        return _console(self._out)

    @cached_property
    def remarks(self) -> Console:
        """The rich console of stderr."""
        return _console(self._err)

    def document(self, document: object) -> None:
        """Write one JSON document."""
        from afl.core.json_objects import write_json

        self._out.write(json_for(self._out, printable_json(write_json(document))) + "\n")
        self._out.flush()

    def line(self, text: str) -> None:
        """Write a line for people, or for a script that reads plain text."""
        self._out.write(self._shown(text))
        self._out.flush()

    def remark(self, text: str) -> None:
        """Write a remark for people: nothing that a program would need."""
        if not self.as_json:
            self._err.write(self._start + self._shown(text))
            self._err.flush()

    def warn(self, text: str) -> None:
        """Write a warning, which --json does not silence."""
        self._err.write(self._start + self._shown(text))
        self._err.flush()

    def warn_of(self, heading: str, lines: Iterable[str]) -> None:
        """Write a warning of several lines; nothing without any."""
        listed = list(lines)
        if listed:
            for line in (f"{heading}:", *(f"  {line}" for line in listed)):
                self.warn(line)

    def rendered(self, text: str) -> None:
        """Write lines that were rendered for a terminal: already printable, maybe coloured."""
        self._err.write(self._secrets.masked(text) + "\n")
        self._err.flush()

    def _shown(self, text: str) -> str:
        return printable(self._secrets.masked(text), MAX_LINE_CHARS) + "\n"

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        right: Sequence[str] = (),
        whole: Sequence[str] = (),
    ) -> None:
        """Write a table; `right` names the columns of numbers, `whole` those whose cells are never broken: ids.

        To a file or a pipe: a line a row, its cells between tabs, for other programs. No heading, and no blanks to fill
        a column. A column without a name stands last, or is there in every call.
        """
        self._write_table(columns, [Listed(row) for row in rows], right=right, whole=whole)

    def listing(
        self,
        columns: Sequence[str],
        rows: Sequence[Listed],
        *,
        right: Sequence[str] = (),
        whole: Sequence[str] = (),
        coloured: str = "",
    ) -> None:
        """Write a narrow table whose column `coloured` has the colours of its rows.

        To a file or a pipe it goes as `table` does, with the notes as a last column.
        """
        self._write_table(columns, rows, right=right, whole=whole, coloured=coloured, gap="  ")

    def _write_table(
        self,
        columns: Sequence[str],
        rows: Sequence[Listed],
        *,
        right: Sequence[str],
        whole: Sequence[str],
        coloured: str = "",
        gap: str | None = None,
    ) -> None:
        cells = [[one_line(self._secrets.masked(cell)) for cell in row.cells] for row in rows]
        notes = [one_line(self._secrets.masked(row.note)) for row in rows]
        if not self._fits_screen:
            for row_cells, note in zip(cells, notes, strict=True):
                self._out.write("\t".join([*row_cells, note]).rstrip("\t") + "\n")
            self._out.flush()
            return
        from rich.text import Text

        from afl_stream.commands.tables import GAP, TableLayout

        layout = TableLayout(columns, cells, right=right, whole=whole, width=self.console.width, gap=gap or GAP)
        *names, rule = layout.heading()
        for line in names:
            self.console.print(Text(line, style="bold"), soft_wrap=True)
        self.console.print(Text(rule), soft_wrap=True)
        at = columns.index(coloured) if coloured else 0
        for row, row_cells, note in zip(rows, cells, notes, strict=True):
            for line in layout.lines_of(row_cells):
                text = Text(line)
                if row.colour and coloured:
                    text.highlight_regex(rf"(?:^|(?<=  )){re.escape(row_cells[at])}(?=  |$)", row.colour)
                self.console.print(text, soft_wrap=True)
            if note:
                self.console.print(Text(f"    {_cut(note, self.console.width - 4)}", style="dim"), soft_wrap=True)

    def coloured(self, *parts: tuple[str, str]) -> None:
        """Write a line of parts, each a text and its colour; "" for none."""
        from rich.text import Text

        line = Text()
        for part, colour in parts:
            line.append(printable(self._secrets.masked(part), MAX_LINE_CHARS), style=colour or None)
        self.console.print(line, soft_wrap=True)

    @property
    def width(self) -> int:
        """Return the columns of a line."""
        return self.console.width

    @property
    def _fits_screen(self) -> bool:
        """Return whether lines have to fit a width: lines to a file or a pipe do not."""
        return self._out.isatty() or "COLUMNS" in os.environ

    def values(self, title: str, values: Iterable[tuple[str, object]]) -> None:
        """Write named values, each as JSON."""
        shown = [(name, value_text(value)) for name, value in values]
        width = max((len(name) for name, _ in shown), default=0)
        self.line(title)
        for name, text in shown:
            self.line(f"  {name:<{width}} = {text}")


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: max(longest - 3, 0)]}..."


def one_line(text: str) -> str:
    """Return a text on one line, in full: the cell of a table is folded, not cut."""
    return printable(text.replace("\n", " "), max_chars=len(text))


def value_text(value: object, longest: int = _LONGEST_VALUE) -> str:
    """Return a value as JSON, cut to a readable length."""
    from afl.core.json_objects import write_json

    document = write_json(value, indent=None)
    text = printable(document, max_chars=len(document))
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text):,} characters; --json has all)"


def time_text(at_ms: int) -> str:
    """Return a time as people here read it."""
    return datetime.fromtimestamp(at_ms / 1000).strftime("%Y-%m-%d %H:%M:%S") if at_ms else "-"


def duration_text(duration_ms: int) -> str:
    """Return a duration as people read it."""
    seconds = duration_ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def short_duration(duration_ms: int) -> str:
    """Return a duration in a few characters, as a list has room for."""
    seconds = duration_ms / 1000
    if seconds < 60:
        return f"{seconds:.1f}s"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    raise AssertionError(seconds)


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    width = None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH
    # Markup would take the brackets of values for styles.
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=width)
