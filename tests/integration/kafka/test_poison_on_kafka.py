"""Unusable records on a real broker: dead letters have the reason and the origin, other records are handled."""

from collections.abc import Mapping

from afl.engine.model.store import ERROR, StepDocument
from afl_stream.transport import Headers
from afl_stream.wire.messages import CancelWorkflow, ExternalEvent, Message, StepContinue
from tests.eventually import eventually
from tests.record_headers import headers_of
from tests.unit.stream.agent.agent_bench import named
from tests.worlds.deployment import Deployment
from tests.worlds.party_handlers import DEADLY, DEFERRED
from tests.worlds.processes import DEADLINE_S, Party
from tests.worlds.shop import ORDER, SHOP, assert_one_answer_each, start_orders
from tests.worlds.world import Deployments

ORDERS = 2
MAX_CRASHES = 3
#: Processes that may die of a record before it is parked, and those that die beside it.
MOST_LIVES = 2 * MAX_CRASHES + 2

#: What is wrong, the record's key and value, and the reason that its dead letter gives.
Poison = Mapping[str, tuple[bytes | None, bytes | None, str]]


def poison_from(good: bytes) -> Poison:
    """Spoilt records; the last has a good value under a key that is no text."""
    return {
        "garbage": (b"k", b"\x07garbage", "bad_magic"),
        "null value": (b"k", None, "null_value"),
        "wrong magic": (b"k", b"\xc3\x02" + good[2:], "bad_magic"),
        "unknown schema": (b"k", b"\xc3\x01" + bytes(range(8)) + b"body", "unknown_schema"),
        "truncated": (b"k", good[:-1], "truncated"),
        "key that is no text": (b"\xff\xfe", good, "bad_key"),
    }


def put_poison(deployment: Deployment, topic: str, poison: Poison, named: Mapping[str, Headers] = {}) -> None:
    """`named`: headers of some of them, by which they say whose event they are."""
    for name, (key, value, _) in poison.items():
        deployment.queue(topic, value, key=key, headers=(("poison", name.encode()), *named.get(name, ())))
    deployment.flush()


def assert_dead_lettered(deployment: Deployment, topic: str, poison: Poison) -> None:
    """One dead letter each, as it was, with the reason and the place that it came from."""
    came = {headers_of(r)["poison"].decode(): r for r in deployment.records(topic) if "poison" in headers_of(r)}
    letters = deployment.dead_letters(topic)
    assert len(letters) == len(poison)
    for letter in letters:
        headers = headers_of(letter)
        name = headers["poison"].decode()
        key, value, reason = poison[name]
        assert (letter.key, letter.value) == (key, value)
        assert headers["afl.dlq.reason"].decode() == reason, f"{name}: {headers['afl.dlq.error']!r}"
        assert headers["afl.dlq.topic"].decode() == topic
        assert headers["afl.dlq.partition"].decode() == str(came[name].partition)
        assert headers["afl.dlq.offset"].decode() == str(came[name].offset)
        assert headers["afl.dlq.timestamp"].decode() == str(came[name].timestamp_ms)
        assert headers.get("afl.dlq.key") == key
        assert headers["afl.dlq.error_class"] == b"Unreadable"


def assert_orders_done(deployment: Deployment, orders: list[str]) -> None:
    deployment.processes.finish(orders)
    for order in orders:
        assert_one_answer_each(deployment, order)


def test_poison_on_the_control_topic_is_dead_lettered_and_the_answers_are_applied(deployments: Deployments) -> None:
    deployment = deployments(SHOP)
    control = deployment.topology.control()
    good = deployment.codec.encode(StepContinue(step_id="order-0:ab12", result={"amount": 1}), control)
    poison = poison_from(good)
    put_poison(deployment, control, poison)
    orders = start_orders(deployment, ORDERS)
    evaluator = deployment.processes.evaluator()
    deployment.processes.agent()

    assert_orders_done(deployment, orders)

    assert_dead_lettered(deployment, control, poison)
    assert evaluator.stop()["outcomes"]["unreadable"] == len(poison)


