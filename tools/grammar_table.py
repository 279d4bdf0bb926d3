"""Make the parse table that `afl` ships: `python -m tools.grammar_table`, after each change of afl/grammar.lark.

Lark reads the grammar and builds the LALR table, and refuses a grammar with a conflict. The file is the same bytes with
every Python, release of Lark and hash seed, so that a test can compare it with a fresh one.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import lark
from lark.lexer import Lexer as LarkLexer
from lark.lexer import PatternStr
from lark.parsers.lalr_analysis import Shift

from afl.grammar.table import END, GRAMMAR_FILE, TABLE_FILE, TableDocument


class _NoLexer(LarkLexer):
    """Stands in for Lark's lexer: the package brings its own."""

    def __init__(self, lexer_conf: object) -> None:
        pass

    def lex(self, lexer_state: object, parser_state: object) -> Any:
        raise NotImplementedError("the table is driven by afl.parser")


def table_document(grammar: str) -> TableDocument:
    """Return the table of a grammar; raises lark.GrammarError on any conflict."""
    built = lark.Lark(grammar, start="program", parser="lalr", lexer=_NoLexer, strict=True)
    frontend: Any = built.parser
    table = frontend.parser.parser.parse_table
    # Lark's own order is not the same in each run.
    productions = sorted(built.rules, key=lambda rule: (rule.origin.name, [symbol.name for symbol in rule.expansion]))
    numbers = _number_states(table.states, table.start_states["program"])
    actions, gotos = _rows(table.states, numbers, productions)
    # Lark leaves accepting to its driver; as a shift on the end of the text it needs no case of its own in ours.
    end = numbers[table.end_states["program"]]
    actions[end][END] = end
    terminals = sorted(built.terminals, key=lambda terminal: str(terminal.name))
    fixed = {t.pattern.value: str(t.name) for t in terminals if isinstance(t.pattern, PatternStr)}
    return TableDocument(
        keywords={text: name for text, name in fixed.items() if _is_word(text)},
        punctuation={text: name for text, name in fixed.items() if not _is_word(text)},
        patterns={str(t.name): t.pattern.to_regexp() for t in terminals if not isinstance(t.pattern, PatternStr)},
        rules=[_rule(production) for production in productions],
        actions=actions,
        gotos=gotos,
        start=numbers[table.start_states["program"]],
    )


def table_text(document: TableDocument) -> str:
    """Return a table as it is stored: JSON, with one row a line."""
    members = []
    for name, value in document.items():
        if isinstance(value, list):
            rows = ",\n".join(_json(row) for row in value)
            members.append(f'"{name}": [\n{rows}\n]')
        else:
            members.append(f'"{name}": {_json(value)}')
    return "{\n" + ",\n".join(members) + "\n}\n"


def main() -> int:
    """Write the table of the package's grammar."""
    grammar = GRAMMAR_FILE.read_text(encoding="utf-8")
    TABLE_FILE.write_text(table_text(table_document(grammar)), encoding="utf-8", newline="\n")
    return 0


def _number_states(states: Any, start: int) -> dict[int, int]:
    """Return a number for each state, in the order in which a walk from the start meets them."""
    numbers = {start: 0}
    waiting = [start]
    for state in waiting:
        for _, (_, target) in sorted(states[state].items(), key=lambda item: str(item[0])):
            if isinstance(target, int) and target not in numbers:
                numbers[target] = len(numbers)
                waiting.append(target)
    return numbers


def _rows(
    states: Any, numbers: dict[int, int], productions: list[Any]
) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    """Return what each state does at a terminal, and where it goes after a nonterminal."""
    nonterminals = {str(production.origin.name) for production in productions}
    rules = {(rule.origin, tuple(rule.expansion)): number for number, rule in enumerate(productions)}
    actions: list[dict[str, int]] = []
    gotos: list[dict[str, int]] = []
    for state in numbers:
        action: dict[str, int] = {}
        goto: dict[str, int] = {}
        for symbol, (kind, target) in sorted(states[state].items(), key=lambda item: str(item[0])):
            if symbol in nonterminals:
                goto[str(symbol)] = numbers[target]
            elif kind is Shift:
                action[str(symbol)] = numbers[target]
            else:
                action[str(symbol)] = ~rules[target.origin, tuple(target.expansion)]
        actions.append(action)
        gotos.append(goto)
    return actions, gotos


def _rule(production: Any) -> tuple[str, int, str | None]:
    name, size = str(production.origin.name), len(production.expansion)
    hands_on = production.options.expand1 and production.alias is None and size == 1
    return name, size, None if hands_on else str(production.alias or name)


def _is_word(text: str) -> bool:
    return re.fullmatch(r"\w+", text) is not None


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    sys.exit(main())
