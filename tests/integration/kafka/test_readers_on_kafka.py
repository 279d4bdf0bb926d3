"""A facet's topic as others read it: one record for each step, to be read and answered with Avro and schemas/."""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

import fastavro
import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form

from afl.engine.model.store import COMPLETED, StepDocument
from afl_stream.partitioner import partition_for
from afl_stream.wire.avro.schema import parse_schema_text
from afl_stream.wire.messages import StepContinue
from tests.eventually import eventually
from tests.integration.java_programs import EXAMPLES, JavaPrograms
from tests.integration.schemas_page import SCHEMAS, programs
from tests.worlds.deployment import Deployment
from tests.worlds.processes import DEADLINE_S
from tests.worlds.world import Deployments

SALES = """
namespace shop {
  schema Line { name: String, price: Double, tags: [String] }
  event facet Charge(order: String, amount: Double = 10.0) => (receipt: String)
  event facet Pack(lines: [Line], gift: Boolean, note: String, card: String, weight: Long, extra: Json, sizes: [Long])
    => (parcel: String)
  facet Receipts(orders: [String]) => (receipts: [String]) andThen foreach order in $.orders {
    paid = Charge(order = $.order)
    yield Receipts(receipts = [paid.receipt])
  }
  workflow Sale(orders: [String], lines: [Line], extra: Json) => (receipts: [String], parcel: String) andThen {
    paid = Receipts(orders = $.orders)
    sent = Pack(lines = $.lines, gift = true, note = null, weight = 9007199254740993, extra = $.extra, sizes = [1, -2])
    yield Sale(receipts = paid.receipts, parcel = sent.parcel)
  }
  workflow Checkout(order: String) => (receipt: String) andThen {
    paid = Charge(order = $.order)
    yield Checkout(receipt = paid.receipt)
  }
}
"""
CHARGE, PACK = "shop.Charge", "shop.Pack"
HANDLERS = """
def charge(payload):
    return {"receipt": "r-" + payload["order"]}

def pack(payload):
    return {"parcel": "p"}

def register_handlers(runner):
    runner.register("shop.Charge", charge)
    runner.register("shop.Pack", pack)
"""
ORDERS: Final = [f"order {number}" for number in range(12)]
#: Text beyond ASCII, numbers that a reader may spoil, a field that is left out, nested values of any type.
LINES: Final = [{"name": "お茶 “é” \\ \t", "price": 0.1, "tags": []}, {"name": "sugar", "tags": ["a", "b"]}]
EXTRA: Final = {"deep": [1, 2.5, None, True, {"text": "x", "big": -(2**63)}], "none": None}


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> JavaPrograms:
    """Return the page's Java program, the example's and the tests' own."""
    folder = tmp_path_factory.mktemp("java")
    shown = folder / "ReadEvents.java"
    shown.write_text(programs()["ReadEvents.java"])
    return JavaPrograms(
        folder, [shown, EXAMPLES / "ChargeAgent.java", Path(__file__).parents[1] / "java" / "Reckoned.java"]
    )


@pytest.fixture
def ended_sale(deployments: Deployments, tmp_path: Path) -> Deployment:
    """Return a deployment in which one run has come to its end."""
    deployment = deployments(SALES)
    handlers = tmp_path / "desk.py"
    handlers.write_text(HANDLERS)
    deployment.processes.evaluator()
    deployment.processes.command("agent", "--handlers", str(handlers))
    deployment.client.start("shop.Sale", {"orders": ORDERS, "lines": LINES, "extra": EXTRA}, workflow_id="sale")
    deployment.processes.finish(["sale"])
    assert deployment.workflow("sale").status == COMPLETED
    return deployment


