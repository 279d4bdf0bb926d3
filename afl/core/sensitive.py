"""Patterns that name sensitive parameters: one form for settings, programs, agents and audits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_SHAPE: Final = re.compile(r"[A-Za-z_*?][A-Za-z0-9_*?]*(\.[A-Za-z_*?][A-Za-z0-9_*?]*)*\Z")
#: What such a pattern looks like, for messages.
PATTERN_FORM: Final = "names like shop.Charge.card, *.password or card, separated by commas"


class SensitivePatterns:
    """Patterns of the settings: `shop.Charge.card`, `*.password`, `card`; `*` stands for any characters, `?` for one.

    The part behind the last dot is the name of a parameter or return, the part before it the qualified name of its
    facet, workflow or schema. Without a dot a pattern is for that name everywhere.
    """

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        """Raise ValueError for a text that is not such a pattern."""
        self.texts = tuple(patterns)
        found: list[tuple[re.Pattern[str], re.Pattern[str]]] = []
        for text in self.texts:
            if not _SHAPE.match(text):
                raise ValueError(text)
            owner, _, name = text.rpartition(".")
            found.append((_compiled(owner or "*"), _compiled(name)))
        self._patterns = tuple(found)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def takes(self, owner: str | None, name: str) -> bool:
        """Return whether a name of this owner is sensitive. Without an owner: whether it is for any."""
        return any(
            bool(names.match(name)) and (owner is None or bool(owners.match(owner))) for owners, names in self._patterns
        )


def _compiled(text: str) -> re.Pattern[str]:
    return re.compile("".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in text) + r"\Z", re.DOTALL)


NO_PATTERNS: Final = SensitivePatterns()
