"""Redaction: the one place that decides what a person, a log or an audit sees of a sensitive value."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from afl.core.sensitive import NO_PATTERNS, SensitivePatterns
from afl_stream.sensitive.envelope import ERASED, is_sealed
from afl_stream.sensitive.marks import marked_names
from afl_stream.transport import Headers
from afl_stream.wire.messages import (
    ContinueAsNew,
    Event,
    ExternalEvent,
    Lifecycle,
    Message,
    StartWorkflow,
    StepContinue,
    StepUpdate,
)
from afl_stream.wire.schedule_commands import PutSchedule

#: What is shown in the place of a sensitive value, of one that is encrypted, and of one whose key was dropped.
REDACTED: Final = "[sensitive]"
ENCRYPTED: Final = "[encrypted]"
ERASED_TEXT: Final = "[erased]"


#: The library facet that returns the data of an external event.
_WAIT: Final = "afl.WaitForEvent"


class _Values(NamedTuple):
    """Where a record has its values, and what they belong to."""

    field: str
    owner: str | None


_VALUES_OF: Final[Mapping[type, _Values]] = {
    Event: _Values("payload", "event_type"),
    StepContinue: _Values("result", None),
    StepUpdate: _Values("partial", None),
    StartWorkflow: _Values("inputs", "workflow"),
    PutSchedule: _Values("inputs", "workflow"),
    ContinueAsNew: _Values("inputs", None),
    Lifecycle: _Values("outputs", "workflow"),
    ExternalEvent: _Values("value", "name"),
}


class Redaction:
    """What is shown of values: all but the sensitive ones.

    Sensitive is what the caller names (by the marks of a program, or the header of a record), what a pattern of the
    settings takes, and whatever is encrypted.
    """

    def __init__(self, patterns: SensitivePatterns = NO_PATTERNS, *, reveals: bool = False) -> None:
        """With `reveals` nothing is hidden: the caller may see it, and has opened what was encrypted."""
        self.patterns = patterns
        self._reveals = reveals

    def of(self, owner: str | None, values: Mapping[str, Any], names: Collection[str] = ()) -> Mapping[str, Any]:
        """Return values to show: those of a facet or workflow (`owner`; None: it is not known), by name.

        Where the owner is not known, a pattern for that name of any owner hides it. Values of which nothing is hidden
        are returned as they are.
        """
        hidden: dict[str, Any] = {}
        for name, value in values.items():
            shown = self.value(value, is_sensitive=name in names or self._takes(owner, name))
            if shown is not value:
                hidden[name] = shown
        return {**values, **hidden} if hidden else values

    def value(self, value: Any, *, is_sensitive: bool) -> Any:
        """Return one value to show."""
        if value == ERASED:
            return ERASED_TEXT
        if is_sealed(value):
            return ENCRYPTED
        if is_sensitive and not self._reveals:
            return REDACTED
        return _without_sealed(value)

    def message(self, message: Message, headers: Headers = ()) -> Message:
        """Return a record's message to show, by its headers and the settings."""
        found = _VALUES_OF.get(type(message))
        if found is None:
            return message
        values = getattr(message, found.field)
        if isinstance(message, ExternalEvent):
            shown = self.event_value(message.name, values)
        elif values is None:
            return message
        else:
            owner = None if found.owner is None else getattr(message, found.owner)
            if isinstance(message, Lifecycle) and message.step_id is not None:
                owner = message.facet
            shown = self.of(owner, values, marked_names(headers))
        return message if shown is values else replace(message, **{found.field: shown})

    def event_value(self, name: str, value: Any, *, is_sensitive: bool = False) -> Any:
        """Return the data of an external event: a pattern names the event and a key of its data, or `data`."""
        if is_sensitive or self._takes(_WAIT, "data") or self._takes(name, "data"):
            return self.value(value, is_sensitive=True)
        return self.of(name, value) if isinstance(value, Mapping) else self.value(value, is_sensitive=False)

    def hides(self, headers: Headers) -> bool:
        """Return whether the bytes of a record may hold something to hide.

        A pattern may apply anywhere in them.
        """
        return not self._reveals and (bool(marked_names(headers)) or bool(self.patterns))

    def _takes(self, owner: str | None, name: str) -> bool:
        return bool(self.patterns) and self.patterns.takes(owner, name)


#: Types of values that have no parts.
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})


def _without_sealed(value: Any) -> Any:
    """Return a value whose encrypted parts are replaced: a part of it may have been one. It may be of any depth."""
    # A text was looked at before: nearly all values are one of these.
    if type(value) in _PLAIN or not _holds_sealed(value):
        return value
    root: list[Any] = [value]
    left: list[tuple[Any, Any]] = [(root, 0)]
    while left:
        holder, key = left.pop()
        part = holder[key]
        if is_sealed(part):
            holder[key] = ERASED_TEXT if part == ERASED else ENCRYPTED
        elif isinstance(part, Mapping):
            copy = holder[key] = dict(part)
            left.extend((copy, name) for name in copy)
        elif isinstance(part, list | tuple):
            items = holder[key] = list(part)
            left.extend((items, number) for number in range(len(items)))
    return root[0]


def _holds_sealed(value: Any) -> bool:
    left = [value]
    while left:
        part = left.pop()
        if is_sealed(part):
            return True
        if isinstance(part, Mapping):
            left.extend(part.values())
        elif isinstance(part, list | tuple):
            left.extend(part)
    return False
