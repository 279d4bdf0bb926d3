"""Makes one text of several AFL files: what a library archive or a namespace spread over files is stored as."""

from __future__ import annotations

from collections.abc import Sequence

from afl.errors import AFLError, ParseError
from afl.grammar.lexer import Lexer, Token
from afl.grammar.table import load_table


class NotJoinable(AFLError, ValueError):
    """Files that have no common text with the same meaning."""


def joined(texts: Sequence[str]) -> str:
    """Return one text that means the same as all of them.

    A single text stays as it is. Of several, each keeps its lines; a namespace header, which would hold for all that
    follows, gets braces around its own file. A text that cannot be read into tokens stays as it is: the parser will say
    what is wrong with it. Raises NotJoinable for a file that has a header and a braced namespace.
    """
    if len(texts) == 1:
        return texts[0]
    return "\n".join(_closed(text.removeprefix("\ufeff")) for text in texts)


def _closed(text: str) -> str:
    """Return the text with braces in place of a header's reach."""
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
    # On a line of its own: the text may end in a line comment.
    return "\n".join(lines) + "\n}"


def _header_end(tokens: Sequence[Token]) -> int | None:
    """Return the position of the last token of a namespace header, or None."""
    if tokens[0].text != "namespace":
        return None
    end = _name_end(tokens, 1)
    return None if end is None or tokens[end + 1].text in ("{", "(") else end


def _opens(tokens: Sequence[Token], number: int) -> bool:
    """Whether a braced namespace begins here; `namespace` may also be a mere name."""
    end = _name_end(tokens, number + 1)
    return end is not None and tokens[end + 1].text == "{" and tokens[number - 1].text not in (".", "=", "(", ",")


def _name_end(tokens: Sequence[Token], begin: int) -> int | None:
    """Return the position of the last part of a dotted name."""
    if not tokens[begin].text.isidentifier():
        return None
    while tokens[begin + 1].text == "." and tokens[begin + 2].text.isidentifier():
        begin += 2
    return begin
