"""The parser's next action, without the productions that only pass their child on.

An expression passes through a dozen levels of precedence, and most of them do nothing with it. Which levels are passed
depends only on two states (the top one and the one below it) and the next terminal, so each way is walked once and
remembered.
"""

from __future__ import annotations

from afl.grammar.table import ParseTable

#: The state in which the next action happens, and the table's action there.
Move = tuple[int, int]


class Moves(list["_Above"]):
    """The next move by the state below the top, the top state and the terminal; None where the text is refused.

    Filled as it is used, by several threads too: all of them compute the same moves.
    """

    def __init__(self, table: ParseTable) -> None:
        super().__init__(_Above(table, below) for below in range(len(table.actions)))


class _Above(dict[int, "_ByTerminal"]):
    """The moves of the states above one state."""

    def __init__(self, table: ParseTable, below: int) -> None:
        self._table = table
        self._below = below

    def __missing__(self, top: int) -> _ByTerminal:
        found = self[top] = _ByTerminal(self._table, self._below, top)
        return found


class _ByTerminal(dict[str, Move | None]):
    """The moves of one state above another, by terminal."""

    def __init__(self, table: ParseTable, below: int, top: int) -> None:
        self._table = table
        self._below = below
        self._top = top

    def __missing__(self, terminal: str) -> Move | None:
        found = self[terminal] = self._walk(terminal)
        return found

    def _walk(self, terminal: str) -> Move | None:
        table, state = self._table, self._top
        while True:
            action = table.actions[state].get(terminal)
            if action is None:
                return None
            if action >= 0:
                return state, action
            name, _, callback = table.rules[~action]
            if callback is not None:
                return state, action
            state = table.gotos[self._below][name]
