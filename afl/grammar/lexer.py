"""Turns AFL text into tokens with their places."""

from __future__ import annotations

import re
from typing import NamedTuple

from afl.diagnostics import Diagnostic, Severity
from afl.errors import ParseError
from afl.grammar.script_bodies import end_of_body, opens_script
from afl.grammar.table import END, ParseTable

_END_GROUP = "END_OF_TEXT"

#: The token of a script in braces, which no regular expression can find the end of.
RAW_BODY = "RAW_BODY"

#: The kinds of token that may hold line ends.
MULTILINE = frozenset(["STRING", RAW_BODY])


class Token(NamedTuple):
    """A terminal with its text and its place (1-based)."""

    type: str
    text: str
    line: int
    column: int

    def end(self) -> tuple[int, int]:
        """Return line and column just behind the token."""
        if self.type in MULTILINE and "\n" in self.text:
            return self.line + self.text.count("\n"), len(self.text) - self.text.rfind("\n")
        return self.line, self.column + len(self.text)


class Lexer:
    """A lexer for the terminals of a parse table."""

    def __init__(self, table: ParseTable) -> None:
        self._types = {**table.punctuation, **table.keywords}
        marks = [mark for mark in table.punctuation if mark != "{"]
        # Order is speed: the frequent kinds first. A comment's slash must be tried before the operator's.
        named = [f"(?P<{name}>{pattern})" for name, pattern in sorted(table.patterns.items(), key=_rank)]
        self._pattern = re.compile(
            r"[ \t\f\r]*(?:"
            + "|".join(
                [
                    named[0],
                    rf"(?P<MARK>{_marks_pattern(marks)})",
                    r"(?P<LINE_END>\n[ \t\f\r\n]*)",
                    r"(?P<BRACE>\{)",
                    *named[1:],
                    r"(?P<COMMENT>//[^\n]*|/\*(?s:.*?)\*/)",
                    r"(?P<OPEN_COMMENT>/\*)",
                    rf"(?P<{_END_GROUP}>\Z)",
                    r"(?P<STRAY>(?s:.))",
                ]
            )
            + ")"
        )

    def tokens(
        self, text: str, source_id: str | None = None, doc_comments: dict[int, Token] | None = None
    ) -> list[Token]:
        """Return the tokens of a text, the last one of type `$END`.

        Doc comments are put into `doc_comments`, if it is given, by the number of the token that follows: of several
        in front of one token, the last. Raises ParseError at a character that starts no token, and at strings,
        comments and scripts that never end.
        """
        found: list[Token] = []
        append = found.append
        types = self._types
        make = tuple.__new__  # what Token(...) comes down to, at half its cost
        line = 1
        # A byte order mark is not part of the program, and takes no column.
        position = line_start = 1 if text.startswith("\ufeff") else 0
        while True:
            for match in self._pattern.finditer(text, position):
                kind: str = match.lastgroup  # type: ignore[assignment]  # every alternative is a group
                piece = match[kind]
                start = match.end() - len(piece)
                if kind == "NAME" or kind == "MARK":
                    append(make(Token, (types.get(piece, kind), piece, line, start - line_start + 1)))
                elif kind == "LINE_END":
                    line += piece.count("\n")
                    line_start = start + piece.rfind("\n") + 1
                elif kind == "BRACE" and not opens_script([token.type for token in found[-5:]]):
                    append(make(Token, ("LBRACE", piece, line, start - line_start + 1)))
                elif kind == _END_GROUP:
                    append(Token(END, "", line, start - line_start + 1))
                    return found
                else:
                    place = line, start - line_start + 1
                    if kind in ("OPEN_COMMENT", "STRAY"):
                        raise _lexical_error(kind, piece, *place, source_id)
                    if kind == "BRACE":
                        end = end_of_body(text, start)
                        if end is None:
                            raise _lexical_error(kind, piece, *place, source_id)
                        position, piece = end, text[start:end]
                        append(Token(RAW_BODY, piece, *place))
                    elif kind != "COMMENT":
                        append(Token(kind, piece, *place))
                    elif doc_comments is not None and piece.startswith("/**") and len(piece) > 4:
                        doc_comments[len(found)] = Token(kind, piece, *place)
                    if "\n" in piece:
                        line += piece.count("\n")
                        line_start = start + piece.rfind("\n") + 1
                    if kind == "BRACE":
                        break  # go on behind the script


def _rank(pattern: tuple[str, str]) -> int:
    """Return the order of the free terminals: names are most frequent, and a double must be tried before an integer."""
    return {"NAME": 0, "STRING": 1, "FLOAT": 2, "INT": 3}[pattern[0]]


def _marks_pattern(marks: list[str]) -> str:
    """Return a pattern for the operators: longest match, and a character class for those that begin no longer one."""
    alone = [mark for mark in marks if len(mark) == 1 and not any(other[0] == mark for other in marks if other != mark)]
    rest = sorted(set(marks) - set(alone), key=len, reverse=True)
    others = [re.escape(mark) + ("(?![/*])" if mark == "/" else "") for mark in rest]
    singles = "".join(re.escape(mark) for mark in alone if mark != "/")
    return f"[{singles}]|" + "|".join([*others, *(["/(?![/*])"] if "/" in alone else [])])


def _lexical_error(kind: str, piece: str, line: int, column: int, source_id: str | None) -> ParseError:
    hint = None
    width = 1
    if kind == "OPEN_COMMENT":
        message, width = "syntax: this comment is never closed", 2
        hint = "end it with */"
    elif kind == "BRACE":
        message = "syntax: this script is never closed"
        hint = "end it with }; braces in Python's strings and comments do not count, and an open string hides them"
    elif piece == '"':
        message = "syntax: this string is never closed"
        hint = 'end it with "; a quote inside is written \\"'
    elif piece == "'":
        message = "syntax: found `'`, wanted a string in double quotes"
        hint = 'strings are written "..."'
    elif piece == "#":
        message = "syntax: found `#`, which starts nothing here"
        hint = "a map is written #{key: value}, a comment // ..."
    else:
        shown = f"`{piece}`" if piece.isprintable() else "a control character"
        message = f"syntax: found {shown} (U+{ord(piece):04X}), which is no part of the language"
        if piece in "&|":
            hint = f"{'and' if piece == '&' else 'or'} is written {piece * 2}"
        elif piece.isalpha():
            hint = "names consist of the letters A-Z and a-z, digits and _"
    return ParseError(
        message,
        line,
        column,
        source_id,
        diagnostic=Diagnostic(
            code="PARSE_ERROR",
            severity=Severity.ERROR,
            message=message,
            line=line,
            column=column,
            end_line=line,
            end_column=column + width,
            source_id=source_id,
            hint=hint,
        ),
    )
