"""Read the tokens of a text one by one, and turn the taken ones into documents."""

from __future__ import annotations

from collections.abc import Sequence

from afl.formatting.layout import Code, Line, Text
from afl.formatting.tokens import Token
from afl.syntax.comments import PieceKind

SPACE = Text(" ")
#: A gap that is a blank on one line.
GAP = Line()


class UnknownConstruct(Exception):
    """A token that no rule of the arranger expects."""

    def __init__(self, token: Token) -> None:
        super().__init__(f"did not expect `{token.text}` here" if token.text else "the text ends too early")
        self.line = token.line


class TokenReader:
    """A place in the tokens of a text, the last of which is its end."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        # The reader looks at most two tokens ahead, so the end token is there three times.
        self._tokens = [*tokens, tokens[-1], tokens[-1]]
        self._at = 0
        self._now = self._tokens[0]

    @property
    def _next(self) -> Token:
        return self._tokens[self._at + 1]

    def _sees(self, text: str) -> bool:
        # A string keeps its quotes here, so that it is never mistaken for another token.
        return self._now.text == text

    def _name(self, *, own_line: bool = False) -> Code:
        if self._now.kind is not PieceKind.WORD:
            raise UnknownConstruct(self._now)
        return self._take(own_line=own_line)

    def _take(self, text: str | None = None, *, own_line: bool = False) -> Code:
        """Take the next token, which must read `text` if that is given; `own_line` as in Code."""
        token = self._now
        if token.kind is PieceKind.END or (text is not None and token.text != text):
            raise UnknownConstruct(token)
        self._at += 1
        self._now = self._tokens[self._at]
        return Code(token, own_line)
