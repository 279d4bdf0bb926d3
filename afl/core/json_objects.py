"""JSON objects whose keys are each there once: of two, readers would take different ones."""

from __future__ import annotations

from collections.abc import Sequence

#: As much of a key as a message quotes.
_SHOWN_CHARS = 40


class DuplicateKey(ValueError):
    """A JSON object has a key twice."""

    def __init__(self, key: str) -> None:
        shown = key if len(key) <= _SHOWN_CHARS else f"{key[:_SHOWN_CHARS]}..."
        super().__init__(f"the key {shown!r} stands twice in one object")
        self.key = key


def unique_keys(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return an object's members; for `json.loads(object_pairs_hook=...)`. Raises DuplicateKey."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise DuplicateKey(key)
            seen.add(key)
    return found
