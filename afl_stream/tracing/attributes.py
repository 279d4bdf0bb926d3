"""The names of spans and attributes, by OpenTelemetry's conventions for messaging and Kafka, and our own `afl.*`."""

from __future__ import annotations

from typing import Final

from afl_stream.tracing.spans import AttributeValue, SpanKind, SpanTemplate

KEY: Final = "messaging.kafka.message.key"
OFFSET: Final = "messaging.kafka.offset"
MESSAGE_ID: Final = "messaging.message.id"
#: What belongs together: the workflow's id.
CONVERSATION_ID: Final = "messaging.message.conversation_id"
BATCH_COUNT: Final = "messaging.batch.message_count"
FACET: Final = "afl.facet"
OUTCOME: Final = "afl.outcome"
TRIES: Final = "afl.tries"
WORKFLOW: Final = "afl.workflow.name"
STATUS: Final = "afl.workflow.status"


def _messaging(operation: str, kind: str, topic: str) -> dict[str, AttributeValue]:
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.name": topic,
    }


def sending(topic: str) -> SpanTemplate:
    """Return the span of a record that is sent: values are key and workflow id, and the record's id if it is known."""
    return SpanTemplate(
        f"send {topic}", SpanKind.PRODUCER, _messaging("send", "send", topic), (KEY, CONVERSATION_ID, MESSAGE_ID)
    )


def processing(topic: str, partition: int, group: str, keys: tuple[str, ...], facet: str = "") -> SpanTemplate:
    """Return the span of a record that is worked on: `keys` name its values."""
    described = _messaging("process", "process", topic)
    described["messaging.destination.partition.id"] = str(partition)
    described["messaging.consumer.group.name"] = group
    if facet:
        described[FACET] = facet
    return SpanTemplate(f"process {topic}", SpanKind.CONSUMER, described, keys)


def batch(operation: str, kind: str, topic: str, group: str, keys: tuple[str, ...] = (BATCH_COUNT,)) -> SpanTemplate:
    """Return the span of what is done to records together: the value is their number, where that is known."""
    described = _messaging(operation, kind, topic)
    described["messaging.consumer.group.name"] = group
    return SpanTemplate(f"{operation} {topic}", SpanKind.CLIENT, described, keys)


def running(workflow: str) -> SpanTemplate:
    """Return the span of a run, from its start to its end: values are the workflow's id and status."""
    return SpanTemplate(f"run {workflow}", SpanKind.INTERNAL, {WORKFLOW: workflow}, ("afl.workflow.id", STATUS))
