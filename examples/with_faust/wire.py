"""The records of AFL Stream, as schemas/README.md describes them: reads events and answers, writes answers as JSON."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from io import BytesIO
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from fastavro import parse_schema, schemaless_reader
from fastavro.schema import fingerprint, to_parsing_canonical_form

#: Avro's single-object encoding: two bytes, eight of the schema's fingerprint, the body.
_MARKER: Final = b"\xc3\x01"
_BODY: Final = 10
#: What says that an answer is JSON.
JSON_HEADERS: Final = {"content-type": b"application/json"}
#: How long a reader waits to learn what partitions a topic has.
_METADATA_S: Final = 30


class Unreadable(Exception):
    """A record is nothing that this program can read."""


def named_by(headers: Mapping[str, bytes]) -> dict[str, Any] | None:
    """Return what a record's headers say about its event: enough to answer that it fails. None: they name none."""
    try:
        said = json.loads(headers["afl"]) if "afl" in headers else {}
        event_id, step_id = said["id"], said["subject"]
    except (KeyError, TypeError, ValueError):
        # As releases before this form wrote them, or with `wire.headers = "cloudevents"`.
        if not {"ce_id", "ce_subject"} <= set(headers):
            return None
        event_id, step_id = headers["ce_id"].decode(), headers["ce_subject"].decode()
    return {"id": event_id, "step_id": step_id, "answer_token": None}


class Records:
    """Decodes records with the schemas of the schemas topic, which is read to its end when one is unknown."""

    def __init__(self, bootstrap: str, schemas_topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, schemas_topic
        self._schemas: dict[bytes, Any] = {}

    async def decode(self, value: bytes | None) -> tuple[str, dict[str, Any]]:
        """Return the name of a record's type, `Event` or `StepContinue`, and its fields. Raises Unreadable."""
        try:
            if value is not None and value.startswith(_MARKER):
                schema = await self._schema(value[2:_BODY])
                record: Any = schemaless_reader(BytesIO(value[_BODY:]), schema, None)
                kind = schema["name"].rpartition(".")[2]
                if kind == "TopicEvent":
                    record["data"] = plain(record["data"])
                return kind, record
            if value is not None and value.startswith(b"{"):
                fields = json.loads(value)
                return fields.get("type") or _type_by_its_entries(fields), fields
        except (EOFError, ValueError, IndexError, TypeError) as error:
            raise Unreadable(f"{type(error).__name__}: {error}") from error
        raise Unreadable(f"it begins with {(value or b'')[:2]!r}: neither Avro's single-object encoding nor JSON")

    async def _schema(self, wanted: bytes) -> Any:
        if wanted not in self._schemas:
            async for record in all_records(self._bootstrap, self._topic):
                # The key proves that the value is what its writer meant; the first schema of a fingerprint is kept.
                if record.value is None or record.key != hashlib.sha256(record.value).hexdigest().encode():
                    continue
                schema = json.loads(record.value)
                digest = fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO")
                self._schemas.setdefault(bytes.fromhex(digest), parse_schema(schema))
        if wanted not in self._schemas:
            raise Unreadable(f"the schema {wanted.hex()} is not on {self._topic}")
        return self._schemas[wanted]


async def all_records(bootstrap: str, topic: str) -> AsyncIterator[ConsumerRecord]:
    """Yield all that is on a topic now, partition by partition in order. Raises RuntimeError for a missing topic."""
    # Without a group it has all partitions, and commits nothing.
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = await _partitions_of(consumer, topic)
        ends = await consumer.end_offsets(partitions)
        for partition in partitions:
            while await consumer.position(partition) < ends[partition]:
                for record in (await consumer.getmany(partition, timeout_ms=1_000)).get(partition, ()):
                    yield record


async def _partitions_of(consumer: AIOKafkaConsumer, topic: str) -> list[TopicPartition]:
    """Wait for the consumer's partitions: a busy broker tells of them only after the consumer has started."""
    try:
        async with asyncio.timeout(_METADATA_S):
            while not consumer.assignment():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise RuntimeError(f"no broker has told of topic {topic} within {_METADATA_S} s: is it there?") from None
    return sorted(consumer.assignment())


def plain(value: Mapping[str, Any]) -> Any:
    """Return what a record `afl.v1.Value` says: on the wire, every value in a value is such a record."""
    found = value["value"]
    if isinstance(found, list):
        return [plain(entry) for entry in found]
    if isinstance(found, dict):
        return {name: plain(entry) for name, entry in found.items()}
    return found


def parameters(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a facet that were supplied; an absent one is not a null."""
    payload = dict(event["payload"])
    absent = payload.popitem()[1]  # By their places: `_absent` comes last, `_extra` before it.
    payload.popitem()
    return {name: value for name, value in payload.items() if name not in absent}


def step_continue(event: Mapping[str, Any], result: Mapping[str, object], agent: str) -> bytes:
    """Return the answer that lets the event's step go on."""
    return _answer(event, agent, {"result": result})


def step_failed(event: Mapping[str, Any], error: Exception, agent: str) -> bytes:
    """Return the answer that fails the event's step."""
    return _answer(event, agent, {"error": {"type": type(error).__name__, "message": str(error)}})


def topic_event(caused_by: Mapping[str, Any], topic: str, data: object, publisher: str) -> bytes:
    """Return an event for a topic of the request that another event is of.

    The data alone would be enough, but then every record is an event of its own. With an id that is made of that of
    the event before it, the same work done again makes the same event, and the workflow takes it once.
    """
    event = {
        "type": "TopicEvent",
        "id": f"{caused_by['id']}:{topic}",
        "request_id": caused_by["request_id"],
        "topic": topic,
        "data": data,
        "publisher": publisher,
        "consumed": [caused_by["id"]],
    }
    return json.dumps(event).encode()


def _answer(event: Mapping[str, Any], agent: str, outcome: Mapping[str, object]) -> bytes:
    # With the event's id, an answer to an older attempt is recognised; the token is needed where tokens are on.
    named = {"step_id": event["step_id"], "event_id": event["id"], "answer_token": event["answer_token"]}
    return json.dumps({**named, **outcome, "agent": agent}).encode()


def _type_by_its_entries(fields: Mapping[str, object]) -> str:
    found = [name for entry, name in _TYPES.items() if entry in fields]
    if not found:
        raise Unreadable(f"a record of AFL has one of {', '.join(_TYPES)}; this has {', '.join(fields)}")
    return found[0]


_TYPES: Final = {"result": "StepContinue", "error": "StepFailed", "partial": "StepUpdate"}
