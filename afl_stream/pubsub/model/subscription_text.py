"""Subscription expressions as text: `a & (b | c)`, with the words `and` and `or` as well.

`&` binds tighter than `|`. A name in double quotes is always a topic: `"and" | b`. The parser keeps its own stack, so a
text may nest to any depth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from afl.core.text.near_names import did_you_mean, near_names
from afl.core.text.printable import printable
from afl_stream.pubsub.model.expressions import ExpressionInvalid, On, TopicExpression, all_of, any_of
from afl_stream.pubsub.model.names import LEGAL_NAME, is_legal
from afl_stream.pubsub.model.topics import NamedTopic, Topic

#: White space, then an operator, a parenthesis, a name in quotes, or a name; anything else is one wrong character.
_TOKEN: Final = re.compile(r'\s*(?:(?P<sign>[&|()])|"(?P<quoted>[^"]*)"|(?P<name>[A-Za-z0-9._-]+)|(?P<wrong>\S))')
_WORDS: Final[Mapping[str, str]] = {"and": "&", "or": "|"}
_NO_TOKEN: Final = "neither a topic's name, nor one of &, |, and, or, ( and )"
_UNCLOSED: Final = "this quote is never closed"
#: Characters of a text that an error shows on either side of the place.
_SHOWN: Final = 40
#: Names that an error lists.
_MOST_NAMES: Final = 10


class _Token(NamedTuple):
    #: A sign, "name", or "" at the end of the text.
    kind: str
    text: str
    position: int


class SubscriptionTextInvalid(ExpressionInvalid):
    """The text of a subscription cannot be read; `position` counts its characters from 0."""

    def __init__(self, text: str, position: int, reason: str) -> None:
        begin = max(0, position - _SHOWN)
        shown = printable(re.sub(r"\s", " ", text[begin:position]), _SHOWN * 10)
        rest = printable(re.sub(r"\s", " ", text[position : position + _SHOWN]), _SHOWN * 10)
        before = ("..." if begin else "") + shown
        after = rest + ("..." if position + _SHOWN < len(text) else "")
        super().__init__(f"a subscription cannot be read: {reason}\n    {before}{after}\n    {' ' * len(before)}^")
        self.text = text
        self.position = position
        self.reason = reason


def parse_subscription(text: str, topics: Iterable[Topic] | None = None) -> TopicExpression:
    """Return the expression of a text. Raises SubscriptionTextInvalid, which shows the place.

    The names are those of `topics`; without any, each is a NamedTopic that the workflow resolves.
    """
    known = None if topics is None else {topic.name: topic for topic in topics}
    #: The groups of each open parenthesis, the outermost first: joined by OR, their operands by AND.
    open_groups: list[list[list[TopicExpression]]] = [[[]]]
    opened_at: list[int] = []
    has_operand = False
    for token in _tokens(text):
        if token.kind in ("name", "("):
            if has_operand:
                raise SubscriptionTextInvalid(text, token.position, "& or | stands between two topics")
            if token.kind == "(":
                open_groups.append([[]])
                opened_at.append(token.position)
            else:
                open_groups[-1][-1].append(On(_topic(text, token, known)))
                has_operand = True
            continue
        if not has_operand:
            raise SubscriptionTextInvalid(text, token.position, f"a topic stands here, not {_shown(token)}")
        if token.kind == "|":
            open_groups[-1].append([])
        if token.kind in ("&", "|"):
            has_operand = False
        elif token.kind == ")":
            if not opened_at:
                raise SubscriptionTextInvalid(text, token.position, "no parenthesis is open here")
            opened_at.pop()
            inner = _joined(open_groups.pop())
            open_groups[-1][-1].append(inner)
    if opened_at:
        raise SubscriptionTextInvalid(text, opened_at[-1], "this parenthesis is never closed")
    return _joined(open_groups[0])


def _joined(groups: list[list[TopicExpression]]) -> TopicExpression:
    return any_of([all_of(group) for group in groups])


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the tokens of a text, and one for its end."""
    end = 0
    while (match := _TOKEN.match(text, end)) is not None:
        end = match.end()
        kind = match.lastgroup or ""
        found = match[kind]
        position = match.start(kind)
        if kind == "wrong":
            raise SubscriptionTextInvalid(text, position, _UNCLOSED if found == '"' else _NO_TOKEN)
        if kind == "sign":
            yield _Token(found, found, position)
        elif kind == "name" and found.lower() in _WORDS:
            yield _Token(_WORDS[found.lower()], found, position)
        else:
            yield _Token("name", found, position)
    yield _Token("", "", len(text.rstrip()))


def _topic(text: str, token: _Token, known: Mapping[str, Topic] | None) -> Topic:
    if not is_legal(token.text):
        raise SubscriptionTextInvalid(text, token.position, f"a topic's name has {LEGAL_NAME}, and is not '.' or '..'")
    if known is None:
        return NamedTopic(token.text)
    if (topic := known.get(token.text)) is not None:
        return topic
    near = did_you_mean(near_names(token.text, list(known)))
    names = ", ".join(sorted(known)[:_MOST_NAMES]) + (", ..." if len(known) > _MOST_NAMES else "")
    hint = near or (f"the topics are {names}" if known else "there are no topics")
    raise SubscriptionTextInvalid(text, token.position, f"there is no topic {token.text}; {hint}")


def _shown(token: _Token) -> str:
    return repr(token.text) if token.text else "the end"
