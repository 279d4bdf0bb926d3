"""How the errors of the embedded log travel to a guest, and are raised there again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from afl.core.text.exception_text import exception_text
from afl_stream.embedded.file import FileUnusable
from afl_stream.embedded.transport import AssignorMismatch, NotAssigned, TopicRefused, UnknownPartition
from afl_stream.holder.contents import bounds_in, bounds_out, partition_in, partitions_in, partitions_out
from afl_stream.transport import (
    Assignor,
    BrokerUnavailable,
    Fenced,
    OffsetOutOfRange,
    QueueFull,
    RecordTooLarge,
    TopicExists,
    TransportError,
    UnknownTopic,
)


class _Form(NamedTuple):
    """The parts of one kind of error: what it is made of, and how it is made of them again."""

    kind: type[Exception]
    parts: Callable[[Any], list[Any]]
    made: Callable[..., Exception]


def _text(error: Exception) -> list[Any]:
    return [exception_text(error)]


_FORMS: Final = (
    _Form(UnknownTopic, lambda e: [e.topic], UnknownTopic),
    _Form(TopicExists, lambda e: [e.topic], TopicExists),
    _Form(RecordTooLarge, lambda e: [e.topic, e.size, e.limit], RecordTooLarge),
    _Form(
        OffsetOutOfRange,
        lambda e: [list(e.partition), e.offset, bounds_out(e.bounds)],
        lambda partition, offset, bounds: OffsetOutOfRange(partition_in(partition), offset, bounds_in(bounds)),
    ),
    _Form(Fenced, lambda e: [partitions_out(e.partitions)], lambda found: Fenced(partitions_in(found))),
    _Form(
        AssignorMismatch,
        lambda e: [e.group, e.found, e.right],
        lambda group, found, right: AssignorMismatch(group, Assignor(found), Assignor(right)),
    ),
    _Form(NotAssigned, lambda e: [list(e.partition)], lambda found: NotAssigned(partition_in(found))),
    _Form(
        UnknownPartition,
        lambda e: [list(e.partition), e.partitions],
        lambda found, partitions: UnknownPartition(partition_in(found), partitions),
    ),
    _Form(TopicRefused, lambda e: [e.name, e.reason], TopicRefused),
    _Form(FileUnusable, lambda e: [str(e.path), e.found], lambda path, found: FileUnusable(Path(path), found)),
    _Form(QueueFull, _text, QueueFull),
    _Form(BrokerUnavailable, _text, BrokerUnavailable),
    _Form(TransportError, _text, TransportError),
)
_BY_NAME: Final[Mapping[str, _Form]] = {form.kind.__name__: form for form in _FORMS}


def error_out(error: Exception) -> list[Any]:
    """Return an error as its kind and its parts; one of another kind is a TransportError with its text."""
    form = next((form for form in _FORMS if isinstance(error, form.kind)), None)
    if form is None:
        return [TransportError.__name__, [f"{type(error).__name__}: {exception_text(error)}"]]
    return [form.kind.__name__, form.parts(error)]


def error_in(found: Any) -> Exception:
    """Return the error to raise."""
    name, parts = found
    form = _BY_NAME.get(name)
    return TransportError(f"{name}: {parts}") if form is None else form.made(*parts)