def read_by_python(deployment: Deployment, facet: str, folder: Path) -> list[dict[str, Any]]:
    """Return what the page's Python program prints, in the order of the keys; it loads nothing of ours."""
    program = folder / "read_events.py"
    program.write_text(programs()[program.name])
    run = subprocess.run(
        [sys.executable, "-I", "-X", "importtime", str(program), *addresses(deployment, facet)],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    loaded = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert "fastavro" in loaded
    ours = {"afl", "afl_stream", "tests", "tools"}
    assert [name for name in loaded if name.partition(".")[0] in ours] == []
    return by_key(run.stdout)


def addresses(deployment: Deployment, facet: str) -> tuple[str, str, str]:
    topology = deployment.topology
    return deployment.config.kafka.bootstrap or "", topology.schemas(), topology.facet(facet)


def by_key(printed: str) -> list[dict[str, Any]]:
    return sorted((json.loads(line) for line in printed.splitlines()), key=lambda line: str(line["key"]))


def steps_of(deployment: Deployment, facet: str) -> list[StepDocument]:
    return sorted((s for s in deployment.steps("sale") if s.facet_name == facet), key=lambda step: step.id)


def supplied(wire: Any) -> Any:
    """Return a payload as the page has an agent's author read it: nothing absent, values without records."""
    if isinstance(wire, list):
        return [supplied(entry) for entry in wire]
    if not isinstance(wire, dict):
        return wire
    if list(wire) == ["value"]:
        return supplied(wire["value"])
    entries = dict(wire)
    absent, extra = entries.pop("_absent", ()), entries.pop("_extra", {})
    return {name: supplied(entry) for name, entry in {**entries, **extra}.items() if name not in absent}


def test_python_and_java_read_one_record_for_each_step_with_its_parameters(
    ended_sale: Deployment, java: JavaPrograms, tmp_path: Path
) -> None:
    for facet, count in ((CHARGE, len(ORDERS)), (PACK, 1)):
        steps = steps_of(ended_sale, facet)
        read = read_by_python(ended_sale, facet, tmp_path)

        assert by_key(java.run("ReadEvents", *addresses(ended_sale, facet))) == read
        assert len(read) == count
        assert [line["key"] for line in read] == [step.id for step in steps]
        assert [line["event"]["step_id"] for line in read] == [step.id for step in steps]
        assert [line["event"]["event_type"] for line in read] == [facet] * count
        assert [supplied(line["event"]["payload"]) for line in read] == [dict(step.params) for step in steps]
        placed = java.run("Reckoned", "partition", "4", text="\n".join(step.id for step in steps))
        assert [line["partition"] for line in read] == [int(number) for number in placed.split()]
    (pack,) = read
    assert pack["event"]["payload"]["_absent"] == ["card"]
    assert supplied(pack["event"]["payload"]) == {
        "lines": LINES, "gift": True, "note": None, "weight": 2**53 + 1, "extra": EXTRA, "sizes": [1, -2],
    }  # fmt: skip


def test_the_schemas_topic_holds_plain_json_under_its_sha256_and_java_finds_our_fingerprints(
    ended_sale: Deployment, java: JavaPrograms
) -> None:
    announced = ended_sale.records(ended_sale.topology.schemas())
    assert {record.key for record in announced} == {
        hashlib.sha256(record.value or b"").hexdigest().encode() for record in announced
    }
    texts = [(record.value or b"").decode() for record in announced]
    texts += [file.read_text() for file in sorted(SCHEMAS.glob("*.avsc"))]

    lines = "\n".join(json.dumps(json.loads(text)) for text in texts)
    found = java.run("Reckoned", "fingerprint", text=lines).split()

    assert found == [f"{parse_schema_text(text).fingerprint:016x}" for text in texts]
    used = {
        (record.value or b"")[2:10][::-1].hex()
        for topic in (ended_sale.topology.facet(CHARGE), ended_sale.topology.control(), ended_sale.topology.commands())
        for record in ended_sale.records(topic)
    }
    assert used <= set(found[: len(announced)])


#: Key and record of each topic, as the page's first table has them.
_ROW: Final = re.compile(r"^\| `\w+\.avsc` \| `(\w+)` \| (.+?) \| (.+?) \| ", re.MULTILINE)
#: What the header `afl` says of every record, and of those that are about a step or a workflow.
_MEMBERS: Final = {"afl", "versions", "specversion", "id", "source", "type"}
_MEMBERS_OF_RUNS: Final = _MEMBERS | {"time", "subject"}


def test_topics_have_the_records_keys_and_headers_of_the_page(ended_sale: Deployment) -> None:
    page, prefix = (SCHEMAS / "README.md").read_text(), ended_sale.config.prefix
    for member in _MEMBERS_OF_RUNS:
        assert f"`{member}`" in page
    (fingerprint_of_program,) = (program.fingerprint for program in ended_sale.programs)
    keys = {
        "step id": {step.id for step in ended_sale.steps("sale") if step.event_state},
        "workflow id": {"sale"},
        "fingerprint": {fingerprint_of_program},
        "`name:<workflow>`": {"name:shop.Sale", "name:shop.Checkout"},
        "`store`": {"store"},
    }
    seen = set()
    for name, topic, key in _ROW.findall(page):
        facets = [ended_sale.topology.facet(facet) for facet in (CHARGE, PACK)]
        for place in facets if name == "Event" else [topic.strip("`").replace("afl.", prefix, 1)]:
            for record in ended_sale.records(place):
                message = ended_sale.codec.decode(record.value, record.headers, json_allowed=True)
                if type(message).__name__ == name:
                    seen.add(name)
                    assert (record.key or b"").decode() in keys[key]
                    assert [header for header, _ in record.headers][:2] == ["content-type", "afl"]
                    of_programs = key in ("fingerprint", "`name:<workflow>`", "`store`")
                    said = json.loads(dict(record.headers)["afl"] or b"")
                    assert (_MEMBERS if of_programs else _MEMBERS_OF_RUNS) <= said.keys()

    assert seen == {
        "Event",
        "StepContinue",
        "StartWorkflow",
        "Lifecycle",
        "ProgramDefinition",
        "ProgramPointer",
        "StoreClaim",
    }


@pytest.fixture
def waiting_checkouts(deployments: Deployments) -> Deployment:
    """Return a deployment with an evaluator and no agent, in which three steps wait for one."""
    deployment = deployments(SALES)
    deployment.processes.evaluator()
    for order in ("1", "2", "3"):
        deployment.client.start("shop.Checkout", {"order": order}, workflow_id=f"checkout-{order}")
    eventually(lambda: len(deployment.events(CHARGE)) == 3, DEADLINE_S, interval_s=0.1)
    return deployment


def receipts(deployment: Deployment) -> list[object]:
    return [(deployment.workflow(f"checkout-{order}").outputs or {}).get("receipt") for order in ("1", "2", "3")]


def has_committed_all(deployment: Deployment, group: str, topic: str) -> bool:
    committed = deployment.committed(group, [topic])
    return all(
        place in committed and record.offset < committed[place].offset
        for record in deployment.records(topic)
        for place in (record.topic_partition,)
    )


def test_an_agent_in_java_answers_in_avro_and_the_workflows_continue(
    waiting_checkouts: Deployment, java: JavaPrograms, tmp_path: Path
) -> None:
    deployment, log = waiting_checkouts, tmp_path / "agent-in-java.log"
    prefix, file = deployment.config.prefix, SCHEMAS / "step_continue.avsc"
    words = (deployment.config.kafka.bootstrap or "", prefix, str(file))
    with java.running("ChargeAgent", *words, log=log) as agent:
        ids = [f"checkout-{order}" for order in ("1", "2", "3")]
        eventually(lambda: all(map(deployment.processes.has_ended, ids)) or agent.poll() is not None, DEADLINE_S)
        assert agent.poll() is None, log.read_text()
        group, topic = f"{prefix}agent.{CHARGE}", deployment.topology.facet(CHARGE)
        eventually(partial(has_committed_all, deployment, group, topic), DEADLINE_S, interval_s=0.1)

    assert receipts(deployment) == ["r-1", "r-2", "r-3"]
    announced = {record.key: record.value for record in deployment.records(deployment.topology.schemas())}
    assert announced[hashlib.sha256(file.read_bytes()).hexdigest().encode()] == file.read_bytes()
    answers = deployment.messages(deployment.topology.control())
    assert [answer.agent for answer in answers if isinstance(answer, StepContinue)] == ["ChargeAgent.java"] * 3
    for record in deployment.records(deployment.topology.control()):
        assert record.partition == partition_for(record.key or b"", 2)


#: As the page allows: optional fields left out, one of the writer's own, and a record in the place of the result.
OWN_SCHEMA = """{"type": "record", "name": "StepContinue", "namespace": "afl.v1", "fields": [
    {"name": "mood", "type": "string"},
    {"name": "result", "type": {"type": "record", "name": "Charged", "fields": [
        {"name": "receipt", "type": "string"}]}},
    {"name": "step_id", "type": "string"}]}"""


def test_an_answer_with_a_schema_of_its_writers_own_continues_a_step(waiting_checkouts: Deployment) -> None:
    deployment = waiting_checkouts
    schema = fastavro.parse_schema(json.loads(OWN_SCHEMA))
    mark = b"\xc3\x01" + bytes.fromhex(fingerprint(to_parsing_canonical_form(json.loads(OWN_SCHEMA)), "CRC-64-AVRO"))
    key = hashlib.sha256(OWN_SCHEMA.encode()).hexdigest().encode()
    deployment.queue(deployment.topology.schemas(), OWN_SCHEMA.encode(), key=key)
    deployment.flush()

    for event in deployment.events(CHARGE):
        body = io.BytesIO()
        answer = {"step_id": event.step_id, "result": {"receipt": f"own-{event.payload['order']}"}, "mood": "fine"}
        fastavro.schemaless_writer(body, schema, answer)
        deployment.queue(deployment.topology.control(), mark + body.getvalue(), key=event.workflow_id.encode())
    deployment.flush()

    deployment.processes.finish([f"checkout-{order}" for order in ("1", "2", "3")])
    assert receipts(deployment) == ["own-1", "own-2", "own-3"]
