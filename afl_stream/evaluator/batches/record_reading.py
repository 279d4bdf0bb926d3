"""Records of control, commands and external as messages, a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence

from afl_stream.errors import NewerFormat, SchemaGone, SchemaUnavailable, Unreadable
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.transport import Record
from afl_stream.wire.codec import addressed, decode_key
from afl_stream.wire.messages import ExternalEvent, Message, StepContinue


def read(context: EvaluatorContext, records: Sequence[Record]) -> list[Message | Exception | None]:
    """Decode records that are about to be applied: the message of each, or the error, raised when its turn comes.

    Decoding them in one go takes half of the time that it takes between applying them: the same code runs again and
    again. It ends at a schema that cannot be looked up now, which ends the batch. A schema that is gone ends it for the
    record's partition: records behind it there are not applied before it. None: not decoded.
    """
    held: set[tuple[str, int]] = set()
    decode, messages = context.codec.decode, list[Message | Exception | None]()
    for record in records:
        if held and record[:2] in held:
            messages.append(None)
            continue
        try:
            message = decode(record.value, record.headers, json_allowed=True)
            # The usual answer is for a workflow in memory, so for this store. `isascii` finds a key that is text.
            if not (isinstance(message, StepContinue) and record.key is not None and record.key.isascii()):
                message = _addressed(context, record, message)
            messages.append(message)
        except (Unreadable, NewerFormat, SchemaUnavailable) as error:
            messages.append(error)
            if isinstance(error, SchemaGone):
                held.add((record.topic, record.partition))
            elif isinstance(error, SchemaUnavailable):
                messages += [None] * (len(records) - len(messages))
                break
    return messages


def decoded(context: EvaluatorContext, record: Record) -> Message:
    """Decode one record. Raises Unreadable, NewerFormat and SchemaUnavailable."""
    return _addressed(context, record, context.codec.decode(record.value, record.headers, json_allowed=True))


def _addressed(context: EvaluatorContext, record: Record, message: Message) -> Message:
    if record.key:
        # Only its partition depends on the key, so any text will do. Our writers always write text.
        decode_key(record.key)
    return context.own(addressed(message, record.key) if isinstance(message, ExternalEvent) else message)
