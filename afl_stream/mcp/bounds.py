"""Bounds of what one call returns, and how the rest is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

#: Characters of a page of text, and about those of a whole result.
PAGE_CHARS: Final = 24_000
#: Characters of JSON of all inputs, or all results, of one step in a list of steps.
STEP_VALUE_CHARS: Final = 1_000
#: Characters of JSON of a run's inputs, or its outputs.
RUN_VALUE_CHARS: Final = 8_000
#: The longest text of one finding, one failure, one remark.
TEXT_CHARS: Final = 2_000
#: Characters of a value of which only the beginning is shown.
_BEGINNING: Final = 200

T = TypeVar("T")


def json_text(value: object) -> str:
    """Return a value as JSON; what is no JSON value as its text."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        # An integer of thousands of digits, or a nesting that no reader takes.
        return json.dumps(f"[a value of type {type(value).__name__} that has no JSON text]")


def value_uri(run_id: str, step_id: str, kind: str, name: str) -> str:
    """Return the address of one value of a run: `kind` is inputs, results or outputs; `-` for the run itself."""
    return f"afl://runs/{quote(run_id, safe='')}/values/{quote(step_id, safe='')}/{kind}/{quote(name, safe='')}"


def bounded_values(values: Mapping[str, Any], limit: int, uri_of: Callable[[str], str]) -> dict[str, Any]:
    """Return values whose JSON together has about `limit` characters: the largest are cut, and say where they are."""
    texts = {name: json_text(value) for name, value in values.items()}
    shown: dict[str, Any] = dict(values)
    total = sum(map(len, texts.values()))
    for name in sorted(texts, key=lambda name: -len(texts[name])):
        if total <= limit or len(texts[name]) <= _BEGINNING:
            break
        total -= len(texts[name]) - _BEGINNING
        shown[name] = {
            "cut": True,
            "chars": len(texts[name]),
            "begins": texts[name][:_BEGINNING],
            "read_all": f"afl_read(uri={json.dumps(uri_of(name))})",
        }
    return shown


def bounded_text(text: str, limit: int = TEXT_CHARS) -> str:
    """Return a text, or its beginning and how much is left out."""
    return text if len(text) <= limit else f"{text[:limit]} ... ({len(text) - limit:,} more characters)"


def page_within(items: Sequence[T], size_of: Callable[[T], int], limit: int = PAGE_CHARS) -> Sequence[T]:
    """Return the first items whose sizes together stay within the limit; one at least."""
    total = 0
    for count, item in enumerate(items):
        total += size_of(item)
        if total > limit and count:
            return items[:count]
    return items


def listed(names: Iterable[str], most: int = 20) -> str:
    """Return names as a text, a long list shortened."""
    found = list(names)
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")
