"""Spans as they are recorded: small rows, which an exporter gives their form later, away from the work."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias

from afl.core.row_maker import row_maker

#: The instrumentation's name in exported spans.
SCOPE: Final = "afl_stream"

AttributeValue: TypeAlias = str | bool | int | float | tuple[str, ...] | tuple[int, ...] | tuple[float, ...]
#: The most links of the span of a batch. A link costs as much as a third of a span, and the records' own spans name
#: the batch's senders anyway.
MAX_LINKS: Final = 8
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


class SpanPair:
    """A span and the one below it that begins where it ends: a handler and its answer, say.

    `shared` are the two texts of the second, by their places among those of the first.
    """

    __slots__ = ("first", "second", "shared")

    def __init__(self, first: SpanTemplate, second: SpanTemplate, shared: tuple[int, int]) -> None:
        self.first = first
        self.second = second
        self.shared = shared


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

    def spans(self) -> tuple[Span, ...]:
        """Return this span, as other rows return theirs."""
        return (self,)


#: Makes a span of all its values, in order: by keyword it takes three times as long.
new_span: Final = row_maker(
    Span, "template", "trace_id", "span_id", "parent_id", "start_ns", "end_ns", "values", "error", "links", "notes"
)


class PlainSpan(NamedTuple):
    """An ended span as nearly all are: below another one, and without errors and links. Exporters are quick with it.

    `ids` are the hexadecimal ids of the trace, the span above, and the span itself, one behind the other; hyphens
    between them are allowed, so a part of a `traceparent` may be the first two. Its values are `texts`, then `number`;
    keys of its template that follow have none. Of a pair, this is the first. The other one's id is the last of `ids`;
    it begins where this one ends, and ends at `second_end_ns`.
    """

    place: SpanTemplate | SpanPair
    ids: str
    start_ns: int
    end_ns: int
    texts: tuple[str, ...]
    number: int | None
    second_end_ns: int = 0

    def spans(self) -> tuple[Span, ...]:
        """Return this span, or both of the pair."""
        place, texts, ids = self.place, self.texts, self.ids.replace("-", "")
        own: tuple[str | int, ...] = texts if self.number is None else (*texts, self.number)
        trace_id, parent_id, span_id = ids[:32], ids[32:48], ids[48:64]
        if isinstance(place, SpanTemplate):
            return (_span(place, trace_id, span_id, parent_id, self.start_ns, self.end_ns, own),)
        shared = tuple([texts[number] for number in place.shared])
        return (
            _span(place.first, trace_id, span_id, parent_id, self.start_ns, self.end_ns, own),
            _span(place.second, trace_id, ids[64:], span_id, self.end_ns, self.second_end_ns, shared),
        )


def _span(
    template: SpanTemplate,
    trace_id: str,
    span_id: str,
    parent_id: str,
    start_ns: int,
    end_ns: int,
    own: tuple[str | int, ...],
) -> Span:
    values = (*own, *[None] * (len(template.keys) - len(own)))
    return Span(template, trace_id, span_id, parent_id, start_ns, end_ns, values)


#: Makes a plain span of all its values, in order.
plain_span: Final = row_maker(
    PlainSpan, "place", "ids", "start_ns", "end_ns", "texts", "number", "second_end_ns"
)  # fmt: skip


class PlainSpans(NamedTuple):
    """Plain spans of one template that begin and end together, by column: exporters are quickest with them.

    Ids are bytes, and so are texts, in UTF-8. `texts` has a column for each of the template's first keys, and `numbers`
    the values of the next one.
    """

    template: SpanTemplate
    trace_ids: Sequence[bytes]
    span_ids: Sequence[bytes]
    parent_ids: Sequence[bytes]
    start_ns: int
    end_ns: int
    texts: tuple[Sequence[bytes], ...]
    numbers: Sequence[int] | None = None

    def spans(self) -> tuple[Span, ...]:
        """Return these spans as others are written."""
        template, traces, own, parents, start_ns, end_ns, texts, numbers = self
        values = zip(*[[text.decode() for text in column] for column in texts], strict=True)
        return tuple(
            _span(
                template,
                trace_id.hex(),
                span_id.hex(),
                parent_id.hex(),
                start_ns,
                end_ns,
                given if number is None else (*given, number),
            )
            for trace_id, span_id, parent_id, given, number in zip(
                traces, own, parents, values, numbers or repeat(None), strict=False
            )
        )


Row: TypeAlias = Span | PlainSpan | PlainSpans
