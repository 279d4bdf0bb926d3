"""The agent in Ruby, from the documents alone: keys, each form of an event, a probe, and one group with Python."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from afl.engine.model.store import COMPLETED
from afl_stream.broker.process import leash_to
from afl_stream.errors import NewerFormat, Unreadable
from afl_stream.wire.avro.schema import parse_schema_text
from afl_stream.wire.codec import single_object_codec
from afl_stream.wire.event_writers import EventForm
from afl_stream.wire.schema_source import InMemorySchemaLog, schema_headers
from tests.eventually import eventually
from tests.integration.clients.fetched import run_in
from tests.integration.clients.mixed_group import LONG, TASKS, MixedGroup
from tests.unit.stream.wire.test_json_events import PARAMS, PAYLOAD, RETURNS
from tests.unit.stream.wire.test_payload_records import SCOPE, an_event
from tests.worlds.processes import DEADLINE_S, ROOT
from tests.worlds.requirements import required_tool
from tests.worlds.world import Deployments

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

FOLDER = ROOT / "examples" / "ruby"
VECTORS = ROOT / "schemas" / "partitioner_vectors.json"
#: Reads schemas and records, each as key, value in hex and headers, and prints the events, or why there is none.
READ = """
require "events"
Found = Struct.new(:key, :value, :headers)
read = ->(list) { list.map { |key, value, headers| Found.new(key, [value].pack("H*"), headers) } }
schemas, events = JSON.parse($stdin.read).map(&read)
reader = AFL::Reader.new { |&found| schemas.each(&found) }
found = events.map do |record|
  reader.read(record)
rescue AFL::Unreadable => error
  error.reason
rescue AFL::Waits
  "newer"
end
puts JSON.generate(found)
"""


def test_it_places_keys_as_others_do(tmp_path: Path) -> None:
    counted = run_in(tmp_path, [_ruby(), "-w", str(FOLDER / "vectors.rb"), str(VECTORS)])

    assert int(counted) == len(json.loads(VECTORS.read_text())["vectors"])


def test_it_reads_the_same_event_in_each_form() -> None:
    log = InMemorySchemaLog()
    values = []
    for form in (EventForm.AVRO, EventForm.JSON, EventForm.CLOUDEVENTS):
        codec = single_object_codec(log, event_form={"shop.Ship": form}.get)
        writer = codec.event_writer("shop.Ship", PARAMS, SCOPE, returns=RETURNS)
        values.append(writer.encode(an_event(PAYLOAD)))

    avro, in_json, in_cloudevent = _read_by_ruby([(value, []) for value in values], log)

    assert in_json["payload"] == {
        "order": 2**63 - 1, "amount": 2.0, "items": [{"sku": "größe", "price": 1.0, "tags": None}, None],
        "mood": [1, {"good": True}],
    }  # fmt: skip
    assert in_json["returns"] == {"required": ["receipt"], "optional": ["note"]}
    assert in_cloudevent == in_json
    # What has no value has no member in JSON, and is null in Avro.
    assert {name: value for name, value in avro.items() if value is not None} == {
        name: value for name, value in in_json.items() if name != "type"
    }


def test_it_refuses_records_for_the_reasons_that_ours_has() -> None:
    codec = single_object_codec(InMemorySchemaLog(), event_form={"shop.Ship": EventForm.JSON}.get)
    good = codec.event_writer("shop.Ship", PARAMS, SCOPE).encode(an_event(PAYLOAD))
    event = json.loads(good)
    without_id = {name: event[name] for name in event if name != "id"}
    changed = [{**event, "payload": "a text"}, without_id, {"type": "Nothing"}, {**event, "runtime_version": "1.0.0"}]
    values = [b"[1]", good[:40], b'{"a": "\xff"}', b"\xff{}", b"\xc3\x01" + bytes(20)]
    values += [json.dumps(each).encode() for each in changed]
    given: list[tuple[bytes, list[tuple[str, str]]]] = [(value, []) for value in values]
    given += [(good, [("afl", text)]) for text in ('{"afl": 2}', "{", '{"afl": 1, "versions": "2.0/1.0/0.1.0"}')]

    ours = []
    for value, headers in given:
        try:
            codec.decode(value, [(name, text.encode()) for name, text in headers], json_allowed=True)
        except Unreadable as error:
            ours.append(error.reason.value)
        except NewerFormat:
            ours.append("newer")

    assert _read_by_ruby(given) == ours


def test_it_answers_events_in_avro_and_a_probe_finds_no_fault(deployments: Deployments, tmp_path: Path) -> None:
    deployment = deployments(TASKS)
    bootstrap, prefix = deployment.config.kafka.bootstrap or "", deployment.config.prefix
    deployment.processes.evaluator()
    deployment.client.start("tasks.One", {"kind": "flaky", "number": LONG}, workflow_id="in-avro")
    with _agent(tmp_path, bootstrap, prefix, deployment.agent_group):
        eventually(partial(deployment.processes.has_ended, "in-avro"), DEADLINE_S)
    row = deployment.workflow("in-avro")
    assert (row.status, row.outputs) == (COMPLETED, {"text": "try 2", "by": "ruby"})

    payload = json.dumps({"kind": "plain", "number": LONG})
    words = ("agent", "probe", "--facet", "tasks.Do", "--payload", payload, "--json")
    with _agent(tmp_path, bootstrap, f"{prefix}probe.", f"{prefix}probe.agent.tasks.Do"):
        probe = deployment.processes.command(*words, AFL_PREFIX=prefix)
        assert probe.exit_code() == 0, probe.log
    verdicts = {one["case"]: one for one in json.loads("\n".join(probe.lines))}
    assert all(one["faults"] == [] for one in verdicts.values())
    assert "dead letter" in verdicts["no JSON"]["came"]


def test_a_facet_moves_from_python_to_ruby_without_a_stop(deployments: Deployments, tmp_path: Path) -> None:
    group = MixedGroup(deployments, "ruby", assignor="range")
    with group.joined_by([_ruby(), "-w", str(FOLDER / "tasks.rb")], tmp_path):
        group.share()
        group.rebalance(times=4)
        group.move()
        group.answer_all_kinds()
    group.check_answers()


def _ruby() -> str:
    required_tool("kcat")  # With it comes the library that the agent calls.
    return required_tool("ruby")


def _read_by_ruby(
    records: list[tuple[bytes, list[tuple[str, str]]]], log: InMemorySchemaLog | None = None
) -> list[Any]:
    schemas = []
    for key, value in log.records if log else ():
        text = (value or b"").decode()
        headers = [(name, (said or b"").decode()) for name, said in schema_headers(parse_schema_text(text))]
        schemas.append(((key or b"").decode(), text.encode().hex(), headers))
    given = json.dumps([schemas, [(None, value.hex(), headers) for value, headers in records]])
    command = [_ruby(), "-w", "-I", str(FOLDER), "-e", READ]
    read = subprocess.run(command, input=given, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (read.returncode, read.stderr) == (0, "")
    return list(json.loads(read.stdout))


@contextmanager
def _agent(folder: Path, *words: str) -> Iterator[None]:
    command = [_ruby(), "-w", str(FOLDER / "tasks.rb"), *words]
    log_path = folder / "agent.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [*leash_to(os.getpid()), *command],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        yield
        process.terminate()
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
        process.wait()
        sys.stderr.write(log_path.read_text(errors="replace")[-4_000:])
