"""Find out from the text in front of a cursor what may be written there."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from afl.grammar.script_bodies import end_of_body
from afl.syntax.comments import Piece, PieceKind, pieces


class Wanted(StrEnum):
    """The kinds of text that may be written at the cursor."""

    NOTHING = "nothing"
    DECLARATION = "declaration"
    STATEMENT = "statement"
    CASE = "case"
    DIRECTIVE = "directive"
    #: Behind a signature or a call: the clauses that may follow.
    TAIL = "tail"
    CALLEE = "callee"
    MIXIN = "mixin"
    YIELD_TARGET = "yield target"
    NAMESPACE = "namespace"
    TYPE = "type"
    ARGUMENT = "argument"
    EXPRESSION = "expression"
    #: Behind `$.` or `$.a.`: `path` holds the words before.
    INPUT = "input"
    #: Behind `s.` in an expression.
    ATTRIBUTE = "attribute"


class _Bracket(StrEnum):
    """The kinds of text that an open bracket encloses."""

    SLOTS = "slots"
    CALL = "call"
    YIELD = "yield"
    VALUES = "values"
    FIELDS = "fields"
    NAMESPACE = "namespace"
    BLOCK = "block"
    CASES = "cases"
    DIRECTIVES = "directives"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call whose arguments are being written: its name, and the arguments so far."""

    name: str
    is_yield: bool
    given: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The kind of text at a cursor; `path` holds the words in front of the last dot."""

    wanted: Wanted
    path: tuple[str, ...] = ()
    call: Call | None = None


@dataclass(slots=True, kw_only=True)
class _Open:
    """An open bracket."""

    kind: _Bracket
    name: str = ""
    start: int = 0
    given: set[str] = field(default_factory=set)


_OPERATORS = frozenset(["+", "-", "*", "/", "%", "++", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "!"])
_WORD_OPERATORS = frozenset(["in", "not", "contains", "startsWith", "endsWith"])
_NOTHING = Cursor(wanted=Wanted.NOTHING)


def cursor_at(before: str) -> Cursor:
    """Return the cursor behind a text."""
    found = pieces(before)
    tokens = [piece for piece in found if not piece.is_comment and piece.kind is not PieceKind.END]
    if _is_inside(found):
        return _NOTHING
    if _is_word(before[-1:]) and tokens and tokens[-1].kind is PieceKind.NUMBER:
        return _NOTHING
    if _is_word(before[-1:]) and tokens and tokens[-1].kind is PieceKind.WORD:
        # The word that is being written.
        tokens.pop()
    path: list[str] = []
    while len(tokens) > 1 and tokens[-1].text == "." and tokens[-2].kind is PieceKind.WORD:
        path.insert(0, tokens[-2].text)
        del tokens[-2:]
    if tokens and tokens[-1].text == ".":
        is_input = len(tokens) > 1 and tokens[-2].text == "$"
        return Cursor(wanted=Wanted.INPUT, path=tuple(path)) if is_input else _NOTHING
    return _cursor(tokens, _brackets(tokens), tuple(path))


def _is_word(text: str) -> bool:
    return text.isalnum() or text == "_"


def _is_inside(found: list[Piece]) -> bool:
    """Say whether the text ends in a comment, a string or a script, where nothing is proposed."""
    last = found[-2] if len(found) > 1 else None
    if last is None:
        return False
    if last.kind is PieceKind.LINE_COMMENT and found[-1].line_ends_before == 0:
        return True
    if last.kind is PieceKind.RAW_BODY and end_of_body(last.text, 0) is None:
        return True
    marks = [piece for piece in found if piece.kind is PieceKind.MARK]
    if any(piece.text == '"' for piece in marks):
        return True
    return any(
        one.text == "/" and other.text in ("*", "**") and (one.line, one.column + 1) == (other.line, other.column)
        for one, other in pairwise(marks)
    )


def _brackets(tokens: list[Piece]) -> list[_Open]:
    """Return the brackets that are still open."""
    stack: list[_Open] = []
    for number, token in enumerate(tokens):
        text = token.text
        if token.kind is not PieceKind.MARK:
            continue
        if text in ("(", "{", "[", "#{"):
            stack.append(_opened(tokens, number))
        elif text in (")", "}", "]"):
            if stack:
                stack.pop()
        elif text == "=" and stack and stack[-1].kind in (_Bracket.CALL, _Bracket.YIELD):
            stack[-1].given.add(tokens[number - 1].text)
    return stack


def _opened(tokens: list[Piece], number: int) -> _Open:
    """Return what a bracket encloses."""
    mark = tokens[number].text
    if mark in ("[", "#{"):
        return _Open(kind=_Bracket.VALUES, start=number)
    name, behind = _name_before(tokens, number)
    before = tokens[behind - 1].text if behind > 0 else ""
    if mark == "{":
        return _Open(kind=_brace(tokens, number, name, before), start=number)
    if before in ("facet", "workflow") or (not name and number and tokens[number - 1].text == "=>"):
        return _Open(kind=_Bracket.SLOTS, start=number)
    if name in ("sys.log", "sys.assert"):
        return _Open(kind=_Bracket.VALUES, start=number)
    if name and before in ("=", "with", "yield"):
        kind = _Bracket.YIELD if before == "yield" else _Bracket.CALL
        return _Open(kind=kind, name=name, start=number)
    return _Open(kind=_Bracket.VALUES, start=number)


def _brace(tokens: list[Piece], number: int, name: str, before: str) -> _Bracket:
    last = tokens[number - 1].text if number else ""
    if last == "when":
        return _Bracket.CASES
    if last == "prompt":
        return _Bracket.DIRECTIVES
    if before == "namespace":
        return _Bracket.NAMESPACE
    if before == "schema" and name:
        return _Bracket.FIELDS
    return _Bracket.BLOCK


def _name_before(tokens: list[Piece], number: int) -> tuple[str, int]:
    """Return the dotted name that ends in front of a token, and where it begins; empty without a name."""
    start = number
    if start and tokens[start - 1].kind is PieceKind.WORD:
        start -= 1
        while start > 1 and tokens[start - 1].text == "." and tokens[start - 2].kind is PieceKind.WORD:
            start -= 2
    return "".join(token.text for token in tokens[start:number]), start


def _cursor(tokens: list[Piece], stack: list[_Open], path: tuple[str, ...]) -> Cursor:
    before = tokens[-1].text if tokens else ""
    top = stack[-1] if stack else None
    if before in ("use", "uses"):
        return Cursor(wanted=Wanted.NAMESPACE, path=path)
    if before in ("namespace", "facet", "workflow", "schema", "implicit", "foreach", "as"):
        return _NOTHING
    if before == "with":
        return Cursor(wanted=Wanted.MIXIN, path=path)
    if before == "yield":
        return Cursor(wanted=Wanted.YIELD_TARGET, path=path)
    if _is_type(tokens, top):
        return Cursor(wanted=Wanted.TYPE, path=path)
    if before == "=" and (top is None or top.kind in (_Bracket.BLOCK, _Bracket.NAMESPACE)):
        return Cursor(wanted=Wanted.CALLEE, path=path)
    if before in ("(", ",") and top is not None and top.kind in (_Bracket.CALL, _Bracket.YIELD):
        call = Call(name=top.name, is_yield=top.kind is _Bracket.YIELD, given=frozenset(top.given))
        return Cursor(wanted=Wanted.ARGUMENT, call=call)
    if _is_expression(tokens, top):
        return Cursor(wanted=Wanted.ATTRIBUTE if path else Wanted.EXPRESSION, path=path)
    return _NOTHING if path else _between(before, top)


def _is_type(tokens: list[Piece], top: _Open | None) -> bool:
    """Say whether a type is written here: behind the colon of a slot or field, or in brackets behind that."""
    number = len(tokens)
    depth = 0
    while number and tokens[number - 1].text == "[":
        number -= 1
        depth += 1
    if not number or tokens[number - 1].text != ":":
        return False
    kind = top.kind if top else None
    if depth:
        # The innermost bracket is the last one.
        stack = _brackets(tokens[:number])
        kind = stack[-1].kind if stack else None
    return kind in (_Bracket.SLOTS, _Bracket.FIELDS)


def _is_expression(tokens: list[Piece], top: _Open | None) -> bool:
    before = tokens[-1].text if tokens else ""
    if before in _OPERATORS or before in _WORD_OPERATORS or before == "case":
        return True
    if top is None:
        return False
    if top.kind in (_Bracket.CALL, _Bracket.YIELD, _Bracket.SLOTS):
        return before == "="
    return top.kind is _Bracket.VALUES and before in ("(", "[", ",", ":", "=")


def _between(before: str, top: _Open | None) -> Cursor:
    """Return what may stand between two constructs."""
    kind = top.kind if top else None
    if kind is _Bracket.CASES:
        return Cursor(wanted=Wanted.CASE)
    if kind is _Bracket.DIRECTIVES:
        return Cursor(wanted=Wanted.DIRECTIVE)
    if kind is _Bracket.BLOCK and before in ("{", "}", ")", ";"):
        return Cursor(wanted=Wanted.STATEMENT)
    if kind in (None, _Bracket.NAMESPACE):
        return Cursor(wanted=Wanted.TAIL if before == ")" else Wanted.DECLARATION)
    return _NOTHING
