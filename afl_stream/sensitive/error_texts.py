"""Texts of errors without sensitive values: a handler's exception may quote what it was given."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from afl_stream.sensitive.redaction import REDACTED

#: A shorter value is replaced only where it stands alone: "5" is part of many words.
_SHORT: Final = 4


def hiding(values: Mapping[str, Any], names: Collection[str]) -> Callable[[str], str] | None:
    """Return what replaces the values of these names in a text, with all their parts; None: there is nothing to hide.

    A value is found as a text, as Python shows it, and as JSON writes it. True, false and null are in every text, and
    stay.
    """
    forms = {form for name in names if name in values for part in _parts(values[name]) for form in _forms(part)}
    if not forms:
        return None
    # The longest first: one value may be a part of another.
    pattern = re.compile("|".join(_found(form) for form in sorted(forms, key=len, reverse=True)))
    return lambda text: pattern.sub(REDACTED, text)


def _found(form: str) -> str:
    escaped = re.escape(form)
    is_number = form.lstrip("-").replace(".", "", 1).isdigit()
    return rf"(?<!\w){escaped}(?!\w)" if is_number or len(form) < _SHORT else escaped


def _parts(value: Any) -> Iterator[str | int | float]:
    """Iterate over the texts and numbers in a value of any depth."""
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            left.extend(part.values())
        elif isinstance(part, list | tuple):
            left.extend(part)
        elif isinstance(part, str | int | float) and not isinstance(part, bool):
            yield part


def _forms(part: str | int | float) -> Iterator[str]:
    if isinstance(part, str):
        shown = (part, repr(part)[1:-1], json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1])
        yield from (form for form in shown if form.strip())
    else:
        yield repr(part)
