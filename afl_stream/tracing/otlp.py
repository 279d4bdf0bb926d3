"""Spans as OTLP writes them: protobuf messages, built from what is made once for each place in the code.

The messages are those of opentelemetry-proto (trace/v1/trace.proto, common/v1/common.proto); a test reads them with
its classes. A protobuf message is the concatenation of its fields, so the bytes that all spans of a template share are
put together once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Any, Final

from afl_stream.tracing.spans import Span, SpanTemplate

#: trace_id (1), span_id (2), start (7), end (8): tags and lengths are single bytes.
_FIXED: Final = Struct("<2s16s2s8scQcQ").pack
_TRACE_TAG, _SPAN_TAG, _PARENT_TAG, _START_TAG, _END_TAG = b"\x0a\x10", b"\x12\x08", b"\x22\x08", b"\x39", b"\x41"
#: Tags of a message's fields, of wire type 2: a length, and so many bytes.
_ATTRIBUTES, _EVENTS, _LINKS, _STATUS = b"\x4a", b"\x5a", b"\x6a", b"\x7a"
_STATUS_ERROR: Final = b"\x18\x02"


def varint(number: int) -> bytes:
    """Return a number that is not negative as protobuf writes it."""
    if number < 0x80:
        return b"%c" % number
    if number < 0x4000:
        return b"%c%c" % (number & 0x7F | 0x80, number >> 7)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


#: The lengths that occur.
_LENGTHS: Final = [varint(number) for number in range(2_048)]


def _sized(content: bytes) -> bytes:
    length = len(content)
    return (_LENGTHS[length] if length < 2_048 else varint(length)) + content


def field(tag: bytes, content: bytes) -> bytes:
    """Return a field of a text, of bytes or of a message."""
    return tag + _sized(content)


def any_value(value: object) -> bytes:
    """Return an AnyValue; what OTLP has no form for is written as its text."""
    if isinstance(value, str):
        return field(b"\x0a", value.encode("utf-8", "replace"))
    if isinstance(value, bool):
        return b"\x10" + (b"\x01" if value else b"\x00")
    if isinstance(value, int):
        return b"\x18" + varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    if isinstance(value, float):
        return b"\x21" + _DOUBLE(value)
    if isinstance(value, list | tuple):
        return field(b"\x2a", b"".join(field(b"\x0a", any_value(item)) for item in value))
    return any_value(str(value))


_DOUBLE: Final = Struct("<d").pack


def attributes(tag: bytes, values: Mapping[str, object]) -> bytes:
    """Return fields of KeyValue."""
    return b"".join(
        field(tag, field(b"\x0a", key.encode()) + field(b"\x12", any_value(value)))
        for key, value in values.items()
        if value is not None
    )


#: Forms of spans that are kept: places in the code, times lengths of ids and keys.
_MOST_SHAPES: Final = 4_096


def _literal(text: bytes) -> bytes:
    return text.replace(b"%", b"%%")


class SpanEncoder:
    """Encodes the spans of one process. Belongs to one thread."""

    def __init__(self, resource: Mapping[str, object], scope: str, version: str) -> None:
        self._resource = field(b"\x0a", attributes(b"\x0a", resource))
        self._scope = field(b"\x0a", field(b"\x0a", scope.encode()) + field(b"\x12", version.encode()))
        #: What all spans of a template share, and the key of each attribute of their own.
        self._templates: dict[SpanTemplate, tuple[bytes, tuple[bytes, ...]]] = {}
        #: Spans with holes, by template and the lengths of their values.
        self._shapes: dict[tuple[Any, ...], bytes] = {}

    def request(self, spans: Iterable[Span]) -> bytes:
        """Return an ExportTraceServiceRequest."""
        parts: list[bytes] = []
        from_hex, shapes = bytes.fromhex, self._shapes
        start_ns = end_ns = -1
        times = b"", b""
        for span in spans:
            template, trace_id, span_id, parent_id, started_ns, ended_ns, values, error, links, notes = span
            if error is not None or notes is not None or links or not parent_id:
                parts.append(field(b"\x12", self._span(span)))
                continue
            shape: list[Any] = [template]
            holes: list[bytes] = []
            for value in values:
                if value.__class__ is str:
                    text = value.encode("utf-8", "replace")
                    shape.append(len(text))
                elif value is None:
                    shape.append(None)
                    continue
                else:
                    if value.__class__ is int and 0x3FFF < value < 0x20_0000:
                        # An offset, mostly.
                        text = b"\x18%c%c%c" % (value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14)
                    else:
                        text = any_value(value)
                    shape.append(-len(text))
                holes.append(text)
            known = tuple(shape)
            form = shapes.get(known)
            if form is None:
                form = self._shape(known)
            if started_ns != start_ns or ended_ns != end_ns:
                start_ns, end_ns = started_ns, ended_ns
                times = start_ns.to_bytes(8, "little"), end_ns.to_bytes(8, "little")
            parts.append(form % (from_hex(trace_id), from_hex(span_id), *times, from_hex(parent_id), *holes))
        return field(b"\x0a", self._resource + field(b"\x12", self._scope + b"".join(parts)))

    def _shape(self, shape: tuple[Any, ...]) -> bytes:
        """Return a span of a request with holes: for ids, times, and values of these lengths.

        A length is negative where the value is a message already.
        """
        template, *lengths = shape
        shared, keys = self._template(template)
        content = _literal(shared) + b"\x0a\x10%b\x12\x08%b\x39%b\x41%b\x22\x08%b"
        size = len(shared) + 18 + 10 + 9 + 9 + 10
        for key, length in zip(keys, lengths, strict=True):
            if length is None:
                continue
            value = b"\x0a" + varint(length) if length >= 0 else b""
            inner = varint(len(value) + abs(length))
            outer = varint(len(key) + 1 + len(inner) + len(value) + abs(length))
            head = _ATTRIBUTES + outer + key + b"\x12" + inner + value
            content += _literal(head) + b"%b"
            size += len(head) + abs(length)
        if len(self._shapes) >= _MOST_SHAPES:
            self._shapes.clear()
        form = self._shapes[shape] = b"\x12" + _literal(varint(size)) + content
        return form

    def _template(self, template: SpanTemplate) -> tuple[bytes, tuple[bytes, ...]]:
        known = self._templates.get(template)
        if known is None:
            shared = field(b"\x2a", template.name.encode()) + b"\x30" + varint(template.kind)
            shared += attributes(_ATTRIBUTES, template.attributes)
            keys = tuple(field(b"\x0a", key.encode()) for key in template.keys)
            known = self._templates[template] = (shared, keys)
        return known

    def _span(self, span: Span) -> bytes:
        template, trace_id, span_id, parent_id, start_ns, end_ns, values, error, links, notes = span
        shared, keys = self._template(template)
        parts = [
            shared,
            _FIXED(
                _TRACE_TAG, bytes.fromhex(trace_id), _SPAN_TAG, bytes.fromhex(span_id),
                _START_TAG, start_ns, _END_TAG, end_ns,
            ),
        ]  # fmt: skip
        if parent_id:
            parts.append(_PARENT_TAG + bytes.fromhex(parent_id))
        for key, value in zip(keys, values, strict=True):
            if value.__class__ is str:
                text = value.encode("utf-8", "replace")
                size, length = len(key), len(text)
                if size + length < 122:
                    # All lengths are single bytes.
                    parts.append(b"\x4a%c%b\x12%c\x0a%c%b" % (size + length + 4, key, length + 2, length, text))
                    continue
            if value is not None:
                parts.append(field(_ATTRIBUTES, key + field(b"\x12", any_value(value))))
        if error is not None:
            kind, message = error
            parts.append(attributes(_ATTRIBUTES, {"error.type": kind}))
            parts.append(field(_STATUS, field(b"\x12", message.encode("utf-8", "replace")) + _STATUS_ERROR))
        for linked_trace, linked_span in links:
            ids = bytes.fromhex(linked_trace), bytes.fromhex(linked_span)
            parts.append(b"\x6a\x1c\x0a\x10%b\x12\x08%b" % ids)
        if notes is not None:
            parts += _noted(notes)
        return b"".join(parts)


def _noted(notes: Any) -> Sequence[bytes]:
    parts = [attributes(_ATTRIBUTES, notes.attributes)]
    if notes.name is not None:
        # The last of two values of a field counts.
        parts.append(field(b"\x2a", notes.name.encode("utf-8", "replace")))
    for name, at_ns, given in notes.events:
        named = b"\x09" + at_ns.to_bytes(8, "little") + field(b"\x12", name.encode("utf-8", "replace"))
        parts.append(field(_EVENTS, named + attributes(b"\x1a", given)))
    for trace_id, span_id in notes.links:
        parts.append(field(_LINKS, b"\x0a\x10" + bytes.fromhex(trace_id) + b"\x12\x08" + bytes.fromhex(span_id)))
    return parts
