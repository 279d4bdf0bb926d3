"""A small TextMate engine: line by line, the earliest match wins, of several the first in the list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

Rule = Mapping[str, Any]

#: Grammars of other languages are not looked into.
_FOREIGN = "source.python"


class Token(NamedTuple):
    """A stretch of one line, and its scopes from the outside in, without that of the language."""

    text: str
    scopes: tuple[str, ...]


@dataclass(frozen=True)
class _State:
    """An open begin/end rule."""

    rule: Rule
    scopes: tuple[str, ...]
    content: tuple[str, ...]


class Engine:
    """Tokenises with one grammar."""

    def __init__(self, grammar: Rule) -> None:
        self._grammar = grammar

    def tokens(self, text: str) -> list[Token]:
        """Return the tokens of a text; blanks that have no scope of their own are left out."""
        stack = [_State(self._grammar, (), ())]
        found: list[Token] = []
        for line in text.splitlines(keepends=True):
            found += self._line(line, stack)
        return [token for token in found if token.text.strip()]

    def _line(self, line: str, stack: list[_State]) -> Iterator[Token]:
        position = 0
        while position <= len(line):
            state = stack[-1]
            best = self._earliest(line, position, state)
            if best is None:
                break
            match, rule = best
            yield Token(line[position : match.start()], state.content)
            if rule is None:
                stack.pop()
                yield from _captured(match, state.scopes, state.rule.get("endCaptures"))
            elif "begin" in rule:
                outer = (*state.content, *_names(rule.get("name")))
                yield from _captured(match, outer, rule.get("beginCaptures"))
                stack.append(_State(rule, outer, (*outer, *_names(rule.get("contentName")))))
            else:
                yield from _captured(match, (*state.content, *_names(rule.get("name"))), rule.get("captures"))
            if match.end() == position and rule is not None and "begin" not in rule:
                raise AssertionError(f"{rule} matches nothing at {line[position:]!r}")
            position = match.end()
        yield Token(line[position:], stack[-1].content)

    def _earliest(self, line: str, position: int, state: _State) -> tuple[re.Match[str], Rule | None] | None:
        best: tuple[re.Match[str], Rule | None] | None = None
        if "end" in state.rule:
            end = _compiled(state.rule["end"]).search(line, position)
            best = None if end is None else (end, None)
        for rule in self._rules(state.rule.get("patterns", ())):
            match = _compiled(rule.get("match") or rule["begin"]).search(line, position)
            if match is not None and (best is None or match.start() < best[0].start()):
                best = match, rule
        return best

    def _rules(self, patterns: Sequence[Rule]) -> Iterator[Rule]:
        for pattern in patterns:
            name = pattern.get("include")
            if name is None:
                if "match" in pattern or "begin" in pattern:
                    yield pattern
                else:
                    yield from self._rules(pattern["patterns"])
            elif name != _FOREIGN:
                yield from self._rules([self._grammar["repository"][name.removeprefix("#")]])


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _names(name: str | None) -> tuple[str, ...]:
    return tuple(name.split()) if name else ()


def _captured(match: re.Match[str], scopes: tuple[str, ...], captures: Mapping[str, Rule] | None) -> Iterator[Token]:
    """Return the pieces of a match by its captures, which do not nest in our grammar."""
    if captures and "0" in captures:
        scopes = (*scopes, *_names(captures["0"]["name"]))
    position = match.start()
    for number in sorted(int(key) for key in captures or ()):
        if number and captures and match[number] is not None:
            yield Token(match.string[position : match.start(number)], scopes)
            yield Token(match[number], (*scopes, *_names(captures[str(number)]["name"])))
            position = match.end(number)
    yield Token(match.string[position : match.end()], scopes)
