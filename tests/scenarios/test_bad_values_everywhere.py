"""Non-AFL values are refused by one name on every path, with their place, and nothing was written before."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from afl.cli import main
from afl.core.values import ValueRefused
from afl.engine.states import StepState
from afl.runtime import AgentPoller, AgentPollerConfig
from afl_stream.errors import StreamError
from afl_stream.wire.messages import StepContinue, StepFailed
from tests.bad_values import BEYOND_64_BITS, NOT_TAKEN, OF_JSON, BadNumber, BadValue
from tests.contract.store_rows import public_step
from tests.scenarios.command_lines import CommandLine
from tests.unit.stream.agent import agent_bench
from tests.unit.workers.workshop import Workshop
from tests.worlds.deployment import Deployment
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

#: What a value is does not depend on the broker.
WORLDS = EMBEDDED

PROGRAM = """
namespace shop {
    event facet Pay(order: Json) => (receipt: Json, price: Double, count: Long, text: String)
    workflow Buy(order: Json) => (receipt: Json) andThen {
        paid = Pay(order = $.order)
        yield Buy(receipt = paid.receipt)
    }
}
"""
NAME = "ValueRefused"
#: In no other text of an error: parts of a traceback, or of another library's message.
FOREIGN = ("Traceback", "TypeError", "not JSON serializable", "can't encode", "recursion", "Circular")

every_value = pytest.mark.parametrize("bad", NOT_TAKEN, ids=lambda bad: bad.name)
every_number = pytest.mark.parametrize("bad", [*OF_JSON, BEYOND_64_BITS], ids=lambda bad: bad.name)


def assert_says(text: str, path: str, found: str) -> None:
    """Check that a message has the place, what was expected there and what was found."""
    assert path in text
    assert "was expected, found " in text
    assert found in text
    assert not [word for word in FOREIGN if word in text]


def within(bad: BadValue) -> dict[str, Any]:
    return {"items": [0, {"inner": bad.make()}]}


PATH = ".items[1].inner"


@pytest.fixture
def shop() -> Workshop:
    return Workshop(program=PROGRAM)


# --- the Python API ------------------------------------------------------------------------------------------------


@every_value
def test_inputs_are_refused_and_no_run_is_stored(shop: Workshop, bad: BadValue) -> None:
    result = shop.evaluator.execute("shop.Buy", {"order": within(bad)}, shop.program, workflow_id="run")

    assert type(result.error).__name__ == NAME
    assert isinstance(result.error, ValueRefused)
    assert_says(str(result.error), "inputs.order", bad.found)
    assert shop.store.load_workflow("run") is None


@every_value
def test_an_answer_is_refused_and_the_step_waits_for_another(shop: Workshop, bad: BadValue) -> None:
    shop.start("Buy", order=1)
    step_id, before = shop.task().step_id, shop.store.revisions(["run"])
    answers: list[tuple[str, Callable[[], None]]] = [
        ("partial", lambda: shop.evaluator.update_step(step_id, {"receipt": within(bad)})),
        ("result", lambda: shop.evaluator.continue_step(step_id, {"receipt": within(bad)})),
    ]

    for path, answer in answers:
        with pytest.raises(ValueRefused) as refused:
            answer()
        assert_says(str(refused.value), f"{path}.receipt", bad.found)
    assert shop.store.revisions(["run"]) == before
    shop.evaluator.continue_step(step_id, {"receipt": "good"})
    assert shop.evaluator.resume("run").outputs == {"receipt": "good"}


@every_value
def test_an_answer_that_is_checked_fails_its_step_by_that_name(shop: Workshop, bad: BadValue) -> None:
    shop.start("Buy", order=1)

    shop.evaluator.continue_step(shop.task().step_id, {"receipt": within(bad)}, is_checked=True)
    shop.evaluator.resume("run")

    error_type, message = shop.failure()
    assert error_type == NAME
    assert_says(message, "result.receipt", bad.found)


@every_value
def test_an_answer_to_a_saved_step_is_refused_and_the_step_stays_as_it_was(shop: Workshop, bad: BadValue) -> None:
    step = public_step(state=StepState.EVENT_TRANSMIT)
    shop.store.save_step(step)
    before = shop.store.get_step(step.id)

    with pytest.raises(ValueRefused) as refused:
        shop.evaluator.continue_step(step.id, {"receipt": within(bad)})

    assert_says(str(refused.value), "result.receipt", bad.found)
    assert shop.store.get_step(step.id) == before


@pytest.mark.parametrize("message", [{1}, None, b"x", 7])
def test_a_failure_that_is_no_text_is_refused(shop: Workshop, message: Any) -> None:
    shop.start("Buy", order=1)

    with pytest.raises(ValueRefused, match="error_message: a String was expected"):
        shop.evaluator.fail_step(shop.task().step_id, message)
    with pytest.raises(ValueRefused, match="error_type: a String was expected"):
        shop.evaluator.fail_step(shop.task().step_id, "no", message)
    assert shop.status() == "PAUSED"


# --- handlers ------------------------------------------------------------------------------------------------------


@every_value
def test_a_poller_fails_the_step_by_that_name(shop: Workshop, bad: BadValue) -> None:
    shop.start("Buy", order=1)
    poller = AgentPoller(shop.store, shop.evaluator, AgentPollerConfig())
    poller.register("shop.Pay", lambda payload: {"receipt": within(bad)})

    poller.poll_once()

    error_type, message = shop.failure()
    assert error_type == NAME
    assert_says(message, "result.receipt", bad.found)


@every_value
def test_an_agent_fails_the_step_by_the_same_name_in_the_same_words(shop: Workshop, bad: BadValue) -> None:
    shop.start("Buy", order=1)
    poller = AgentPoller(shop.store, shop.evaluator, AgentPollerConfig())
    poller.register("shop.Pay", lambda payload: {"receipt": within(bad)})
    poller.poll_once()
    bench = agent_bench.Deployment()
    bench.publish(agent_bench.event())
    agent = bench.agent()

    agent.register(agent_bench.PAY, lambda payload: {"receipt": within(bad)})
    agent.run_once(1)

    (answer,) = bench.answers()
    assert isinstance(answer, StepFailed)
    assert (answer.error.type, answer.error.message) == shop.failure()


@every_value
def test_what_a_handler_tells_meanwhile_is_refused_where_it_tells_it(bad: BadValue) -> None:
    bench = agent_bench.Deployment()
    bench.publish(agent_bench.event())
    agent = bench.agent()

    agent.register(agent_bench.PAY, lambda payload, context: context.update({"log": within(bad)}))
    agent.run_once(1)

    (answer,) = bench.answers()
    assert isinstance(answer, StepFailed)
    assert answer.error.type == NAME
    assert_says(answer.error.message, "partial.log", bad.found)


# --- records -------------------------------------------------------------------------------------------------------


@pytest.fixture
def deployment(world: World) -> Deployment:
    made = world.deployment(PROGRAM)
    made.evaluator()
    made.settle()
    return made


@every_value
def test_a_client_refuses_before_it_produces(world: World, bad: BadValue) -> None:
    deployment = world.deployment(PROGRAM)
    sends: list[tuple[str, Callable[[], object]]] = [
        ("inputs.order", lambda: deployment.client.start("shop.Buy", {"order": within(bad)}, workflow_id="w")),
        ("result.receipt", lambda: deployment.client.continue_step("w:0f", {"receipt": within(bad)})),
    ]

    for path, send in sends:
        with pytest.raises(ValueRefused) as refused:
            send()
        assert type(refused.value).__name__ == NAME
        assert isinstance(refused.value, StreamError)
        assert_says(str(refused.value), path, bad.found)
    assert deployment.records(deployment.topology.control()) == []
    assert deployment.records(deployment.topology.commands()) == []


@every_number
def test_an_answer_as_json_is_a_dead_letter_that_names_the_place_and_the_step_waits(
    deployment: Deployment, bad: BadNumber
) -> None:
    deployment.client.start("shop.Buy", {"order": 1}, workflow_id="w")
    deployment.settle()
    step_id = deployment.step("w", "shop.Pay").id
    answer = f'{{"step_id": "{step_id}", "result": {{"receipt": [0, {{"inner": {bad.text}}}]}}}}'

    deployment.put(deployment.topology.control(), answer.encode(), key=b"w", partition=0)
    deployment.settle()

    (letter,) = deployment.dead_letters(deployment.topology.control())
    error = next(value for name, value in letter.headers if name == "afl.dlq.error")
    assert error is not None
    assert_says(error.decode(), "StepContinue.result.receipt[1].inner", bad.found)
    assert deployment.step("w", "shop.Pay").state == StepState.EVENT_TRANSMIT


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_an_answer_in_avro_that_only_other_languages_write_fails_the_step_by_that_name(
    deployment: Deployment, number: float
) -> None:
    deployment.client.start("shop.Buy", {"order": 1}, workflow_id="w")
    deployment.settle()
    step_id = deployment.step("w", "shop.Pay").id
    good = deployment.codec.encode(StepContinue(step_id=step_id, result={"price": 0.123456789}))
    record = good.replace(struct.pack("<d", 0.123456789), struct.pack("<d", number))
    assert record != good
    deployment.put(deployment.topology.control(), record, key=b"w", partition=0)
    deployment.settle()

    error = deployment.workflow("w").error
    assert error is not None
    assert error.type == NAME
    assert_says(error.message, "result.price", f"the Double {number!r}, which is not a finite number")


# --- the commands --------------------------------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "shop.afl"
    path.write_text(PROGRAM, encoding="utf-8")
    return str(path)


@every_number
def test_afl_run_refuses_inputs_and_answers_and_prints_nothing(
    program: str, tmp_path: Path, bad: BadNumber, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text(f'{{"shop.Pay": {{"receipt": [0, {{"inner": {bad.text}}}]}}}}', encoding="utf-8")
    nested = f'[0, {{"inner": {bad.text}}}]'
    calls = [
        ("inputs.order[1].inner", ["--input", f"order={nested}"]),
        ("--inputs.order[1].inner", ["--inputs", f'{{"order": {nested}}}']),
        ("--answers['shop.Pay'].receipt[1].inner", ["--input", "order=1", "--answers", str(answers)]),
    ]

    for path, words in calls:
        assert main(["run", program, *words]) != 0
        out, err = capsys.readouterr()
        assert out == ""
        assert_says(err, path, bad.found)


def test_a_run_of_an_earlier_release_is_shown_as_json_whatever_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command_line = CommandLine(tmp_path, capsys)
    command_line(
        "dev", command_line.program, "--input", 'hosts=["a"]', "--id", "w", "--handlers", command_line.handlers
    )
    deep = "[" * 900 + "]" * 900
    stored = '{"a": NaN, "b": [Infinity, -Infinity], "c": "\\ud800", "d": ' + deep + f', "e": {10**1200}}}'
    with closing(sqlite3.connect(command_line.data_dir / "store.sqlite3")) as file, file:
        file.execute("UPDATE workflow_inputs SET document = ?", (stored.encode(),))

    for asked in (("status", "w", "--json"), ("status", "--json"), ("status", "w")):
        called = command_line(*asked)
        assert called.code == 0, called.err
        if "--json" in asked:
            document = json.loads(called.out, parse_constant=pytest.fail)
            inputs = (document if isinstance(document, dict) else document[0])["inputs"]
            assert (inputs["a"], inputs["b"], inputs["c"]) == ("NaN", ["Infinity", "-Infinity"], "\ud800")
