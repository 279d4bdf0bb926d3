"""The parser's next action, without the productions that only pass their child on.

An expression passes through a dozen levels of precedence, and most of them do nothing with it. Which levels are passed
depends only on two states (the top one and the one below it) and the next terminal, so each way is walked once and
remembered. So is where a move leads: the row that the next move is looked up in.
"""

from __future__ import annotations

from typing import TypeAlias

from afl.grammar.table import ParseTable

#: The state in which the next action happens, the table's action there, and, of a shift, the row after it.
Move: TypeAlias = "tuple[int, int, Row]"


class Moves(list["_Above"]):
    """The next move by the state below the top, the top state and the terminal; None where the text is refused.

    Filled as it is used, by several threads too: all of them compute the same moves.
    """

    def __init__(self, table: ParseTable) -> None:
        super().__init__(_Above(self, table, below) for below in range(len(table.actions)))
        #: By the state below and the number of the reduced rule: the state on top of it after that, and its row.
        self.after = [_After(self, table, below) for below in range(len(table.actions))]


class _Above(dict[int, "Row"]):
    """The moves of the states above one state."""

    def __init__(self, moves: Moves, table: ParseTable, below: int) -> None:
        self._moves = moves
        self._table = table
        self._below = below

    def __missing__(self, top: int) -> Row:
        found = self[top] = Row(self._moves, self._table, self._below, top)
        return found


class Row(dict[str, "Move | None"]):
    """The moves of one state above another, by terminal."""

    def __init__(self, moves: Moves, table: ParseTable, below: int, top: int) -> None:
        self._moves = moves
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
                return state, action, self._moves[state][action]
            name, _, callback = table.rules[~action]
            if callback is not None:
                return state, action, self
            state = table.gotos[self._below][name]


class _After(dict[int, tuple[int, Row]]):
    """Where the reductions above one state lead, by the number of the rule."""

    def __init__(self, moves: Moves, table: ParseTable, below: int) -> None:
        self._moves = moves
        self._table = table
        self._below = below

    def __missing__(self, rule: int) -> tuple[int, Row]:
        state = self._table.gotos[self._below][self._table.rules[rule][0]]
        found = self[rule] = (state, self._moves[self._below][state])
        return found
