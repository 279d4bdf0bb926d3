"""`afl-stream asyncapi` and `afl-stream schemas export`: valid by the specification, and true of what a run does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro.schema
import pytest
from jsonschema import Draft7Validator, Draft202012Validator

from tests.scenarios.command_lines import CommandLine

#: The schema that the AsyncAPI Initiative publishes (Apache License 2.0).
SPECIFICATION = Path(__file__).parents[1] / "fixtures" / "asyncapi" / "asyncapi-3.0.0.schema.json"

SHOP = """
namespace shop {
  schema Item { name: String, price: Double, parts: [Item] }
  schema Receipt { number: Long, items: [Item] }
  event facet Charge(order: String, items: [Item], express: Boolean = false, note: Json = null) => (receipt: Receipt)
  event facet Ship(order: String, weights: [[Double]], paid: Charge) => (tracking: String, days: Int)
  workflow Checkout(order: String, items: [Item], note: Json) => (tracking: String, days: Int) andThen {
    paid = Charge(order = $.order, items = $.items, note = $.note)
    sent = Ship(order = $.order, weights = [[1.5, 2.0], []], paid = paid)
    yield Checkout(tracking = sent.tracking, days = sent.days)
  }
}
"""
INPUTS = {
    "order": "17",
    "items": [
        {"name": "tea", "price": 3.5, "parts": [{"name": "leaf", "price": 1, "parts": []}]},
        {"name": "日本", "price": 2.0, "parts": None},
        None,
    ],
    "note": {"a": [1, None, "x", {"b": 1.5}]},
}
HANDLERS = """
def charge(payload):
    return {"receipt": {"number": 17, "items": payload["items"]}}

def ship(payload):
    return {"tracking": "t-1", "days": 3}

def register_handlers(runner):
    runner.register("shop.Charge", charge)
    runner.register("shop.Ship", ship)
