"""Schemas by what they are: the first text of a fingerprint stays, and a key says what its text is."""

from __future__ import annotations

import json

import pytest

from afl_stream.errors import SchemaTaken, SchemaUnknown
from afl_stream.transport import Headers, NotAuthorized
from afl_stream.wire.avro.schema import WriterSchema, parse_schema_text
from afl_stream.wire.codec import single_object_codec
from afl_stream.wire.schema_source import InMemorySchemaLog, SchemaNotAnnounced, SchemasTopicSource, schema_key
from tests.scenarios.forged_schemas import forged, swap_payload_fields

PARAMS = [{"name": "payer", "type": "String"}, {"name": "payee", "type": "String"}]
TOPIC = "afl.events.shop.Pay"


class LosingSchemaLog(InMemorySchemaLog):
    """A schemas topic that can be deleted and made again."""

    def lose_all(self) -> None:
        self.records.clear()
        self.losses += 1
        self._next = 0


def event_schema() -> WriterSchema:
    return single_object_codec(InMemorySchemaLog()).event_writer("shop.Pay", PARAMS).schema


def announce(log: InMemorySchemaLog, schema: WriterSchema) -> None:
    text = schema.text.encode()
    log.append(schema_key(text), text)


def test_a_forged_schema_has_the_fingerprint_of_the_genuine_one() -> None:
    genuine = event_schema()
    other = forged(genuine, swap_payload_fields)

    assert other.fingerprint == genuine.fingerprint
    assert other.text != genuine.text


def test_the_first_text_of_a_fingerprint_stays_and_another_is_refused_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log, genuine = InMemorySchemaLog(), event_schema()
    announce(log, genuine)
    announce(log, forged(genuine, swap_payload_fields))

    assert SchemasTopicSource(log).by_id(genuine.fingerprint).text == genuine.text
    assert f"its fingerprint {genuine.fingerprint:016x} is that of another schema" in caplog.text


def test_another_text_of_the_same_schema_is_no_other_schema(caplog: pytest.LogCaptureFixture) -> None:
    log, genuine = InMemorySchemaLog(), event_schema()
    announce(log, genuine)
    announce(log, parse_schema_text(json.dumps({**json.loads(genuine.text), "doc": "said in other words"})))

    assert SchemasTopicSource(log).by_id(genuine.fingerprint).text == genuine.text
    assert caplog.records == []


def test_who_writes_is_told_that_its_fingerprint_is_taken() -> None:
    log, genuine = InMemorySchemaLog(), event_schema()
    announce(log, forged(genuine, swap_payload_fields))

    with pytest.raises(SchemaTaken, match=f"{genuine.fingerprint:016x}"):
        SchemasTopicSource(log).announce(genuine, TOPIC)
    assert len(log.records) == 1


def test_the_schemas_of_our_own_records_come_before_all_of_the_topic() -> None:
    genuine = event_schema()
    log = InMemorySchemaLog()
    announce(log, forged(genuine, swap_payload_fields))
    source = SchemasTopicSource(log, [genuine])

    assert source.by_id(genuine.fingerprint).text == genuine.text
    assert source.announce(genuine, TOPIC) == genuine.fingerprint
    assert log.records[-1][1] == genuine.text.encode()


@pytest.mark.parametrize("key", [None, b"", b"key", b"0" * 64, b"\xff"])
def test_a_record_whose_key_is_not_the_digest_of_its_text_is_passed_over_and_logged(
    key: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    log, genuine = InMemorySchemaLog(), event_schema()
    log.records.append((key, genuine.text.encode()))
    source = SchemasTopicSource(log)

    with pytest.raises(SchemaUnknown):
        source.by_id(genuine.fingerprint)
    assert "is not the SHA-256 of its text" in caplog.text


def test_what_a_topic_has_lost_is_announced_again_by_who_knows_it() -> None:
    log, genuine = LosingSchemaLog(), event_schema()
    source = SchemasTopicSource(log)
    source.announce(genuine, TOPIC)
    log.lose_all()

    source.keep_announced()
    source.keep_announced()

    assert [value for _, value in log.records] == [genuine.text.encode()]
    assert SchemasTopicSource(log.reader()).by_id(genuine.fingerprint).text == genuine.text


class ReadOnlySchemaLog(InMemorySchemaLog):
    """A schemas topic whose user may read it, and not write."""

    def append(self, key: bytes, value: bytes, headers: Headers = ()) -> None:
        raise NotAuthorized("topic afl.schemas", "TOPIC_AUTHORIZATION_FAILED", "Write")


def test_a_writer_that_may_only_read_uses_schemas_that_others_have_announced() -> None:
    log, schema = ReadOnlySchemaLog(), event_schema()
    log.records.append((schema_key(schema.text.encode()), schema.text.encode()))

    assert SchemasTopicSource(log).announce(schema, TOPIC) == schema.fingerprint


def test_a_writer_that_may_only_read_is_told_who_announces_what_is_missing() -> None:
    with pytest.raises(SchemaNotAnnounced, match=r"afl.v1.Event was not announced yet.*`afl-stream deploy`") as caught:
        SchemasTopicSource(ReadOnlySchemaLog()).announce(event_schema(), TOPIC)

    # A process that starts ends, and does not wait for the outage to be over.
    assert caught.value.waits_for_people
    assert "Write on topic afl.schemas" in str(caught.value)
