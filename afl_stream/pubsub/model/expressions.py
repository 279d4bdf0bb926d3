"""Subscription expressions: which topics must hold events before a node runs.

`a & b` is met when both topics hold events that the node has not taken, `a | b` when one of them does; `&` binds
tighter than `|`. No function here recurses, so an expression may nest to any depth. Expressions are kept in one form:
an AND in an AND is one AND, so that `a & (b & c)` equals `a & b & c`, and likewise for OR.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from afl_stream.pubsub.errors import PubSubError
from afl_stream.pubsub.model.names import described
from afl_stream.pubsub.model.topics import JoinedByWords, Topic

#: Names that an expression's text shows in quotes: the words of its operators, in any case.
_OPERATOR_WORDS: Final = re.compile(r"and|or", re.IGNORECASE)


class ExpressionInvalid(PubSubError):
    """A subscription expression is incomplete, or its text cannot be read."""


class TopicExpression:
    """A subscription: On for one topic, AllOf and AnyOf for several parts."""

    __slots__ = ()

    def is_met(self, has_events: Callable[[str], bool]) -> bool:
        """Return whether the expression holds, by which topics hold events. Asks only as far as it must."""
        raise NotImplementedError

    def __and__(self, other: Topic | TopicExpression) -> TopicExpression:
        return all_of((self, other))

    def __or__(self, other: Topic | TopicExpression) -> TopicExpression:
        return any_of((self, other))

    def __bool__(self) -> bool:
        raise JoinedByWords(f"the expression {self}")

    def __str__(self) -> str:
        return text_of(self)

    def to_dict(self) -> dict[str, object]:
        """Return the expression as JSON: its text, and its topics in their order."""
        return {
            "text": text_of(self),
            "topics": [topic.name for topic in extract_topics(self)],
        }


@dataclass(frozen=True, slots=True)
class On(TopicExpression):
    """Met when the topic holds an event that the node has not taken."""

    topic: Topic

    def is_met(self, has_events: Callable[[str], bool]) -> bool:
        return bool(has_events(self.topic.name))

    def __str__(self) -> str:
        return text_of(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Combined(TopicExpression):
    """Two or more parts under one operator. Equal to another one of the same form, by one walk over both."""

    sign: ClassVar[str]

    parts: tuple[TopicExpression, ...]

    def __post_init__(self) -> None:
        parts = tuple(_flat(type(self), self.parts))
        if len(parts) < 2:
            raise ExpressionInvalid(
                f"a subscription of {len(parts)} topics joined by {self.sign!r}: it joins two or more; "
                "On(topic) subscribes to one"
            )
        object.__setattr__(self, "parts", parts)

    def is_met(self, has_events: Callable[[str], bool]) -> bool:
        #: What is left of each expression around the current one, and the answer that decides that expression.
        around: list[tuple[Iterator[TopicExpression], bool]] = []
        current: TopicExpression = self
        while True:
            while isinstance(current, _Combined):
                parts = iter(current.parts)
                around.append((parts, isinstance(current, AnyOf)))
                current = next(parts)
            met = current.is_met(has_events)
            while around:
                parts, decisive = around[-1]
                following = None if met is decisive else next(parts, None)
                if following is not None:
                    current = following
                    break
                # Decided, or it was the last part: what holds for the part holds for the whole.
                around.pop()
            else:
                return met

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and list(_tokens(self)) == list(_tokens(other))

    def __hash__(self) -> int:
        return hash(tuple(_tokens(self)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {text_of(self)}>"


class AllOf(_Combined):
    """Met when each part is."""

    __slots__ = ()
    sign = "&"


class AnyOf(_Combined):
    """Met when at least one part is."""

    __slots__ = ()
    sign = "|"


def as_expression(subscribed: Topic | TopicExpression) -> TopicExpression:
    """Return the expression for a topic or an expression. Raises ExpressionInvalid for anything else."""
    if isinstance(subscribed, TopicExpression):
        return subscribed
    if isinstance(subscribed, Topic):
        return On(subscribed)
    raise ExpressionInvalid(
        f"a subscription to {described(subscribed)}: a node subscribes to a topic, or to topics joined by & and |"
    )


def all_of(parts: Iterable[Topic | TopicExpression]) -> TopicExpression:
    """Return the expression that is met when each part is; of one part, the part itself."""
    joined = tuple(as_expression(part) for part in parts)
    return joined[0] if len(joined) == 1 else AllOf(joined)


def any_of(parts: Iterable[Topic | TopicExpression]) -> TopicExpression:
    """Return the expression that is met when one part is; of one part, the part itself."""
    joined = tuple(as_expression(part) for part in parts)
    return joined[0] if len(joined) == 1 else AnyOf(joined)


def extract_topics(expression: TopicExpression) -> tuple[Topic, ...]:
    """Return the topics of an expression in their order, each once."""
    return tuple({token.name: token for token in _tokens(expression) if isinstance(token, Topic)}.values())


def with_topics(expression: TopicExpression, topic_of: Callable[[Topic], Topic]) -> TopicExpression:
    """Return the expression with another topic in the place of each."""
    done: list[TopicExpression] = []
    for token in reversed(list(_tokens(expression))):
        if isinstance(token, Topic):
            done.append(On(topic_of(token)))
        else:
            kind, count = token
            done[-count:] = [kind(tuple(reversed(done[-count:])))]
    return done[0]


def text_of(expression: TopicExpression) -> str:
    """Return the text that parses back to the expression, with no parentheses that it can do without."""
    pieces: list[str] = []
    #: What is still to be written, next one last.
    pending: list[TopicExpression | str] = [expression]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            pieces.append(part)
        elif isinstance(part, On):
            name = part.topic.name
            pieces.append(f'"{name}"' if _OPERATOR_WORDS.fullmatch(name) else name)
        elif isinstance(part, _Combined):
            # Only an OR inside an AND needs parentheses: an AND binds tighter, and neither holds one of its own kind.
            for number, inner in enumerate(reversed(part.parts)):
                if number:
                    pending.append(f" {part.sign} ")
                is_loose = isinstance(part, AllOf) and isinstance(inner, AnyOf)
                pending += (")", inner, "(") if is_loose else (inner,)
    return "".join(pieces)


def _flat(kind: type[_Combined], parts: Sequence[TopicExpression]) -> Iterator[TopicExpression]:
    for part in parts:
        if isinstance(part, kind):
            yield from part.parts
        else:
            yield part


def _tokens(expression: TopicExpression) -> Iterator[Topic | tuple[type[_Combined], int]]:
    """Yield an expression from the outside in: each operator with the number of its parts, then these."""
    pending = [expression]
    while pending:
        part = pending.pop()
        if isinstance(part, On):
            yield part.topic
        elif isinstance(part, _Combined):
            yield type(part), len(part.parts)
            pending.extend(reversed(part.parts))
