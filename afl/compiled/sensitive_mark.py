"""The mark of a sensitive parameter, return or field of a compiled program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Tag(Protocol):
    """A tag of a doc comment."""

    @property
    def name(self) -> str: ...


class Comment(Protocol):
    """A doc comment."""

    @property
    def sensitive(self) -> Sequence[Tag]: ...


def mark_sensitive(comment: Comment | None, slots: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mark the slots that a comment's `@sensitive` tags name, and return them.

    It is part of what a program does, unlike the rest of a comment.
    """
    named = {tag.name for tag in comment.sensitive} if comment is not None and comment.sensitive else ()
    for slot in slots:
        if slot["name"] in named:
            slot["sensitive"] = True
    return slots
