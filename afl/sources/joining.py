"""Join several AFL files into one text: the stored form of a library archive or of a namespace spread over files."""

from __future__ import annotations

from collections.abc import Sequence

from afl.errors import AFLError, ParseError
from afl.grammar.lexer import Lexer, Token
from afl.grammar.table import load_table


class NotJoinable(AFLError, ValueError):
    """Files that cannot be joined into a text of the same meaning."""


def joined(texts: Sequence[str]) -> str:
    """Return one text that means the same as all of them.

    A single text stays as it is. Of several, each keeps its lines; a namespace header, which would hold for all text
    that follows, gets braces around its own file. A text that cannot be split into tokens stays as it is: the parser
    reports what is wrong with it. Raises NotJoinable for a file that has a header and a braced namespace.
    """
    if len(texts) == 1:
        return texts[0]
    return "\n".join(_closed(text.removeprefix("\ufeff")) for text in texts)


def _closed(text: str) -> str:
    """Return the text with a braced namespace in place of a header."""
    try:
        tokens = Lexer(load_table()).tokens(text)
    except ParseError:
        return text
    last = _header_end(tokens)
    if last is None:
        return text
    if any(after.text == "namespace" and _opens(tokens, number) for number, after in enumerate(tokens) if number > 0):
        name = "".join(token.text for token in tokens[1 : last + 1])
        raise NotJoinable(
            f"a file with the header `namespace {name}` also opens a namespace with braces; "
            "put braces around the first, or the second into a file of its own"
        )
    lines = text.split("\n")
    line, column = tokens[last].end()
    lines[line - 1] = f"{lines[line - 1][: column - 1]} {{{lines[line - 1][column - 1 :]}"
    # On a line of its own, because the text may end in a line comment.
    return "\n".join(lines) + "\n}"


def _header_end(tokens: Sequence[Token]) -> int | None:
    """Return the position of the last token of a namespace header, or None."""
    if tokens[0].text != "namespace":
        return None
    end = _name_end(tokens, 1)
    return None if end is None or tokens[end + 1].text in ("{", "(") else end


def _opens(tokens: Sequence[Token], number: int) -> bool:
    """Say whether a braced namespace begins here; `namespace` may also be a plain name."""
    end = _name_end(tokens, number + 1)
    return end is not None and tokens[end + 1].text == "{" and tokens[number - 1].text not in (".", "=", "(", ",")


def _name_end(tokens: Sequence[Token], begin: int) -> int | None:
    """Return the position of the last part of a dotted name."""
    if not tokens[begin].text.isidentifier():
        return None
    while tokens[begin + 1].text == "." and tokens[begin + 2].text.isidentifier():
        begin += 2
    return begin
