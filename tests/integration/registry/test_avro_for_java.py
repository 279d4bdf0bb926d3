"""Avro for Java as the other implementation: of what can be read, and of values in a registry's framing."""

from __future__ import annotations

import json
import random

import pytest

from afl_stream.wire.avro.compatibility import incompatibilities
from afl_stream.wire.messages import StepContinue
from tests.avro_pairs import TABLE, random_pair, texts
from tests.integration.java_programs import JavaPrograms
from tests.integration.registry.test_registry_codec import PARAMS, a_topic, an_event
from tests.integration.registry.world import RegistryParties
from tests.worlds.processes import ROOT
from tools.registry import RegistryServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

_SOURCES = ROOT / "tests" / "integration" / "java"
_RANDOM_PAIRS = 1_000


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> JavaPrograms:
    sources = [_SOURCES / "Resolvable.java", _SOURCES / "RegistryValue.java"]
    return JavaPrograms(tmp_path_factory.mktemp("java"), sources)


def test_both_agree_on_what_can_be_read(java: JavaPrograms) -> None:
    rng = random.Random(17)
    pairs = [(reader, writer) for reader, writer, _ in TABLE]
    pairs += [random_pair(rng) for _ in range(_RANDOM_PAIRS)]

    said = java.run("Resolvable", text="".join("\t".join(texts(pair)) + "\n" for pair in pairs)).split()

    ours = ["INCOMPATIBLE" if incompatibilities(*texts(pair)) else "COMPATIBLE" for pair in pairs]
    different = [(pair, one, other) for pair, one, other in zip(pairs, ours, said, strict=True) if one != other]
    assert different == []
    assert 100 < said.count("COMPATIBLE") < len(pairs) - 100, "both outcomes are common"


def test_java_reads_our_values_and_we_read_javas(
    java: JavaPrograms, registry: RegistryServer, parties: RegistryParties
) -> None:
    codec = parties.codec(registry.url)
    answer = StepContinue(step_id="w:1", result={"total": 2.5, "names": ["ö", None]}, workflow_id="w", attempt=3)

    shown = json.loads(java.run("RegistryValue", "read", registry.url, codec.encode(answer, "afl.control").hex()))
    given = {
        "step_id": "w:2",
        "result": {"total": {"value": {"long": 7}}},
        **dict.fromkeys(("workflow_id", "event_id", "attempt", "answer_token", "agent", "group")),
    }
    schema = ROOT / "schemas" / "step_continue.avsc"
    written = java.run("RegistryValue", "write", registry.url, "java-value", str(schema), json.dumps(given))

    assert shown["step_id"] == "w:1"
    assert shown["attempt"] == 3
    assert shown["result"]["names"]["value"] == [{"value": "ö"}, {"value": None}]
    assert codec.decode(bytes.fromhex(written)) == StepContinue(step_id="w:2", result={"total": 7})


def test_java_reads_events_and_answers_and_writes_their_bytes_again(
    java: JavaPrograms, registry: RegistryServer, parties: RegistryParties
) -> None:
    codec = parties.codec(registry.url)
    event = an_event(amount=2.5, tags=["a", None, "ö"])
    # Java's maps have no order: one entry each.
    answer = StepContinue(step_id="w:1", result={"names": [1, 2.5, None, {"ö": True}]}, agent="a", attempt=3)
    values = [
        codec.event_writer("shop.Pay", PARAMS, topic=a_topic()).encode(event),
        codec.encode(answer, "afl.control"),
    ]

    shown = json.loads(java.run("RegistryValue", "read", registry.url, values[0].hex()))
    written = [java.run("RegistryValue", "again", registry.url, value.hex()).strip() for value in values]

    assert shown["payload"]["amount"] == 2.5
    assert written == [value.hex() for value in values]
