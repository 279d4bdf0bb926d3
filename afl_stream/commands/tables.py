"""Tables for people: rows in columns, or each on several lines where those do not fit; ids are never broken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len, chop_cells

#: What stands between two columns.
GAP: Final = "   "
_INDENT: Final = "    "
#: A column is not made narrower than this to fit a line.
_NARROWEST: Final = 12


class TableLayout:
    """The layout of one table on a screen: the lines of its heading, and the lines of its rows.

    `whole` names columns whose cells are copied by people: ids and names. They are never broken. `width` is in columns
    of the screen. Columns without a name hold texts.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        right: Sequence[str] = (),
        whole: Sequence[str] = (),
        width: int,
        gap: str = GAP,
    ) -> None:
        # A column of nothing but blanks would only take room.
        shown = [at for at, column in enumerate(columns) if column or any(row[at] for row in rows)]
        self._columns = [columns[at] for at in shown]
        self._rows = [[row[at] for at in shown] for row in rows]
        self._right, self._whole = frozenset(right), frozenset(whole)
        self._width, self._gap = width, gap
        self._shown = shown
        self._widths = [
            max((cell_len(cell) for cell in (name, *(row[at] for row in self._rows))), default=0)
            for at, name in enumerate(self._columns)
        ]
        self._is_stacked = self._too_wide(self._widths) and bool(self._whole & {*self._columns})
        self._groups = self._stacked() if self._is_stacked else [[*range(len(self._columns))]]
        for group in self._groups:
            self._make_narrower(group, self._room(group))

    def heading(self) -> list[str]:
        """Return the names of the columns, and a line below them."""
        lines = self._lines_of(self._columns)
        longest = max((cell_len(line) for line in [*lines, *self.rows()]), default=0)
        return [*lines, "─" * min(longest, self._width)]

    def rows(self) -> list[str]:
        """Return the lines of all rows."""
        return [line for row in self._rows for line in self._lines_of(row)]

    def lines_of(self, cells: Sequence[str]) -> list[str]:
        """Return the lines of one of the rows."""
        return self._lines_of([cells[at] for at in self._shown])

    def _stacked(self) -> list[list[int]]:
        """Return the columns of each line: an id and a text have their own, the others share as few as they need."""
        groups: list[list[int]] = []
        is_open = False
        for at, name in enumerate(self._columns):
            is_alone = name in self._whole or not name
            if is_open and not is_alone and self._width_of([*groups[-1], at]) <= self._room([*groups[-1], at]):
                groups[-1].append(at)
            else:
                groups.append([at])
            is_open = not is_alone
        return groups

    def _width_of(self, group: Sequence[int]) -> int:
        return sum(self._widths[at] for at in group) + len(self._gap) * (len(group) - 1)

    def _room(self, group: Sequence[int]) -> int:
        return self._width - len(self._indent(group))

    def _indent(self, group: Sequence[int]) -> str:
        return _INDENT if group[0] else ""

    def _lines_of(self, cells: Sequence[str]) -> list[str]:
        lines = []
        for group in self._groups:
            indent = self._indent(group)
            lines += [f"{indent}{line}".rstrip() for line in self._side_by_side(group, cells)]
        return [line for line in lines if line] if self._is_stacked else lines

    def _side_by_side(self, group: Sequence[int], cells: Sequence[str]) -> list[str]:
        """Return cells of one row beside each other; more than one line if one of them is wrapped."""
        wrapped = {at: _wrapped(cells[at], self._widths[at]) for at in group}
        lines = []
        for number in range(max(len(parts) for parts in wrapped.values())):
            padded = []
            for at, parts in wrapped.items():
                text = parts[number] if number < len(parts) else ""
                blanks = " " * (self._widths[at] - cell_len(text))
                padded.append(blanks + text if self._columns[at] in self._right else text + blanks)
            lines.append(self._gap.join(padded))
        return lines

    def _too_wide(self, widths: Sequence[int]) -> bool:
        return sum(widths) + len(self._gap) * (len(widths) - 1) > self._width

    def _make_narrower(self, group: Sequence[int], room: int) -> None:
        """Take from the widest columns of a line until it fits, as far as that goes."""
        free = [at for at in group if self._columns[at] not in self._whole]
        while (excess := self._width_of(group) - room) > 0:
            widest = max(free, key=lambda at: self._widths[at], default=None)
            if widest is None or self._widths[widest] <= _NARROWEST:
                return
            self._widths[widest] = max(self._widths[widest] - excess, _NARROWEST)


def _wrapped(text: str, width: int) -> list[str]:
    """Return the text on lines of this width, broken between words where possible."""
    if cell_len(text) <= width:
        return [text]
    lines, line = [], text[: len(text) - len(text.lstrip())]
    for word in text.split():
        longer = f"{line} {word}" if line.strip() else f"{line}{word}"
        if cell_len(longer) <= width:
            line = longer
            continue
        if line.strip():
            lines.append(line)
        *full, line = chop_cells(word, width) or [""]
        lines += full
    return [*lines, line]
