"""The LALR parse table: made from grammar.lark by `python -m tools.grammar_table`, kept beside this module as JSON.

Lark makes it, and nothing that runs needs Lark: docs/decisions/0050-the-parse-table-is-shipped.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict

from afl.core.frozen import frozen

GRAMMAR_FILE = Path(__file__).parent.parent / "grammar.lark"
TABLE_FILE = Path(__file__).parent / "table.json"

#: The terminal for the end of the text.
END = "$END"


class TableDocument(TypedDict):
    """The stored form of a table: plain JSON."""

    keywords: dict[str, str]
    punctuation: dict[str, str]
    patterns: dict[str, str]
    rules: list[tuple[str, int, str | None]]
    actions: list[dict[str, int]]
    gotos: list[dict[str, int]]
    start: int


@frozen
class ParseTable:
    """The table that the parser runs on.

    `actions[state][terminal]` is a state to shift to (zero or more) or the complement `~r` of a rule to reduce;
    `rules[r]` is (nonterminal, length, callback), callback None where the only child is passed on.
    """

    keywords: dict[str, str]
    punctuation: dict[str, str]
    patterns: dict[str, str]
    rules: list[tuple[str, int, str | None]]
    actions: list[dict[str, int]]
    gotos: list[dict[str, int]]
    start: int


def load_table() -> ParseTable:
    """Return the table that the package brings."""
    document: TableDocument = json.loads(TABLE_FILE.read_bytes())
    return ParseTable(**document)
