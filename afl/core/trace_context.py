"""W3C trace context: where a piece of work stands in a trace, as records carry it; and ids derived from our own ids."""

from __future__ import annotations

import re
from binascii import unhexlify
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

TRACE_PARENT: Final = "traceparent"
TRACE_STATE: Final = "tracestate"
TRACE_HEADERS: Final = (TRACE_PARENT, TRACE_STATE)

#: The longest `tracestate` that is passed on; what is longer may be dropped, says W3C.
_LONGEST_STATE: Final = 512
#: Later versions may add fields behind the flags, and are read as far as this one goes.
_PARENT: Final = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?\Z", re.DOTALL)
_STATE: Final = re.compile(r"[\x21-\x7e][\x20-\x7e]*\Z")
#: The context of all but a few records, which needs no closer look. Its parts stand where they always do.
is_usual: Final = re.compile(rb"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-0[0-3]\Z").match
#: The same of a trace whose spans are recorded.
is_sampled_usual: Final = re.compile(rb"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-0[13]\Z").match
#: What is behind the trace's id of one of them: `match(value, SPAN_AT)`.
SPAN_AT: Final = 36
is_sampled_usual_span: Final = re.compile(rb"(?!0{16})[0-9a-f]{16}-0[13]\Z").match
#: The ids of one of them, without hyphens and as bytes.
_ids_of: Final = Struct("x16s8sx").iter_unpack
#: The flags of a trace whose spans are recorded.
SAMPLED: Final = ("01", "03")
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16


class TraceContext(NamedTuple):
    """A span as other processes name it. Ids are lower-case hexadecimal; `flags` has two digits."""

    trace_id: str
    span_id: str
    flags: str = "01"
    state: str = ""

    @property
    def is_sampled(self) -> bool:
        """Whether the spans of this trace are recorded. The context is passed on either way."""
        return self.flags in SAMPLED

    @property
    def traceparent(self) -> str:
        """The value of the header `traceparent`."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """The headers of a record that is sent in this span."""
        parent = (TRACE_PARENT, self.traceparent.encode())
        return (parent, (TRACE_STATE, self.state.encode())) if self.state else (parent,)

    @property
    def text(self) -> str:
        """The context as one text: `traceparent`, and behind a space `tracestate` where there is one."""
        return f"{self.traceparent} {self.state}" if self.state else self.traceparent


def parse_context(traceparent: bytes | str | None, state: bytes | str | None = None) -> TraceContext | None:
    """Return the context that these headers carry; None for none, and for anything that is not one by W3C."""
    if not traceparent:
        return None
    text = traceparent.decode("ascii", "replace") if isinstance(traceparent, bytes) else traceparent
    found = _PARENT.match(text.strip(" \t"))
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if trace_id == _NO_TRACE or span_id == _NO_SPAN or (version == "00" and more):
        return None
    kept = state.decode("ascii", "replace") if isinstance(state, bytes) else state or ""
    if len(kept) > _LONGEST_STATE or not _STATE.match(kept):
        kept = ""
    return TraceContext(trace_id, span_id, f"{int(flags, 16) & 3:02x}", kept)


def context_of(headers: Iterable[tuple[str, bytes | None]]) -> TraceContext | None:
    """Return the context that a record's headers carry."""
    parent = state = None
    for name, value in headers:
        if name == TRACE_PARENT:
            parent = value
        elif name == TRACE_STATE:
            state = value
    return None if parent is None else parse_context(parent, state)


def link_to(headers: Sequence[tuple[str, bytes | None]]) -> tuple[str, str] | None:
    """Return the ids of the trace and span that a record's headers name, if that trace is recorded."""
    if len(headers) == 3:
        name, value = headers[2]
        if name == TRACE_PARENT and value is not None and is_usual(value):
            text = value.decode()
            return (text[3:35], text[36:52]) if text[53:] in SAMPLED else None
    found = context_of(headers)
    return (found.trace_id, found.span_id) if found is not None and found.is_sampled else None


def context_in(text: str) -> TraceContext | None:
    """Return the context whose `text` this is; None for an empty text."""
    parent, _, state = text.partition(" ")
    return parse_context(parent, state)


def ids_of_usual(parents: Iterable[bytes]) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Return the trace ids and the span ids that values of `traceparent` name, all of them usual ones, as bytes."""
    joined = unhexlify(b"".join(parents).replace(b"-", b""))
    trace_ids, span_ids = zip(*_ids_of(joined), strict=True)
    return trace_ids, span_ids


def trace_id_of(workflow_id: str, trace_context: str = "") -> str:
    """Return the id of the trace that a run is part of; `trace_context` is what its row keeps."""
    kept = context_in(trace_context)
    return derived_trace_id(workflow_id) if kept is None else kept.trace_id


def derived_trace_id(workflow_id: str) -> str:
    """Return the trace id of a run that was started by no traced work."""
    # Never change these ids: evaluators of two releases may take part in one run. Zero is not an id.
    found = blake2b(f"trace/{workflow_id}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return found if found != _NO_TRACE else f"{1:032x}"


def derived_span_id(named: str) -> str:
    """Return the id of the span of something that has an id, such as a step or an event."""
    found = blake2b(f"span/{named}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return found if found != _NO_SPAN else f"{1:016x}"


def is_sampled(trace_id: str, ratio: float) -> bool:
    """Return whether a new trace is recorded, where this share of all is: every process decides alike.

    It is the rule of OpenTelemetry's samplers by trace id: the last 64 bits are below the share.
    """
    return ratio > 0 and int(trace_id[16:], 16) < round(ratio * (1 << 64))
