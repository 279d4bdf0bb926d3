"""Explain a syntax error in terms of the language."""

from __future__ import annotations

from functools import cached_property

from afl.core.text.near_names import close_names
from afl.diagnostics import Diagnostic, Severity
from afl.errors import ParseError
from afl.grammar.lexer import RAW_BODY, Lexer, Token
from afl.grammar.table import END, ParseTable
from afl.syntax.foreign_words import (
    AFTER_WORD_HELP,
    BLOCK_WORD_HELP,
    GENERIC_HELP,
    NUMBER_HELP,
    PREFIXED_STRING_HELP,
    TYPE_WORDS,
    TYPED_STEP_HELP,
    WORD_HELP,
)
from afl.syntax.help import SYNTAX_HELP

#: The words for terminals that have no fixed spelling.
_WORDS = {
    "NAME": "a name",
    "STRING": "a string",
    "INT": "a number",
    RAW_BODY: "a body in braces",
    END: "the end of the text",
}

_JOINING = frozenset(["PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "CONCAT", "AND", "OR"])
_COMPARING = frozenset(["EQ", "NE", "LT", "LE", "GT", "GE", "IN", "NOT", "CONTAINS", "STARTSWITH", "ENDSWITH"])

#: Groups of terminals that a single word describes better than a list.
_TOGETHER: list[tuple[str, frozenset[str]]] = [
    (
        "a value",
        frozenset(["NAME", "STRING", "INT", "FLOAT", "DOLLAR", "LSQB", "LPAR", "MAP_OPEN", "MINUS", "PLUS", "BANG"]),
    ),
    ("an operator", _JOINING | _COMPARING),
    ("an operator", _JOINING),
    ("a declaration", frozenset(["NAMESPACE", "FACET", "EVENT", "WORKFLOW", "SCHEMA", "IMPLICIT"])),
    ("a declaration", frozenset(["FACET", "EVENT", "WORKFLOW", "SCHEMA", "IMPLICIT"])),
]

#: Keywords that may stand where a step's name is expected.
_BEHIND_A_STEP = ("andThen", "catch", "with", "yield")

#: A longer list of expected tokens does not help.
_MAX_WANTED = 6


class SyntaxExplainer:
    """Explainer of syntax errors, for a parser that runs on a table."""

    def __init__(self, table: ParseTable, lexer: Lexer) -> None:
        self._table = table
        self._lexer = lexer

    def explain(self, tokens: list[Token], number: int, source_id: str | None) -> ParseError:
        """Return the error for a text whose token `number` is not accepted."""
        table, token = self._table, tokens[number]
        states = _states_before(table, tokens, number)
        wanted = {terminal for terminal in table.actions[states[-1]] if _accepts(table, states, terminal)}
        message = f"syntax: found {_found(token)}, wanted {_list_wanted(table, wanted)}"
        _advance(table, states, token.type)
        return _error(message, token, source_id, self._hint(states[-1], tokens, number))

    def _hint(self, state: int, tokens: list[Token], number: int) -> str | None:
        token = tokens[number]
        before = tokens[number - 1] if number else token
        return (
            WORD_HELP.get(token.text)
            or (BLOCK_WORD_HELP.get(token.text) if before.text not in AFTER_WORD_HELP else None)
            or self._misspelt_keyword(state, token)
            or _habit(before, token)
            or AFTER_WORD_HELP.get(before.text)
            or self._wrong_step(state, before, token)
            or self._help.get((state, token.type, before.type))
            or self._help.get((state, token.type, ""))
        )

    def _wrong_step(self, state: int, before: Token, token: Token) -> str | None:
        """Return the hint for a word that was read as the name of a step: Int total = Sum(), cathc { }."""
        if before.type != "NAME" or self._table.actions[state].keys() != {"EQUAL"}:
            return None
        if token.type == "NAME" and before.text in TYPE_WORDS:
            return TYPED_STEP_HELP
        near = close_names(before.text, _BEHIND_A_STEP, min_likeness=0.8)
        return f"did you mean {near[0]}?" if near else None

    def _misspelt_keyword(self, state: int, token: Token) -> str | None:
        """Return the keyword that is allowed here and that a name resembles: andthen, workfow, Facet."""
        if token.type != "NAME":
            return None
        wanted = [word for word, terminal in self._table.keywords.items() if terminal in self._table.actions[state]]
        same = [word for word in wanted if word.lower() == token.text.lower()]
        near = same or close_names(token.text, wanted, min_likeness=0.8)
        return f"did you mean {near[0]}?" if near else None

    @cached_property
    def _help(self) -> dict[tuple[int, str, str], str]:
        """The hints by the place of the failure, found by parsing each program of the list."""
        failures = ((text, self._failure_of(program)) for text, programs in SYNTAX_HELP for program in programs)
        return {failure: text for text, failure in failures if failure is not None}

    def _failure_of(self, program: str) -> tuple[int, str, str] | None:
        """Return the parser's state and the kind of token at a failure, and the keyword before the token.

        The keyword counts because one that is read as a name leaves no other trace in the state. Returns None if the
        text is accepted.
        """
        states = [self._table.start]
        before = ""
        for token in self._lexer.tokens(program):
            if not _advance(self._table, states, token.type):
                return states[-1], token.type, before
            before = token.type if token.type in self._table.keywords.values() else ""
        return None


def _habit(before: Token, token: Token) -> str | None:
    """Return the hint for a pair of tokens that other languages write in this order."""
    if token.text in ("<", "[") and before.type == "NAME" and before.text.lower() in GENERIC_HELP:
        return GENERIC_HELP[before.text.lower()]
    is_glued = before.end() == (token.line, token.column)
    if is_glued and token.type == "STRING" and before.type == "NAME" and len(before.text) <= 2:
        return PREFIXED_STRING_HELP
    if is_glued and token.type == "NAME" and before.type in ("INT", "FLOAT"):
        return NUMBER_HELP
    return None


def _error(message: str, at: Token, source_id: str | None, hint: str | None) -> ParseError:
    end_line, end_column = at.end()
    diagnostic = Diagnostic(
        code="PARSE_ERROR",
        severity=Severity.ERROR,
        message=message,
        line=at.line,
        column=at.column,
        end_line=end_line,
        end_column=max(end_column, at.column + 1) if end_line == at.line else end_column,
        source_id=source_id,
        hint=hint,
    )
    return ParseError(message, at.line, at.column, source_id, diagnostic=diagnostic)


def _found(token: Token) -> str:
    if token.type == END:
        return "the end of the text"
    text = token.text if len(token.text) <= 40 else token.text[:37] + "..."
    return f"`{text}`" if text.isprintable() else repr(text)


def _list_wanted(table: ParseTable, wanted: set[str]) -> str:
    names: list[str] = []
    rest = set(wanted)
    if "NAME" in rest:
        # Keywords are names too; they are listed only where they begin a construct of their own.
        own = {"YIELD"} if "RBRACE" in rest and "EQUAL" not in rest else set()
        rest -= set(table.keywords.values()) - own
    for name, members in _TOGETHER:
        if rest >= members:
            names.append(name)
            rest -= members
    # A separator may stand nearly everywhere and is never required.
    rest -= {"SEMICOLON"}
    spelled = {name: f"`{text}`" for text, name in {**table.punctuation, **table.keywords}.items()} | _WORDS
    order = {name: number for number, name in enumerate(spelled)}
    names += [spelled.get(name, name) for name in sorted(rest, key=lambda name: order.get(name, 0))]
    if len(names) > _MAX_WANTED:
        names = [*names[: _MAX_WANTED - 1], "..."]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]


# -- the automaton without its actions --------------------------------------------------------------------------------


def _states_before(table: ParseTable, tokens: list[Token], number: int) -> list[int]:
    """Return the parser's states when it first looks at a token, before it reduces anything because of it."""
    states = [table.start]
    for token in tokens[:number]:
        shifted = _advance(table, states, token.type)
        assert shifted, "the tokens before the failing one are acceptable"
    return states


def _accepts(table: ParseTable, states: list[int], terminal: str) -> bool:
    # Copying a deep stack for every terminal would be slow, and reductions rarely reach far down.
    return _advance(table, states[-64:] if len(states) > 64 else list(states), terminal)


def _advance(table: ParseTable, states: list[int], terminal: str) -> bool:
    """Take one terminal and change the states; return False if it is not acceptable."""
    while True:
        action = table.actions[states[-1]].get(terminal)
        if action is None:
            return False
        if action >= 0:
            states.append(action)
            return True
        name, size, _ = table.rules[~action]
        if size >= len(states):
            return True
        if size:
            del states[-size:]
        states.append(table.gotos[states[-1]][name])