def test_poison_on_the_topics_of_commands_and_external_events_is_dead_lettered_and_both_are_read_on(
    deployments: Deployments,
) -> None:
    deployment = deployments(SHOP)
    commands, external = deployment.topology.commands(), deployment.topology.external()
    good: dict[str, Message] = {
        commands: CancelWorkflow(workflow_id="order-0"),
        external: ExternalEvent(workflow_id="order-0", name="rain"),
    }
    poison = {topic: poison_from(deployment.codec.encode(good[topic], topic)) for topic in good}
    for topic in good:
        put_poison(deployment, topic, poison[topic])
    orders = start_orders(deployment, ORDERS)
    deployment.processes.evaluator()
    deployment.processes.agent()

    assert_orders_done(deployment, orders)

    def are_all_there() -> bool:
        return all(len(deployment.dead_letters(topic)) == len(poison[topic]) for topic in good)

    eventually(are_all_there, DEADLINE_S, interval_s=0.1)
    for topic in good:
        assert_dead_lettered(deployment, topic, poison[topic])


def waiting_step(deployment: Deployment, workflow_id: str, item: str) -> StepDocument:
    """Return the step that asks for the price of this item, as soon as it has asked."""

    def found() -> list[StepDocument]:
        steps = deployment.steps(workflow_id)
        return [step for step in steps if step.params.get("item") == item and step.event_state]

    eventually(found, DEADLINE_S)
    (step,) = found()
    return step


def event_of(deployment: Deployment, topic: str, step_id: str) -> bytes:
    """Return what the step's event says, as soon as it is published."""

    def found() -> list[bytes]:
        return [r.value for r in deployment.records(topic) if r.key == step_id.encode() and r.value is not None]

    eventually(found, DEADLINE_S, interval_s=0.1)
    return found()[0]


def test_poison_on_a_facet_topic_is_dead_lettered_and_its_step_is_told(deployments: Deployments) -> None:
    deployment = deployments(SHOP)
    topic = deployment.topology.facet("shop.Price")
    orders = start_orders(deployment, ORDERS)
    deployment.client.start(ORDER, {"items": ["tea", "sugar", DEFERRED]}, workflow_id="spoilt")
    deployment.processes.evaluator()
    deployment.processes.agent()
    step = waiting_step(deployment, "spoilt", DEFERRED)
    asked = event_of(deployment, topic, step.id)
    poison = {name: entry for name, entry in poison_from(asked).items() if name != "key that is no text"}
    # A stranger's record under the step's key, and one that stands in the place of its event.
    poison["garbage"] = (step.id.encode(), b"\x07garbage", "bad_magic")
    poison["truncated"] = (step.id.encode(), asked[:-1], "truncated")

    put_poison(deployment, topic, poison, {"truncated": named(step.id, 1)})
    deployment.processes.finish(["spoilt"])

    failed = deployment.workflow("spoilt")
    assert failed.status == ERROR
    assert failed.error is not None
    assert (failed.error.type, failed.error.facet, failed.error.step_id) == ("UnreadableEvent", "shop.Price", step.id)
    eventually(lambda: len(deployment.dead_letters(topic)) == len(poison), DEADLINE_S, interval_s=0.1)
    assert_dead_lettered(deployment, topic, poison)
    assert_orders_done(deployment, orders)


def dies(agent: Party, deployment: Deployment) -> bool:
    """Wait until the agent has died of an event, or the workflow of the event has ended; whether it died."""
    eventually(lambda: agent.has_died() or deployment.processes.has_ended("spoilt"), DEADLINE_S)
    return agent.has_died()


def test_an_event_that_kills_its_agent_is_parked_after_so_many_crashes_and_its_workflow_fails(
    deployments: Deployments,
) -> None:
    deployment = deployments(SHOP, settings={"AFL_AGENT_MAX_CRASHES": str(MAX_CRASHES)})
    orders = start_orders(deployment, ORDERS)
    deployment.client.start(ORDER, {"items": ["tea", "sugar", DEADLY]}, workflow_id="spoilt")
    deployment.processes.evaluator()
    deaths = 0
    for _ in range(MOST_LIVES):
        agent = deployment.processes.agent()
        if not dies(agent, deployment):
            break
        deaths += 1

    assert_orders_done(deployment, orders)
    failed = deployment.workflow("spoilt")
    assert failed.status == ERROR
    assert failed.error is not None
    assert (failed.error.type, failed.error.facet) == ("PoisonEvent", "shop.Price")
    assert deaths >= MAX_CRASHES
    (letter,) = deployment.dead_letters(deployment.topology.facet("shop.Price"))
    assert headers_of(letter)["afl.dlq.reason"] == b"PoisonEvent"
    assert letter.key == failed.error.step_id.encode()
