"""An agent of shop.Charge in FastStream: `python -m examples.with_faststream.agent`.

Events come as JSON: the evaluators are told so by `AFL_WIRE_FACET_EVENTS=shop.Charge=json`. For each event, in this
order:
  1. read it,
  2. do the work,
  3. publish the answer, and wait until the broker has it,
  4. acknowledge the event: its offset is committed.

A crash before 4 delivers the event again, and its answer is a duplicate that changes nothing. Whatever is raised before
4 has FastStream go back to the event (`NACK_ON_ERROR`), so that no answer is lost while the broker is away.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from typing import Any, Final

from faststream import AckPolicy, FastStream
from faststream.confluent import KafkaBroker, KafkaMessage
from pydantic import BaseModel, ConfigDict, ValidationError

BOOTSTRAP: Final = os.environ.get("AFL_KAFKA_BOOTSTRAP", "localhost:9092")
PREFIX: Final = os.environ.get("AFL_PREFIX", "afl.")
FACET: Final = "shop.Charge"
GROUP: Final = f"{PREFIX}agent.{FACET}"
#: The first number of each version that an event bears, as this program knows it.
NEWEST: Final = 1
#: Headers of an event that its answer repeats.
TRACE: Final[tuple[str, ...]] = ("traceparent", "tracestate")
PAUSE_S: Final = 1.0

log = logging.getLogger(__name__)


class Charge(BaseModel):
    """The parameters of the facet. The evaluators have filled in the defaults."""

    model_config = ConfigDict(strict=True)

    order: str
    amount: float


class Event(BaseModel):
    """What this agent needs of an event; members that it does not know are ignored."""

    id: str
    workflow_id: str
    step_id: str
    attempt: int
    workflow_version: str
    step_schema_version: str
    answer_token: str | None = None
    payload: dict[str, Any]


class NotForThisRelease(Exception):
    """An event that is to wait for another release of this agent, or for another setting of the evaluators."""


# Keys are placed as all clients of Kafka in Java place them, and an answer is on every replica when it is acknowledged.
broker = KafkaBroker(
    BOOTSTRAP, acks="all", enable_idempotence=True, partitioner="murmur2_random", allow_auto_create_topics=False
)
app = FastStream(broker)


async def charge(wanted: Charge, idempotency_key: str) -> dict[str, object]:
    """Do the work. What it does outside is done once for each key, however often it is asked."""
    if wanted.amount <= 0:
        raise ValueError(f"an amount has to be above 0, not {wanted.amount}")
    log.info("charging %s for %s (%s)", wanted.amount, wanted.order, idempotency_key)
    return {"receipt": f"r-{wanted.order}"}


async def raw(message: KafkaMessage) -> bytes:
    """Leave the record to the handler: one that cannot be read is to be answered, too."""
    return message.body


# The way to share partitions is that of agents of AFL Stream, which may be members of the same group.
@broker.subscriber(
    f"{PREFIX}events.{FACET}",
    group_id=GROUP,
    auto_offset_reset="earliest",
    partition_assignment_strategy=("cooperative-sticky",),
    ack_policy=AckPolicy.NACK_ON_ERROR,
    decoder=raw,
)
async def charges(value: bytes, message: KafkaMessage) -> None:
    """Answer an event of the facet."""
    try:
        event = readable(value, message.headers)
    except ValidationError as error:
        await put_aside(value, message, error)
        return
    except NotForThisRelease as error:
        log.error("%s; nothing is skipped", error)
        await asyncio.sleep(PAUSE_S)
        raise
    try:
        outcome: dict[str, object] = {"result": await charge(Charge.model_validate(event.payload), event.id)}
    except ValidationError as error:
        await put_aside(value, message, error)
        return
    except Exception as error:
        log.exception("%s of %s failed", FACET, event.step_id)
        outcome = failure(type(error).__name__, error)
    await answer(
        event.model_dump(include={"workflow_id", "step_id", "attempt", "answer_token"}), event.id, outcome, message
    )


def readable(value: bytes, headers: Mapping[str, str]) -> Event:
    """Read an event. Raises ValidationError for what is none, and NotForThisRelease for what has to wait."""
    if headers.get("content-type") == "application/avro":
        raise NotForThisRelease("an event is Avro: set AFL_WIRE_FACET_EVENTS=shop.Charge=json for the evaluators")
    event = Event.model_validate_json(value)
    for version in (event.workflow_version, event.step_schema_version):
        if int(version.partition(".")[0]) > NEWEST:
            raise NotForThisRelease(f"event {event.id} is of version {version}: upgrade this agent")
    return event


async def put_aside(value: bytes, message: KafkaMessage, error: Exception) -> None:
    """Send a record that cannot be read to the facet's dead letters, as it came; its step fails where it is known."""
    record: Any = message.raw_message
    origin = {"topic": record.topic(), "partition": record.partition(), "offset": record.offset(), "group": GROUP}
    marks = {**origin, "reason": "unreadable", "error": f"{type(error).__name__}: {error}"}
    headers = {**message.headers, **{f"afl.dlq.{name}": str(text) for name, text in marks.items()}}
    await broker.publish(value, topic=f"{PREFIX}dlq.events.{FACET}", key=record.key(), headers=headers)
    if (event := named_by(message.headers)) is not None:
        await answer(event, event.pop("event_id"), failure("UnreadableEvent", error), message)


def named_by(headers: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what the headers say of an event whose value cannot be read: enough to fail its step."""
    event_id, step_id = headers.get("ce_id"), headers.get("ce_subject")
    if not event_id or not step_id:
        return None
    attempt = headers.get("afl_attempt", "1")
    return {"event_id": event_id, "workflow_id": step_id.partition(":")[0], "step_id": step_id, "attempt": int(attempt)}


def failure(kind: str, error: Exception) -> dict[str, object]:
    """Return the outcome of an event that failed."""
    return {"error": {"type": kind, "message": str(error)}}


async def answer(event: Mapping[str, Any], event_id: str, outcome: Mapping[str, object], message: KafkaMessage) -> None:
    """Publish an answer to the evaluators; returns when the broker has it."""
    said = {**event, "event_id": event_id, **outcome, "agent": f"faststream, process {os.getpid()}", "group": GROUP}
    headers: dict[str, str] = {name: message.headers[name] for name in TRACE if name in message.headers}
    await broker.publish(
        json.dumps({name: entry for name, entry in said.items() if entry is not None}),
        topic=f"{PREFIX}control",
        key=event["workflow_id"].encode(),
        headers={**headers, "content-type": "application/json"},
    )


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    # SIGTERM ends it after the event that is at work.
    asyncio.run(app.run())
