"""Spans as they are recorded: small rows, which an exporter gives their form later, away from the work."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

from afl.core.row_maker import row_maker

#: The instrumentation's name in exported spans.
SCOPE: Final = "afl_stream"

AttributeValue: TypeAlias = str | bool | int | float | tuple[str, ...] | tuple[int, ...] | tuple[float, ...]
#: The most links of one span, which is what OpenTelemetry's SDK keeps.
MAX_LINKS: Final = 128
#: Another span, by its trace's id and its own.
Link: TypeAlias = tuple[str, str]


class SpanKind(IntEnum):
    """The kinds of OpenTelemetry, with their numbers on the wire."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


class SpanTemplate:
    """What all spans of one place in the code have in common: name, kind, and attributes that do not change.

    `keys` name the attributes whose values each span brings along, in its `values`. Templates are made once: an
    exporter keeps their form by identity.
    """

    __slots__ = ("attributes", "keys", "kind", "name")

    def __init__(
        self, name: str, kind: SpanKind, attributes: dict[str, AttributeValue], keys: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self.kind = kind
        self.attributes = attributes
        self.keys = keys


class SpanEvent(NamedTuple):
    """Something that happened within a span."""

    name: str
    at_ns: int
    attributes: dict[str, Any]


class SpanNotes(NamedTuple):
    """What a handler's own code has added to its span."""

    attributes: dict[str, Any]
    events: list[SpanEvent]
    links: list[Link]
    name: str | None = None


class Span(NamedTuple):
    """One ended span. Ids are hexadecimal; `parent_id` is empty for the first of a trace. Times: ns since the epoch.

    A value that is None is left out. `error`: type and message of what failed.
    """

    template: SpanTemplate
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    values: tuple[AttributeValue | None, ...] = ()
    error: tuple[str, str] | None = None
    links: tuple[Link, ...] = ()
    notes: SpanNotes | None = None


#: Makes a span of all its values, in order: by keyword it takes three times as long.
new_span: Final = row_maker(
    Span, "template", "trace_id", "span_id", "parent_id", "start_ns", "end_ns", "values", "error", "links", "notes"
)
