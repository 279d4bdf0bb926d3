"""Results whose names are not those that the facet declares: refused by the agent where it can know, and everywhere."""

import json
from typing import Any

import pytest

from afl.core.declared_returns import DeclaredReturns
from afl.engine.model.store import ErrorRecord
from afl_stream.agent.agent import HandlerContext
from afl_stream.embedded.transport import Crash
from afl_stream.wire.messages import Message, StepContinue, StepFailed
from tests.worlds.deployment import Deployment, program_of
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

#: What a result is does not depend on the broker.
WORLDS = EMBEDDED

SHOP = """
namespace shop {
  event facet Price(item: String) => (price: Double, note: String = "none", more: Json)
  event facet Tell(text: String)
  event facet Weigh(item: String) => (grams: Long, stones: Double)
  workflow Buy(item: String) => (price: Double, note: String) andThen {
    p = Price(item = $.item)
    yield Buy(price = p.price, note = p.note)
  }
  workflow Say(text: String) andThen { t = Tell(text = $.text) }
  workflow Send(item: String) => (stones: Double) andThen {
    w = Weigh(item = $.item) andThen { yield Weigh(stones = w.grams / 6350.0) }
    yield Send(stones = w.stones)
  }
}
"""
MISTYPED = {"prise": 1.5, "note": "x"}
SAID = (
    "the result of shop.Price lacks price and has prise, which shop.Price does not declare; "
    "it has to hold price, and it may hold note, more"
)


@pytest.fixture
def deployment(world: World) -> Deployment:
    made = world.deployment(SHOP)
    made.evaluator()
    made.settle()
    return made


def start(deployment: Deployment, workflow: str = "Buy", **inputs: object) -> None:
    deployment.client.start(f"shop.{workflow}", inputs or {"item": "a"}, workflow_id="wf-1")
    deployment.settle()


def answers(deployment: Deployment) -> list[Message]:
    return deployment.messages(deployment.topology.control())


def first_cause(deployment: Deployment) -> ErrorRecord:
    error = deployment.workflow("wf-1").error
    assert error is not None
    return error


def work(deployment: Deployment, facet: str, handler: Any) -> None:
    deployment.worker({facet: handler}).join()
    deployment.settle()


