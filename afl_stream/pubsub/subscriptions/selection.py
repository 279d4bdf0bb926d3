"""The topics of a subscription: by their names, by a glob, or by a regular expression."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from afl_stream.pubsub.errors import SubscriptionInvalid

#: What Python knows and the regular expressions of Kafka's clients (POSIX extended) do not.
_PYTHON_ONLY: Final = re.compile(r"\(\?|\\[A-Za-z0-9]|[*+?}][?+]")
#: A leading * stands for no name of Kafka's own: those begin with two underscores.
_LEADING_STAR: Final = "(_?[^_].*)?"


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The topics by name, or the pattern that names match: a regular expression from ^ to $."""

    names: tuple[str, ...] = ()
    pattern: str | None = None

    @classmethod
    def of(
        cls, topics: Iterable[str] = (), pattern: str | None = None, regex: str | None = None, *, who: str
    ) -> TopicSelection:
        """Return the selection; `who` subscribes. Raises SubscriptionInvalid unless one of the three is given."""
        if isinstance(topics, str):
            raise SubscriptionInvalid(who, f"topics is a list of names, found the text {topics!r}")
        names = tuple(dict.fromkeys(topics))
        if (bool(names), pattern is not None, regex is not None).count(True) != 1:
            raise SubscriptionInvalid(who, "give topics, or a pattern, or a regex, and only one of them")
        if pattern is not None:
            return cls(pattern=_compiled(regex_of_glob(pattern), f"pattern {pattern!r}", who))
        if regex is not None:
            return cls(pattern=_checked(regex, who))
        return cls(names=names)

    def takes(self, topic: str) -> bool:
        """Return whether the topic is among them."""
        return topic in self.names if self.pattern is None else re.match(self.pattern, topic) is not None

    def __str__(self) -> str:
        return ", ".join(self.names) if self.pattern is None else f"topics that match {self.pattern}"


def regex_of_glob(glob: str) -> str:
    """Return the regular expression of a glob: `*` any text, `?` one character, `[ab]` and `[!ab]` one of or none of.

    A glob that begins with `*` matches no name that begins with two underscores, as those of Kafka's own topics do.
    """
    parts: list[str] = []
    at = 0
    while at < len(glob):
        char = glob[at]
        end = glob.find("]", at + 2) if char == "[" else -1
        if char == "*":
            parts.append(".*" if at else _LEADING_STAR)
        elif char == "?":
            parts.append(".")
        elif end > 0:
            inner = glob[at + 1 : end]
            parts.append(f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]")
            at = end
        else:
            parts.append(char if char.isalnum() or char in "_-" else "\\" + char)
        at += 1
    return f"^{''.join(parts)}$"


def _checked(regex: str, who: str) -> str:
    if found := _PYTHON_ONLY.search(regex):
        raise SubscriptionInvalid(
            who,
            f"regex {regex!r}: brokers and clients know no {found.group()!r}; write [0-9] for \\d, and plain groups",
        )
    named = f"regex {regex!r}"
    inner = _compiled(regex, named, who).removeprefix("^").removesuffix("$")
    # And together: what ends with a $ that is escaped is no longer one without it.
    return _compiled(f"^({inner})$", named, who)


def _compiled(regex: str, named: str, who: str) -> str:
    try:
        re.compile(regex)
    except re.error as error:
        raise SubscriptionInvalid(who, f"{named}: {error}") from error
    return regex
