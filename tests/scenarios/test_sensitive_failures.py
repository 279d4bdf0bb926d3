"""Texts of failures quote no sensitive value, whoever makes them: the engine, an agent of others, a refusal."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from afl.engine.model.store import COMPLETED, ERROR
from afl_stream.agent.agent import HandlerContext
from afl_stream.evaluator.sensitive.redacted_store import redacted
from afl_stream.sensitive.marks import SENSITIVE_HEADER
from afl_stream.settings.logs import LoggingSettings
from afl_stream.visibility import RunRecordReader, show_workflow
from afl_stream.wire.dead_letters import DlqHeader, dlq_header
from afl_stream.wire.messages import FailureReason, StepFailed
from tests.record_headers import headers_of
from tests.worlds.deployment import Deployment
from tests.worlds.world import World
from tests.worlds.worlds import MEMORY, SQLITE

WORLDS = (MEMORY, SQLITE)

SECRET: Final = "c4nary"
PIN: Final = 8_714_236_590_114
#: What expressions below make of it.
MADE: Final = str(PIN * 9_000_000)
SOURCE: Final = """namespace vault {
  /** @sensitive pin
   * @sensitive code */
  event facet Ask(pin: Long, word: String = "") => (code: String)
  event facet Plain(text: String) => (length: Long)
  /** @sensitive pin
   * @sensitive words
   * @sensitive table */
  workflow Open(kind: String, pin: Long = 0, words: [String] = [], table: Json = #{}) => (out: String) andThen when {
    case $.kind == "too big" => { a = Ask(pin = $.pin * 9000000) }
    case $.kind == "no index" => { a = Ask(pin = 1, word = $.words[$.pin]) }
    case $.kind == "no key" => { a = Ask(pin = 1, word = $.table[$.words[0]]) }
    case _ => {
      a = Ask(pin = $.pin)
      yield Open(out = a.code)
    }
  }
  workflow Measure() => (length: Long) andThen {
    p = Plain(text = "x")
    yield Measure(length = p.length)
  }
}
"""
INPUTS: Final = {"pin": PIN, "words": [f"{SECRET}-word"], "table": {"a": 1}}


@pytest.fixture
def deployment(world: World) -> Deployment:
    made = world.deployment(SOURCE)
    made.evaluator()
    return made


def assert_hidden(text: str) -> None:
    assert [one for one in (SECRET, str(PIN), MADE) if one in text] == []


def failure_of(deployment: Deployment, workflow_id: str = "w1") -> str:
    row = deployment.workflow(workflow_id)
    assert row.status == ERROR
    assert row.error is not None
    return f"{row.error.type}: {row.error.message}"


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("too big", "payload.pin: a Long was expected, found the integer [sensitive], beyond 64 bits"),
        ("no index", "index error: [sensitive] is out of range"),
        ("no key", "index error: key [sensitive] not found"),
    ],
)
def test_what_an_expression_makes_of_a_sensitive_value_is_not_quoted(
    deployment: Deployment, kind: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        deployment.client.start("vault.Open", {**INPUTS, "kind": kind}, workflow_id="w1")
        deployment.settle()

    assert told in failure_of(deployment)
    assert_hidden(failure_of(deployment))
    assert_hidden(caplog.text)


def test_a_result_of_another_type_is_told_by_its_type_where_the_return_is_sensitive(
    deployment: Deployment, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(payload: dict[str, Any], _context: HandlerContext) -> dict[str, Any]:
        return {"code": PIN}

    deployment.worker({"vault.Ask": answer})
    with caplog.at_level("DEBUG"):
        deployment.client.start("vault.Open", {**INPUTS, "kind": "plain"}, workflow_id="w1")
        deployment.settle()

    assert "a String was expected, found the integer [sensitive]" in failure_of(deployment)
    assert_hidden(caplog.text)


def test_values_that_are_logged_when_asked_for_hide_the_sensitive_ones(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = world.deployment(SOURCE, logging=LoggingSettings(values=True))
    deployment.evaluator()
    deployment.worker({"vault.Ask": lambda _payload, _context: {"code": f"{SECRET}-code"}})
    with caplog.at_level("INFO"):
        deployment.client.start("vault.Open", {**INPUTS, "kind": "plain"}, workflow_id="w1")
        deployment.settle()

    assert deployment.workflow("w1").status == COMPLETED
    logged = [vars(record) for record in caplog.records]
    assert {"pin": "[sensitive]", "word": "[sensitive]"} in [one.get("payload") for one in logged]
    assert [one["result"] for one in logged if "result" in one] == [{"code": "[sensitive]"}] * 2
    assert_hidden(repr(logged))


def test_values_of_a_facet_without_marks_are_quoted_as_ever(deployment: Deployment) -> None:
    deployment.worker({"vault.Plain": lambda _payload, _context: {"length": "seven"}})
    deployment.client.start("vault.Measure", {}, workflow_id="w1")
    deployment.settle()

    assert "found the String 'seven'" in failure_of(deployment)


def test_what_an_agent_of_others_quotes_is_neither_kept_nor_logged_nor_shown(
    deployment: Deployment, caplog: pytest.LogCaptureFixture
) -> None:
    deployment.client.start("vault.Open", {**INPUTS, "kind": "plain"}, workflow_id="w1")
    deployment.settle()
    step = deployment.step("w1", "vault.Ask")
    failed = StepFailed(
        step_id=step.id, workflow_id="w1", error=FailureReason(type="Refused", message=f"no pin {PIN} here")
    )
    value = deployment.codec.encode(failed, deployment.topology.control())
    with caplog.at_level("DEBUG"):
        deployment.put(deployment.topology.control(), value, key=b"w1")
        deployment.settle()
        deployment.put(deployment.topology.control(), value, key=b"w1")
        deployment.settle()

    store = redacted(deployment.store, deployment.config.sensitive.patterns)
    shown = show_workflow(store, "w1", RunRecordReader(deployment.config, deployment.transport))

    assert failure_of(deployment) == "Refused: no pin [sensitive] here"
    assert_hidden(caplog.text)
    assert "Refused: [sensitive]" in json.dumps(shown.to_dict())
    assert_hidden(json.dumps(shown.to_dict()))


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"kind": "plain", "pin": f"{SECRET}-pin"}, "input pin is the String [sensitive], expected Long"),
        ({"kind": "plain", "words": [PIN]}, "a String was expected, found the integer [sensitive]"),
    ],
)
def test_a_refused_start_quotes_no_sensitive_input_and_its_dead_letter_names_them(
    deployment: Deployment, inputs: dict[str, Any], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    commands = deployment.topology.commands()
    start = {"workflow_id": "w1", "workflow": "vault.Open", "inputs": inputs}
    with caplog.at_level("DEBUG"):
        deployment.put(commands, json.dumps(start).encode(), key=b"w1")
        deployment.settle()

    (letter,) = deployment.dead_letters(commands)
    text = dlq_header(letter.headers, DlqHeader.ERROR) or ""
    assert told in text
    assert_hidden(text)
    assert_hidden(caplog.text)
    assert_hidden("".join(str(record.value) for record in deployment.records(deployment.topology.lifecycle())))
    assert headers_of(letter)[SENSITIVE_HEADER] == ",".join(sorted(inputs.keys() - {"kind"})).encode()
