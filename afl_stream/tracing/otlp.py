"""Spans as OTLP writes them: protobuf messages, built from what is made once for each place in the code.

The messages are those of opentelemetry-proto (trace/v1/trace.proto, common/v1/common.proto); a test reads them with
its classes. A protobuf message is the concatenation of its fields, so the bytes that all spans of a template share are
put together once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat, starmap
from struct import Struct, calcsize
from typing import Any, Final, NamedTuple

from afl_stream.tracing.spans import PlainSpan, PlainSpans, Row, Span, SpanPair, SpanTemplate

#: trace_id (1), span_id (2), start (7), end (8): tags and lengths are single bytes.
_FIXED: Final = Struct("<2s16s2s8scQcQ").pack
#: The ids of a plain span, and of a pair of them: trace, parent, own, and the second's.
_SINGLE_IDS, _PAIR_IDS = Struct("16s8s8s"), Struct("16s8s8s8s")
_TRACE_TAG, _SPAN_TAG, _PARENT_TAG, _START_TAG, _END_TAG = b"\x0a\x10", b"\x12\x08", b"\x22\x08", b"\x39", b"\x41"
#: Tags of a message's fields, of wire type 2: a length, and so many bytes.
_ATTRIBUTES, _EVENTS, _LINKS, _STATUS = b"\x4a", b"\x5a", b"\x6a", b"\x7a"
#: A link, with holes for the ids of the other trace and span.
_LINK: Final = _LINKS + b"\x1c\x0a\x10%b\x12\x08%b"
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
_MOST_FORMS: Final = 4_096


class _Form(NamedTuple):
    """The bytes of a plain span, or of both of a pair, whose values have certain lengths.

    They are packed by `pack` from `arguments`: constant bytes, again and again, and between them places for the columns
    of ids, times and values.
    """

    pack: Callable[..., bytes]
    arguments: list[Iterable[Any]]


class SpanEncoder:
    """Encodes the spans of one process. Threads may share it: what it keeps is the same whoever makes it."""

    def __init__(self, resource: Mapping[str, object], scope: str, version: str) -> None:
        self._resource = field(b"\x0a", attributes(b"\x0a", resource))
        self._scope = field(b"\x0a", field(b"\x0a", scope.encode()) + field(b"\x12", version.encode()))
        #: What all spans of a template share, and the key of each attribute of their own.
        self._templates: dict[SpanTemplate, tuple[bytes, tuple[bytes, ...]]] = {}
        #: By template or pair, whether the last value is a number, and the lengths of values.
        self._forms: dict[tuple[SpanTemplate | SpanPair, bool, tuple[int, ...]], _Form] = {}

    def request(self, parts: Sequence[bytes]) -> bytes:
        """Return an ExportTraceServiceRequest of encoded spans."""
        size = len(self._scope) + sum(map(len, parts))
        of_scope = b"\x12" + varint(size)
        whole = len(self._resource) + len(of_scope) + size
        # One copy: the spans of a request are a megabyte.
        return b"".join((b"\x0a", varint(whole), self._resource, of_scope, self._scope, *parts))

    def encoded(self, rows: Sequence[Row]) -> tuple[bytes, int]:
        """Return spans as their scope holds them, one after the other in any order, and their number."""
        found: list[bytes] = []
        plain: dict[SpanTemplate | SpanPair, list[PlainSpan]] = {}
        count = 0
        for row in rows:
            if isinstance(row, PlainSpan):
                place = row[0]
                if place in plain:
                    plain[place].append(row)
                else:
                    plain[place] = [row]
            elif isinstance(row, PlainSpans):
                count += self._add_columns(row, found)
            else:
                found.append(field(b"\x12", self._span(row)))
                count += 1
        for place, of_place in plain.items():
            count += self._add_rows(place, of_place, found)
        return b"".join(found), count

    def _add_columns(self, spans: PlainSpans, found: list[bytes]) -> int:
        template, traces, own, parents, start_ns, end_ns, texts, numbers = spans
        count = len(traces)
        values = list(texts) if numbers is None else [*texts, _varints(numbers)]
        times = [start_ns] * count, [end_ns] * count
        self._add(template, numbers is not None, [traces, own, *times, parents, *values], values, found)
        return count

    def _add_rows(self, place: SpanTemplate | SpanPair, rows: Sequence[PlainSpan], found: list[bytes]) -> int:
        _, ids, starts, ends, texts, numbers, second_ends = zip(*rows, strict=True)
        has_numbers = None not in numbers
        if not has_numbers and numbers.count(None) < len(rows):
            return sum([self._add_rows(place, [row], found) for row in rows])
        values: list[Sequence[bytes]] = [_encoded_texts(column) for column in zip(*texts, strict=True)]
        shared = values
        if has_numbers:
            values = [*values, _varints(numbers)]
        # All ids at once: each by itself takes as long as packing a span.
        raw = bytes.fromhex("".join(ids).replace("-", ""))
        if isinstance(place, SpanTemplate):
            traces, parents, own = zip(*_SINGLE_IDS.iter_unpack(raw), strict=True)
            self._add(place, has_numbers, [traces, own, starts, ends, parents, *values], values, found)
            return len(rows)
        traces, parents, own, second = zip(*_PAIR_IDS.iter_unpack(raw), strict=True)
        one, other = place.shared
        columns = [
            traces, own, starts, ends, parents, *values,
            traces, second, ends, second_ends, own, shared[one], shared[other],
        ]  # fmt: skip
        self._add(place, has_numbers, columns, values, found)
        return 2 * len(rows)

    def _add(
        self,
        place: SpanTemplate | SpanPair,
        has_numbers: bool,
        columns: Sequence[Sequence[Any]],
        values: Sequence[Sequence[bytes]],
        found: list[bytes],
    ) -> None:
        """Add plain spans, given by column in the order of their form: spans whose values are as long have one form."""
        shapes = list(zip(*[map(len, column) for column in values], strict=True))
        if len(set(shapes)) <= 1:
            self._pack(place, has_numbers, shapes[0] if shapes else (), columns, found)
            return
        by_shape: dict[tuple[int, ...], list[int]] = {}
        for number, shape in enumerate(shapes):
            by_shape.setdefault(shape, []).append(number)
        for shape, chosen in by_shape.items():
            self._pack(place, has_numbers, shape, [[column[each] for each in chosen] for column in columns], found)

    def _pack(
        self,
        place: SpanTemplate | SpanPair,
        has_numbers: bool,
        shape: tuple[int, ...],
        columns: Sequence[Sequence[Any]],
        found: list[bytes],
    ) -> None:
        key = place, has_numbers, shape
        pack, arguments = self._forms.get(key) or self._form(key)
        whole = arguments.copy()
        whole[1::2] = columns
        found += starmap(pack, zip(*whole, strict=False))

    def _form(self, key: tuple[SpanTemplate | SpanPair, bool, tuple[int, ...]]) -> _Form:
        place, has_numbers, lengths = key
        if isinstance(place, SpanTemplate):
            pieces = self._pieces(place, lengths, has_number=has_numbers)
        else:
            pieces = self._pieces(place.first, lengths, has_number=has_numbers)
            pieces += self._pieces(place.second, [lengths[shared] for shared in place.shared], has_number=False)
        packed = Struct("<" + "".join([f"{len(constant)}s{value}" for constant, value in pieces]))
        arguments: list[Iterable[Any]] = [each for constant, _ in pieces for each in (repeat(constant), ())]
        if len(self._forms) >= _MOST_FORMS:
            self._forms.clear()
        form = self._forms[key] = _Form(packed.pack, arguments)
        return form

    def _pieces(self, template: SpanTemplate, lengths: Sequence[int], *, has_number: bool) -> list[tuple[bytes, str]]:
        """Return a plain span as constants, each with the form of the value behind it, as `struct` names it.

        Its values are texts of these lengths; the last one is a number's bytes if it has one.
        """
        shared, keys = self._template(template)
        pieces = [
            (shared + _TRACE_TAG, "16s"),
            (_SPAN_TAG, "8s"),
            (_START_TAG, "Q"),
            (_END_TAG, "Q"),
            (_PARENT_TAG, "8s"),
        ]
        # Keys that follow have no value.
        for place, (key, length) in enumerate(zip(keys, lengths, strict=False), 1):
            is_number = has_number and place == len(lengths)
            head = b"\x18" if is_number else b"\x0a" + varint(length)
            pieces.append((_key_and_head(key, head, length), f"{length}s"))
        size = sum([len(constant) + calcsize(f"<{value}") for constant, value in pieces])
        first, form = pieces[0]
        return [(b"\x12" + varint(size) + first, form), *pieces[1:]]

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
        if links:
            ids = tuple([bytes.fromhex(linked) for link in links for linked in link])
            parts.append(_LINK * len(links) % ids)
        if notes is not None:
            parts += _noted(notes)
        return b"".join(parts)


def _key_and_head(key: bytes, head: bytes, length: int) -> bytes:
    """Return an attribute up to its content, which has this length; `head` comes before that in its AnyValue."""
    value = varint(len(head) + length)
    return _ATTRIBUTES + varint(len(key) + 1 + len(value) + len(head) + length) + key + b"\x12" + value + head


def _encoded_texts(texts: Sequence[str]) -> list[bytes]:
    try:
        return [text.encode() for text in texts]
    except UnicodeEncodeError:
        return [text.encode("utf-8", "replace") for text in texts]


#: The first byte of a number that has more of them.
_FIRST_BYTES: Final = [b"%c" % (number | 128) for number in range(128)]


def _varints(numbers: Sequence[int]) -> list[bytes]:
    """Return numbers as protobuf writes them. Few lengths mean few forms: some end with bytes that are zero."""
    return [_FIRST_BYTES[number & 127] + _rest(number >> 7) for number in numbers]


@lru_cache(maxsize=1_024)  # Offsets of one batch follow each other.
def _rest(number: int) -> bytes:
    """Return the bytes behind the first one of a number, of which that has taken seven bits."""
    if 0 <= number < 1 << 14:
        return b"%c%c" % (number & 127 | 128, number >> 7)
    if 0 <= number < 1 << 28:
        return bytes((*[number >> shift & 127 | 128 for shift in (0, 7, 14)], number >> 21))
    # What is negative has 64 bits.
    return varint(number & (1 << 57) - 1)


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