def test_a_handler_knows_the_returns_of_its_facet(deployment: Deployment) -> None:
    seen: list[DeclaredReturns | None] = []

    def look(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        seen.append(context.returns)
        return {"price": 1.5}

    work(deployment, "shop.Price", look)
    start(deployment)

    assert seen == [DeclaredReturns(("price",), ("note", "more"))]


def test_an_agent_refuses_a_key_that_is_not_declared_before_it_answers(deployment: Deployment) -> None:
    work(deployment, "shop.Price", lambda payload: MISTYPED)

    start(deployment)

    (answer,) = answers(deployment)
    assert isinstance(answer, StepFailed)
    assert (answer.error.type, answer.error.message) == ("ResultMismatch", SAID)
    assert (first_cause(deployment).type, first_cause(deployment).message) == ("ResultMismatch", SAID)


def test_a_missing_return_is_left_to_the_evaluator_which_says_the_same(deployment: Deployment) -> None:
    work(deployment, "shop.Price", lambda payload: {"note": "x"})

    start(deployment)

    assert isinstance(answers(deployment)[-1], StepContinue)
    error = first_cause(deployment)
    assert error.type == "ResultMismatch"
    assert error.message == "the result of shop.Price lacks price; it has to hold price, and it may hold note, more"
    assert error.path == "shop.Buy.p"


def test_a_return_that_another_process_has_told_is_not_missing(deployment: Deployment) -> None:
    def handle(payload: dict[str, object], context: HandlerContext) -> dict[str, object]:
        reported = {"step_id": context.step_id, "partial": {"price": 3.0}}
        deployment.put(deployment.topology.control(), json.dumps(reported).encode())
        return {"note": "of the agent"}

    work(deployment, "shop.Price", handle)
    start(deployment)

    assert deployment.workflow("wf-1").outputs == {"price": 3.0, "note": "of the agent"}


def test_a_return_that_was_told_before_a_crash_is_not_missing(deployment: Deployment) -> None:
    def handle(payload: dict[str, object], context: HandlerContext) -> dict[str, object]:
        context.update({"price": 4.0})
        raise Crash("handler")

    first = deployment.worker({"shop.Price": handle})
    first.join()
    with pytest.raises(Crash):
        start(deployment)
    deployment.remove(first, killed=True)

    work(deployment, "shop.Price", lambda payload: {"note": "of the next agent"})

    assert deployment.workflow("wf-1").outputs == {"price": 4.0, "note": "of the next agent"}


def test_the_answer_of_any_other_writer_is_refused_in_the_same_words(deployment: Deployment) -> None:
    start(deployment)
    step_id = deployment.step("wf-1", "shop.Price").id

    deployment.put(deployment.topology.control(), json.dumps({"step_id": step_id, "result": MISTYPED}).encode())
    deployment.settle()

    assert (first_cause(deployment).type, first_cause(deployment).message) == ("ResultMismatch", SAID)
    assert deployment.outcomes()["applied"] == 2


def test_a_retry_asks_the_mended_handler_and_not_the_bad_answer(deployment: Deployment) -> None:
    result: dict[str, object] = MISTYPED
    work(deployment, "shop.Price", lambda payload: result)
    start(deployment)

    result = {"price": 1.5}
    deployment.client.retry("wf-1")
    deployment.settle()

    assert deployment.workflow("wf-1").outputs == {"price": 1.5, "note": "none"}
    assert [event.attempt for event in deployment.events("shop.Price")] == [1, 2]


def test_what_a_handler_has_told_by_updates_is_not_missing(deployment: Deployment) -> None:
    def handle(payload: dict[str, object], context: HandlerContext) -> dict[str, object]:
        context.update({"price": 2.0, "percent": 50})
        return {"note": "told"}

    work(deployment, "shop.Price", handle)
    start(deployment)

    assert deployment.workflow("wf-1").outputs == {"price": 2.0, "note": "told"}


def test_a_facet_without_returns_takes_any_result(deployment: Deployment) -> None:
    work(deployment, "shop.Tell", lambda payload: {"told": True})
    start(deployment, "Say", text="x")

    assert deployment.workflow("wf-1").status == "COMPLETED"
    assert deployment.step("wf-1", "shop.Tell").returns == {"told": True}


def test_a_return_that_the_body_of_a_call_gives_is_not_asked_of_the_agent(deployment: Deployment) -> None:
    work(deployment, "shop.Weigh", lambda payload: {"grams": 6350})
    start(deployment, "Send", item="a")

    assert deployment.workflow("wf-1").outputs == {"stones": 1.0}


def test_events_are_as_long_as_without_what_they_tell_of_returns(deployment: Deployment) -> None:
    start(deployment)
    (record,) = deployment.records(deployment.topology.facet("shop.Price"))
    (event,) = deployment.events("shop.Price")
    plain = deployment.codec.event_writer("shop.Price", [{"name": "item", "type": "String"}])

    assert record.value is not None
    assert deployment.codec.returns_of(record.value) == (("price",), ("note", "more"))
    # The same body behind another schema's fingerprint.
    assert plain.encode(event)[10:] == record.value[10:]
    assert isinstance(event.payload, dict)


def test_returns_under_another_program_are_those_of_its_own_events(deployment: Deployment) -> None:
    work(deployment, "shop.Price", lambda payload: {"price": 1.5})
    start(deployment)
    assert isinstance(answers(deployment)[-1], StepContinue)

    deployment.client.deploy(program_of(SHOP.replace("more: Json", "vat: Double")))
    deployment.client.start("shop.Buy", {"item": "b"}, workflow_id="wf-2")
    deployment.settle()

    error = deployment.workflow("wf-2").error
    assert error is not None
    assert error.message.startswith("the result of shop.Price lacks vat; it has to hold price, vat")
