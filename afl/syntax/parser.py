"""Parses texts into syntax trees: the LALR automaton over the table of the grammar."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afl.ast import Program
from afl.errors import ParseError, SourceMissing, SourceTooLarge, SourceUnreadable
from afl.grammar.lexer import Lexer, Token
from afl.grammar.moves import Moves
from afl.grammar.table import ParseTable, load_table
from afl.source import MAX_SOURCE_BYTES, CompilerInput, FileOrigin, SourceRegistry
from afl.syntax.tree_builder import TreeBuilder

if TYPE_CHECKING:
    from afl.syntax.errors import SyntaxExplainer

Action = Callable[[list[Any], Token, Token], object]


class TextParser:
    """Parses texts. Instances share the parse table, hold no state and may be used from several threads."""

    def __init__(self) -> None:
        self._table, self._lexer = _shared()
        self._moves = _moves()

    def parse(self, source: str, filename: str = "<string>", source_id: str | None = None) -> Program:
        """Return the tree of one text; its locations carry `source_id`.

        Raises ParseError (at the first place that the grammar does not accept); without a source id it names the
        file, if there is one.
        """
        if not isinstance(source, str):
            raise TypeError(f"a source is a text, found {type(source).__name__}")
        known_as = source_id if source_id is not None or filename == "<string>" else filename
        if len(source) > MAX_SOURCE_BYTES:
            raise _too_large(known_as)
        comments: dict[int, Token] = {}
        tokens = self._lexer.tokens(source, known_as, comments)
        before = {(tokens[number].line, tokens[number].column): comment for number, comment in comments.items()}
        return self._run(tokens, TreeBuilder(known_as, before), known_as)

    def parse_file(self, path: str | Path) -> Program:
        """Return the tree of one UTF-8 file; raises SourceUnreadable or ParseError."""
        return self.parse(read_source(path), str(path), FileOrigin(str(path)).to_source_id())

    def parse_sources(self, compiler_input: CompilerInput) -> tuple[Program, SourceRegistry]:
        """Return one tree for all texts, and which origin each source id stands for."""
        programs = [self.parse(entry.text, source_id=entry.source_id) for entry in compiler_input.all_sources]
        return Program.merge(programs), SourceRegistry.from_compiler_input(compiler_input)

    def _run(self, tokens: list[Token], builder: TreeBuilder, source_id: str | None) -> Program:
        """Drive the LALR automaton over the tokens, building the tree on the way."""
        table, moves = self._table, self._moves
        after = moves.after
        rules: list[tuple[int, Action]] = [
            # Productions that hand their only child on are never met here: the moves pass over them.
            (size, getattr(builder, callback or "skip_separator"))
            for _, size, callback in table.rules
        ]
        states = [table.start]
        values: list[Any] = []
        firsts: list[Token] = []  # the first token of each value
        last = tokens[0]
        row = moves[table.start][table.start]
        for token in tokens:
            kind = token[0]
            while True:
                move = row[kind]
                if move is None:
                    # No two tokens are in one place, so that the first equal one is this one.
                    raise _explainer().explain(tokens, tokens.index(token), source_id)
                state, action, row = move
                if action >= 0:
                    states[-1] = state
                    states.append(action)
                    values.append(token)
                    firsts.append(token)
                    last = token
                    break
                rule = ~action
                size, callback = rules[rule]
                if size == 1:
                    values[-1] = callback([values[-1]], firsts[-1], last)
                    states[-1], row = after[states[-2]][rule]
                elif size:
                    value = callback(values[-size:], firsts[-size], last)
                    del states[-size:], values[1 - size :], firsts[1 - size :]
                    values[-1] = value
                    state, row = after[states[-1]][rule]
                    states.append(state)
                else:
                    values.append(callback([], token, token))
                    firsts.append(token)
                    states[-1] = state
                    state, row = after[state][rule]
                    states.append(state)
        program = values[0]
        assert isinstance(program, Program)
        return program


def _too_large(source_id: str | None) -> ParseError:
    from afl.diagnostics import Diagnostic, Severity

    message = f"The text is larger than the {MAX_SOURCE_BYTES:,} bytes that a source may have"
    finding = Diagnostic(
        code="SOURCE_TOO_LARGE",
        severity=Severity.ERROR,
        message=message,
        line=1,
        column=1,
        source_id=source_id,
        hint="split it",
    )
    return ParseError(message, 1, 1, source_id, diagnostic=finding)


def read_source(path: str | Path) -> str:
    """Return the text of a UTF-8 file; raises SourceUnreadable, which says why."""
    try:
        with Path(path).open("rb") as file:
            # No more than that: a device or a pipe has no size and may have no end.
            content = file.read(MAX_SOURCE_BYTES + 1)
    except FileNotFoundError:
        raise SourceMissing(str(path)) from None
    except IsADirectoryError:
        raise SourceUnreadable(str(path), "Wanted a file, this is a directory") from None
    except (OSError, ValueError) as error:
        raise SourceUnreadable(str(path), f"Cannot be read ({getattr(error, 'strerror', None) or error})") from None
    return decode_source(content, str(path))


def decode_source(content: bytes, path: str) -> str:
    """Return UTF-8 bytes as text.

    Raises SourceTooLarge, and SourceUnreadable with the offset of the first wrong byte.
    """
    if len(content) > MAX_SOURCE_BYTES:
        raise SourceTooLarge(path, MAX_SOURCE_BYTES)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SourceUnreadable(path, f"Not UTF-8 (byte 0x{content[error.start]:02x} at offset {error.start})") from None


@cache
def _shared() -> tuple[ParseTable, Lexer]:
    table = load_table()
    return table, Lexer(table)


@cache
def _moves() -> Moves:
    return Moves(_shared()[0])


@cache
def _explainer() -> SyntaxExplainer:
    # Only a text with a mistake pays for the explanation.
    from afl.syntax.errors import SyntaxExplainer

    return SyntaxExplainer(*_shared())
