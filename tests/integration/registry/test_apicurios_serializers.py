"""Apicurio's serializers for Java, whose framing is Confluent's: they read our values, and we read theirs."""

from __future__ import annotations

import pytest

from afl_stream.wire.messages import StepContinue
from tests.integration.java_programs import JavaPrograms
from tests.integration.registry.test_registry_codec import PARAMS, a_topic, an_event
from tests.integration.registry.world import RegistryParties
from tests.unit.stream.wire.test_record_codec import MESSAGES
from tests.worlds.processes import ROOT
from tools.registry import RegistryServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

_SOURCES = ROOT / "tests" / "integration" / "java" / "apicurio"


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> JavaPrograms:
    sources = [_SOURCES / "ApicurioValue.java"]
    return JavaPrograms(tmp_path_factory.mktemp("java"), sources, _SOURCES / "pom.xml")


def written_again(java: JavaPrograms, registry: RegistryServer, values: list[bytes]) -> list[bytes]:
    """Return values that Java has read, and written again to other topics, where it registers their schemas itself."""
    lines = [f"{a_topic()}\t{value.hex()}\t{a_topic()}\n" for value in values]
    said = java.run("ApicurioValue", f"http://127.0.0.1:{registry.port}/apis/registry/v3", text="".join(lines))
    return [bytes.fromhex(line) for line in said.split()]


def test_java_reads_each_record_that_we_write_and_we_read_each_that_it_writes(
    java: JavaPrograms, registry: RegistryServer, parties: RegistryParties
) -> None:
    codec = parties.codec(registry.url, subject_strategy="topic_record_name")
    ours = [codec.encode(message, a_topic()) for message in MESSAGES]

    theirs = written_again(java, registry, ours)

    reader = parties.codec(registry.url)
    assert [reader.decode(value) for value in theirs] == MESSAGES
    # Java's maps have no order, so that entries may have changed places.
    assert [(value[0], sorted(value[5:])) for value in theirs] == [(0, sorted(value[5:])) for value in ours]


def test_java_writes_our_bytes_of_events_and_answers(
    java: JavaPrograms, registry: RegistryServer, parties: RegistryParties
) -> None:
    codec = parties.codec(registry.url)
    event = an_event(amount=2.5, tags=["a", None, "ö"])
    # One entry in each map.
    answer = StepContinue(step_id="w:1", result={"names": [1, 2.5, None, {"ö": True}]}, agent="a", attempt=3)
    ours = [
        codec.event_writer("shop.Pay", PARAMS, topic=a_topic()).encode(event),
        codec.encode(answer, "afl.control"),
    ]

    theirs = written_again(java, registry, ours)

    assert [value[5:] for value in theirs] == [value[5:] for value in ours]
    assert [parties.codec(registry.url).decode(value) for value in theirs] == [event, answer]