"""


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    command_line = CommandLine(tmp_path, capsys)
    command_line.program = command_line.file("shop.afl", SHOP)
    command_line.handlers = command_line.file("handlers_of_shop.py", HANDLERS)
    return command_line


def errors(document: object) -> list[str]:
    validator = Draft7Validator(json.loads(SPECIFICATION.read_text()))
    return [
        f"{'/'.join(map(str, error.absolute_path))}: {error.message:.300}" for error in validator.iter_errors(document)
    ]


def references(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        for key, value in document.items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(document, list):
        for item in document:
            yield from references(item)


def found(document: Any, reference: str) -> Any:
    assert reference.startswith("#/")
    for part in reference[2:].split("/"):
        document = document[part]
    return document


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"AFL_WIRE_HEADERS": "cloudevents", "AFL_PREFIX": "tenant-1."},
        {"AFL_TOPICS_FACET_TEMPLATE": "{facet}", "AFL_PREFIX": ""},
    ],
)
def test_the_document_is_valid_by_the_specification(
    cli: CommandLine, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    called = cli("asyncapi", cli.program)

    assert called.code == 0
    assert errors(called.document) == []
    for reference in references(called.document):
        assert found(called.document, reference), reference


def test_the_specification_refuses_what_is_wrong(cli: CommandLine) -> None:
    document = cli("asyncapi", cli.program).document
    document["operations"]["agent.receive.afl.events.shop.Ship"]["action"] = "listen"
    document["channels"]["afl.control"]["bindings"]["kafka"]["partitions"] = 0

    assert len(errors(document)) >= 2


def test_channels_are_the_topics_with_their_keys_and_sizes(cli: CommandLine) -> None:
    document = cli("asyncapi", cli.program).document

    planned = {plan["topic"]: plan for plan in cli("topics", "plan", cli.program, "--json").document}
    assert document["channels"].keys() == planned.keys()
    for topic, channel in document["channels"].items():
        binding = channel["bindings"]["kafka"]
        assert binding["partitions"] == planned[topic]["partitions"]
        assert ",".join(binding["topicConfiguration"]["cleanup.policy"]) == planned[topic]["settings"]["cleanup.policy"]
    ship = document["channels"]["afl.events.shop.Ship"]
    assert list(ship["messages"]) == ["shop.Ship"]
    message = document["components"]["messages"]["shop.Ship"]
    assert "step" in message["bindings"]["kafka"]["key"]["description"]
    fastavro.schema.parse_schema(message["payload"]["schema"])


def test_an_agent_receives_events_and_replies_with_answers(cli: CommandLine) -> None:
    document = cli("asyncapi", cli.program, "--role", "agent").document

    assert {name.partition(".")[0] for name in document["operations"]} == {"agent"}
    operation = document["operations"]["agent.receive.afl.events.shop.Charge"]
    assert operation["action"] == "receive"
    assert operation["bindings"]["kafka"]["groupId"]["enum"] == ["afl.agent.shop.Charge"]
    assert operation["reply"]["channel"] == {"$ref": "#/channels/afl.control"}
    answers = [reference["$ref"].rpartition("/")[2] for reference in operation["reply"]["messages"]]
    assert answers == ["StepContinue", "StepFailed", "StepUpdate"]


def test_servers_are_the_brokers_without_their_secrets(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "servers" not in cli("asyncapi", cli.program).document
    monkeypatch.setenv("AFL_KAFKA_BOOTSTRAP", "kafka-1:9093,kafka-2:9093")
    monkeypatch.setenv("AFL_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("AFL_KAFKA_SASL_PASSWORD", "hunter22")
    monkeypatch.setenv("AFL_REGISTRY_URL", "http://ann:hunter33@registry:8081")

    called = cli("asyncapi", cli.program)

    servers = called.document["servers"]
    assert [server["host"] for server in servers.values()] == ["kafka-1:9093", "kafka-2:9093"]
    assert {server["protocol"] for server in servers.values()} == {"kafka-secure"}
    assert servers["broker-1"]["bindings"]["kafka"]["schemaRegistryVendor"] == "confluent"
    assert "hunter" not in called.out
    assert errors(called.document) == []


def test_without_files_it_is_about_the_deployed_programs(cli: CommandLine, tmp_path: Path) -> None:
    cli.deployed()

    written = cli("asyncapi", "--output", "asyncapi.json")

    assert written.code == 0
    assert written.out.startswith("asyncapi.json: ")
    document = json.loads((tmp_path / "asyncapi.json").read_text())
    assert document == cli("asyncapi", cli.program).document
    assert cli("schemas", "export").out == cli("schemas", "export", cli.program).out


def test_exported_schemas_hold_for_every_payload_and_result_of_a_run(cli: CommandLine) -> None:
    words = ("--handlers", cli.handlers, "--inputs", json.dumps(INPUTS), "--id", "w1")
    assert cli("dev", cli.program, *words).code == 0
    schemas = cli("schemas", "export", cli.program).document
    lines = [json.loads(line) for line in (cli.data_dir / "audit.jsonl").read_text().splitlines()]
    facets = {line["step"]: line["facet"] for line in lines if line["kind"] == "event"}

    checked = []
    for line in lines:
        if line["kind"] in ("event", "answer"):
            facet, what = facets[line["step"]], "payload" if line["kind"] == "event" else "result"
            Draft202012Validator(schemas[facet][what]).validate(line[what])
            checked.append((facet, what))
            # A value of another type does not fit.
            name = next(iter(schemas[facet][what]["properties"]))
            wrong = {**line[what], name: 1.5}
            assert not Draft202012Validator(schemas[facet][what]).is_valid(wrong)

    assert sorted(checked) == [
        (facet, what) for facet in ("shop.Charge", "shop.Ship") for what in ("payload", "result")
    ]  # fmt: skip


def test_schemas_are_exported_as_files_in_either_language(cli: CommandLine, tmp_path: Path) -> None:
    avro = cli("schemas", "export", cli.program, "--format", "avro", "--output", "out", "--json")
    in_json = cli("schemas", "export", cli.program, "--output", "out", "--facet", "shop.Ship")

    assert avro.document["files"]["shop.Charge"] == {
        "payload": "out/shop.Charge.payload.avsc", "result": "out/shop.Charge.result.avsc",
    }  # fmt: skip
    assert in_json.out == "shop.Ship: out/shop.Ship.payload.schema.json, out/shop.Ship.result.schema.json\n"
    for path in (tmp_path / "out").glob("*.avsc"):
        fastavro.schema.parse_schema(json.loads(path.read_text()))
    for path in (tmp_path / "out").glob("*.schema.json"):
        Draft202012Validator.check_schema(json.loads(path.read_text()))
    assert len(list((tmp_path / "out").iterdir())) == 6


def test_what_is_not_there_is_named(cli: CommandLine) -> None:
    missing = cli("schemas", "export", cli.program, "--facet", "shop.Shop")
    assert missing.code == 3
    assert "there is no event facet shop.Shop" in missing.err

    plain = cli("schemas", "export", cli.file("plain.afl", "namespace n { workflow W() }"))
    assert plain.code == 2
    assert "declare no event facet" in plain.err
