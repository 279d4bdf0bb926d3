"""Split AFL text into tokens with their places."""

from __future__ import annotations

import re
from typing import NamedTuple

from afl.core.row_maker import row_maker
from afl.core.text.line_ends import with_line_feeds
from afl.diagnostics import Diagnostic, Severity
from afl.errors import ParseError
from afl.grammar.script_bodies import end_of_body, opens_script
from afl.grammar.table import END, ParseTable

_END_GROUP = "END_OF_TEXT"

#: The token of a braced script, whose end no regular expression can find.
RAW_BODY = "RAW_BODY"

#: The kinds of tokens that may hold line ends.
MULTILINE = frozenset(["STRING", RAW_BODY])


class Token(NamedTuple):
    """A terminal with its text and its 1-based place."""

    type: str
    text: str
    line: int
    column: int

    def end(self) -> tuple[int, int]:
        """Return the line and column just behind the token."""
        if self.type in MULTILINE and "\n" in self.text:
            return self.line + self.text.count("\n"), len(self.text) - self.text.rfind("\n")
        return self.line, self.column + len(self.text)


_token = row_maker(Token, "type", "text", "line", "column")


class Lexer:
    """A lexer for the terminals of a parse table."""

    def __init__(self, table: ParseTable) -> None:
        self._types = {**table.punctuation, **table.keywords}
        # Each brace is looked at, because it may open a script.
        self._types.pop("{", None)
        marks = [mark for mark in table.punctuation if mark != "{"]
        # The order is for speed: frequent kinds first. A comment's slash must be tried before the operator's.
        kinds = {
            **dict(sorted(table.patterns.items(), key=_rank)),
            "COMMENT": r"//[^\n]*|/\*(?s:.*?)\*/",
            "OPEN_COMMENT": r"/\*",
            _END_GROUP: r"\Z",
            "STRAY": r"(?s:.)",
        }
        first, *others = (f"(?:{pattern})" for pattern in kinds.values())
        pieces = "|".join([first, _marks_pattern(marks), r"\{", *others])
        # The kind of a piece follows from its text alone, and most texts occur again. So pieces are matched without
        # group names, which is faster, and the kind is looked up once for each text that is no mark.
        self._kinds = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in kinds.items()))
        self._pieces = re.compile(rf"([ \t\f\r\n]*)({pieces})")

    def tokens(
        self, text: str, source_id: str | None = None, doc_comments: dict[int, Token] | None = None
    ) -> list[Token]:
        """Return the tokens of a text, the last one of type `$END`.

        If `doc_comments` is given, doc comments go there under the number of the token that follows; of several in
        front of one token, the last. Raises ParseError at a character that starts no token, and at strings, comments
        and scripts without an end.
        """
        text = with_line_feeds(text)
        found: list[Token] = []
        append = found.append
        types = self._types.copy()
        make = _token
        # A byte order mark is not part of the program, and takes no column.
        position = 1 if text.startswith("\ufeff") else 0
        line = column = 1
        while True:
            for match in self._pieces.finditer(text, position):
                blanks, piece = match.groups()
                if blanks:
                    if "\n" in blanks:
                        line += blanks.count("\n")
                        column = len(blanks) - blanks.rfind("\n")
                    else:
                        column += len(blanks)
                kind = types.get(piece)
                if kind is not None:
                    append(make((kind, piece, line, column)))
                    column += len(piece)
                    continue
                if piece == "{":
                    if opens_script([token[0] for token in found[-5:]]):
                        break
                    append(make(("LBRACE", piece, line, column)))
                    column += 1
                    continue
                kind = self._kind_of(piece)
                if kind == "NAME" or kind == "INT":
                    types[piece] = kind
                    append(make((kind, piece, line, column)))
                elif kind == _END_GROUP:
                    append(Token(END, "", line, column))
                    return found
                elif kind == "COMMENT":
                    if doc_comments is not None and piece.startswith("/**") and len(piece) > 4:
                        doc_comments[len(found)] = Token(kind, piece, line, column)
                elif kind in ("OPEN_COMMENT", "STRAY"):
                    raise _lexical_error(kind, piece, line, column, source_id)
                else:
                    append(Token(kind, piece, line, column))
                if "\n" in piece:
                    line += piece.count("\n")
                    column = len(piece) - piece.rfind("\n")
                else:
                    column += len(piece)
            # A brace opens a script, whose end has rules of its own: continue behind it.
            start = match.start(2)
            end = end_of_body(text, start)
            if end is None:
                raise _lexical_error("BRACE", "{", line, column, source_id)
            script = Token(RAW_BODY, text[start:end], line, column)
            append(script)
            line, column = script.end()
            position = end

    def _kind_of(self, piece: str) -> str:
        kind = self._kinds.match(piece).lastgroup  # type: ignore[union-attr]  # one alternative takes any character
        assert kind is not None  # every alternative is a group
        return kind


def _rank(pattern: tuple[str, str]) -> int:
    """Return the order of the free terminals: names are most frequent, and a double must be tried before an integer."""
    return {"NAME": 0, "STRING": 1, "FLOAT": 2, "INT": 3}[pattern[0]]


def _marks_pattern(marks: list[str]) -> str:
    """Return a pattern for the operators: longest match first, and a character class for unambiguous single ones."""
    alone = [mark for mark in marks if len(mark) == 1 and not any(other[0] == mark for other in marks if other != mark)]
    rest = sorted(set(marks) - set(alone), key=len, reverse=True)
    others = [re.escape(mark) + ("(?![/*])" if mark == "/" else "") for mark in rest]
    singles = "".join(re.escape(mark) for mark in alone if mark != "/")
    return f"[{singles}]|" + "|".join([*others, *(["/(?![/*])"] if "/" in alone else [])])


#: Hints for characters of other languages that AFL does not have.
_STRAY = {
    "?": "a parameter that may be left out has a default: note: String = null",
    "`": 'strings are written "..."; values are joined with ++: "hello " ++ $.name',
    "@": "there are no annotations; what a facet takes over stands behind with: facet Pay() with Retry()",
    "^": "there is no power; multiply, or compute it in a script",
    "~": "a negation is written !",
}


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
        message = f"syntax: found {shown} (U+{ord(piece):04X}), which is not part of the language"
        if piece in "&|":
            hint = f"{'and' if piece == '&' else 'or'} is written {piece * 2}"
        elif piece in _STRAY:
            hint = _STRAY[piece]
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
