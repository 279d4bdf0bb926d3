"""Records and parameters that cannot be used: each is told, dead-lettered or passed over, and holds up nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from afl.engine.model.store import COMPLETED, ERROR
from afl_stream.bridge import Arrival, Bridge, BridgeInvalid, ForNoWorkflow, PublishedEvent
from afl_stream.bridge.errors import BridgeNotRunning, BridgeTopicMissing
from afl_stream.embedded.transport import Faults
from afl_stream.transport import BrokerUnavailable, NotAuthorized
from afl_stream.wire.headers import header
from tests.eventually import eventually
from tests.scenarios.bridge_lives import BridgeLife, Newsroom
from tests.worlds.deployment import Deployment
from tests.worlds.world import World
from tests.worlds.worlds import MEMORY

WORKFLOWS: Final = """
namespace orders {
  event facet Announce(order: String, size: Long, note: Json = null) => (sent: String)
  workflow Tell(order: String, size: Long = 3, note: Json = null) => (sent: String) andThen {
    told = Announce(order = $.order, size = $.size, note = $.note)
    yield Tell(sent = told.sent)
  }
  workflow Wait() => (data: Json) andThen {
    answer = afl.WaitForEvent(name = "approved")
    yield Wait(data = answer.data)
  }
}
"""
RUN: Final = "run-1"
WORLDS: Final = (MEMORY,)


def life_of(deployment: Deployment, declare: Callable[[Bridge], None]) -> BridgeLife:
    return BridgeLife(deployment, declare)


# --- records that are read -------------------------------------------------------------------------------------------


def raising(arrival: Arrival) -> str:
    raise LookupError(f"no order {arrival.key}")


def by_order(arrival: Arrival) -> Any:
    assert isinstance(arrival.data, dict)
    return arrival.data.get("order")


@pytest.mark.parametrize(
    ("value", "key", "options", "reason"),
    [
        (b"{", b"7", {}, "bad_json"),
        (b"\xff\xfe", b"7", {}, "bad_utf8"),
        (b"\xc3\x01garbage", b"7", {}, None),
        (b"[" * 100_000, b"7", {}, "too_deep"),
        (b'{"order": "not a workflow id"}', b"7", {"workflow_id": by_order}, "bad_id"),
        (b'{"order": 7}', b"7", {"workflow_id": by_order}, "bad_id"),
        (b"[]", b"7", {"workflow_id": by_order}, "RecordRefused"),
        (b"1", b"7", {"workflow_id": raising}, "RecordRefused"),
        (b"1", b"7", {"data": lambda arrival: object()}, "ValueRefused"),
        (b"1", b"7", {"event_id": lambda arrival: ""}, "bad_id"),
        (b"1", b"7", {"name": lambda arrival: "x" * 300}, "bad_id"),
        (b'"' + b"x" * 895_000 + b'"', b"7", {"data": lambda arrival: [arrival.data, arrival.data]}, "EventTooLarge"),
    ],
)
def test_a_record_that_cannot_be_used_becomes_a_dead_letter_and_the_next_is_taken(
    world: World, value: bytes, key: bytes, options: dict[str, Any], reason: str | None
) -> None:
    deployment = world.deployment(WORKFLOWS)
    approvals = f"{deployment.config.prefix}approvals"
    life = life_of(deployment, lambda bridge: bridge.raise_events(approvals, **{"name": "approved", **options}))

    deployment.put(approvals, value, key=key)
    eventually(lambda: life.bridge.counts.dead_lettered == 1)
    if not options:
        deployment.put(approvals, b"1", key=b"run-1")
        eventually(lambda: life.bridge.counts.raised == 1)
    life.end()

    (letter,) = deployment.dead_letters(approvals)
    assert (letter.key, letter.value) == (key, value)
    assert reason in (None, header(letter.headers, "afl.dlq.reason"))
    assert header(letter.headers, "afl.dlq.topic") == approvals


@pytest.mark.parametrize(
    ("policy", "skipped", "dead_lettered"), [(ForNoWorkflow.SKIP, 2, 0), (ForNoWorkflow.DEAD_LETTER, 0, 2)]
)
def test_a_record_for_no_workflow_is_passed_over_or_dead_lettered(
    world: World, policy: ForNoWorkflow, skipped: int, dead_lettered: int
) -> None:
    deployment = world.deployment(WORKFLOWS)
    approvals = f"{deployment.config.prefix}approvals"

    def declare(bridge: Bridge) -> None:
        bridge.raise_events(approvals, name="approved", for_no_workflow=policy)

    life = life_of(deployment, declare)
    for key in (None, b"", RUN.encode()):
        deployment.put(approvals, b"1", key=key)
    deployment.client.start("orders.Wait", workflow_id=RUN)
    eventually(lambda: life.bridge.counts.raised == 1)
    eventually(lambda: life.bridge.counts.skipped + life.bridge.counts.dead_lettered == 2)
    life.settle()
    life.end()

    assert deployment.workflow(RUN).outputs == {"data": 1}
    assert (life.bridge.counts.skipped, life.bridge.counts.dead_lettered) == (skipped, dead_lettered)


def test_events_of_one_workflow_are_raised_in_the_order_of_their_records(world: World) -> None:
    deployment = world.deployment(WORKFLOWS)
    approvals = f"{deployment.config.prefix}approvals"
    life = life_of(deployment, lambda bridge: bridge.raise_events(approvals, name="approved"))
    for number in range(100):
        deployment.queue(approvals, b"%d" % number, key=RUN.encode())
    deployment.flush()
    eventually(lambda: life.bridge.counts.raised == 100)
    deployment.client.start("orders.Wait", workflow_id=RUN)
    life.settle()
    life.end()

    raised = [row.value for row in deployment.store.history(RUN) if row.name == "approved" and row.value is not None]
    assert raised == list(range(100))


def test_bridges_of_two_names_each_read_all_records(world: World) -> None:
    deployment = world.deployment(WORKFLOWS)
    approvals = f"{deployment.config.prefix}approvals"
    bridges = [Bridge(deployment.config, name=name) for name in ("one", "two")]
    for bridge in bridges:
        bridge.raise_events(approvals, name="approved", event_id=lambda arrival: str(arrival.data))
    transport = deployment.cluster.transport(Faults())
    bridges[0].apply_topics(transport)

    with bridges[0].running(transport), bridges[1].running(transport):
        for number in range(5):
            deployment.put(approvals, b"%d" % number, key=RUN.encode())
        eventually(lambda: [bridge.counts.raised for bridge in bridges] == [5, 5])


def test_bridges_of_two_names_may_raise_two_events_for_one_record(world: World) -> None:
    deployment = world.deployment(WORKFLOWS)
    approvals = f"{deployment.config.prefix}approvals"
    bridges = {name: Bridge(deployment.config, name=name) for name in ("audited", "approved")}
    for name, bridge in bridges.items():
        bridge.raise_events(approvals, name=name)
    deployment.evaluator()
    transport = deployment.cluster.transport(Faults())
    bridges["audited"].apply_topics(transport)
    deployment.put(approvals, b"7", key=RUN.encode())

    for bridge in bridges.values():
        with bridge.running(transport):
            eventually(lambda raising=bridge: raising.counts.raised == 1)  # type: ignore[misc]
    deployment.client.start("orders.Wait", workflow_id=RUN)
    deployment.settle()

    assert deployment.workflow(RUN).outputs == {"data": 7}


def test_a_broker_that_is_away_is_waited_for(world: World) -> None:
    deployment = world.deployment(WORKFLOWS)
    approvals, announced = (f"{deployment.config.prefix}{name}" for name in ("approvals", "announced"))

    def declare(bridge: Bridge) -> None:
        bridge.raise_events(approvals, name="approved")
        bridge.publish("orders.Announce", to=announced, results=lambda published: {"sent": published.key})

    life = life_of(deployment, declare)
    life.transport_faults.fail_at("produce.before_append", times=2, error=BrokerUnavailable("no broker answers"))
    deployment.put(approvals, b"1", key=RUN.encode())
    eventually(lambda: life.bridge.counts.raised == 1)
    life.transport_faults.fail_at("produce.before_append", times=2, error=BrokerUnavailable("no broker answers"))
    deployment.client.start("orders.Tell", {"order": "7"}, workflow_id="tell-1")
    eventually(lambda: deployment.round() >= 0 and life.bridge.counts.published == 1)
    life.settle()
    life.end()

    assert life.bridge.counts.retried == 2
    assert life.bridge.counts.dead_lettered == 0
    assert deployment.workflow("tell-1").outputs == {"sent": "tell-1"}


def test_a_right_that_is_missing_ends_the_bridge_and_gives_up_no_record(world: World) -> None:
    deployment = world.deployment(WORKFLOWS)
    approvals = f"{deployment.config.prefix}approvals"
    refused = NotAuthorized("topic external", "WRITE")

    def declare(bridge: Bridge) -> None:
        bridge.raise_events(approvals, name="approved")

    life = life_of(deployment, declare)
    life.transport_faults.fail_at("produce.before_append", error=refused)
    deployment.put(approvals, b"1", key=RUN.encode())
    eventually(lambda: life.has_failed)
    with pytest.raises(NotAuthorized, match="an ACL for this user is missing"):
        life.end()
    second = life_of(deployment, declare)
    eventually(lambda: second.bridge.counts.raised == 1)
    second.end()

    assert deployment.dead_letters(approvals) == []


def test_a_dead_letter_that_is_too_large_loses_its_value(world: World) -> None:
    deployment = world.deployment(WORKFLOWS)
    approvals = f"{deployment.config.prefix}approvals"
    transport = deployment.cluster.transport(Faults())
    transport.admin().create_topic(approvals, partitions=1, settings={"max.message.bytes": str(10_000_000)})
    life = life_of(deployment, lambda bridge: bridge.raise_events(approvals, name="approved"))

    deployment.put(approvals, b"x" * 9_000_000, key=b"7")
    eventually(lambda: life.bridge.counts.dead_lettered == 1)
    life.end()

    (letter,) = deployment.dead_letters(approvals)
    assert (letter.key, letter.value) == (b"7", None)
    assert header(letter.headers, "afl.dlq.value_omitted") == "9000000 bytes"


# --- events that are published ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "options", "error_type", "said"),
    [
        ({"order": ""}, {"request_id": "order"}, "ParameterRefused", "parameter order is ''; the id of a request is"),
        ({"order": "7"}, {"request_id": "note"}, "ParameterRefused", "parameter note is None; the id of a request"),
        ({"order": "7"}, {"request_id": lambda payload: 1.5}, "ParameterRefused", "the request id is 1.5"),
        ({"order": "7"}, {"request_id": "buyer"}, "ParameterMissing", "no parameter buyer; it has order, size, note"),
        ({"order": "7"}, {"data": "buyer"}, "ParameterMissing", "the event has no parameter buyer"),
        ({"order": "7"}, {"data": lambda payload: payload["buyer"]}, "KeyError", "buyer"),
        ({"order": "7"}, {"data": lambda payload: object()}, "TypeError", "not JSON serializable"),
        ({"order": "7"}, {}, "ResultMismatch", "lacks sent"),
    ],
)
def test_an_event_that_cannot_be_published_fails_its_step(
    world: World, inputs: dict[str, object], options: dict[str, Any], error_type: str, said: str
) -> None:
    deployment = world.deployment(WORKFLOWS)
    announced = f"{deployment.config.prefix}announced"
    life = life_of(deployment, lambda bridge: bridge.publish("orders.Announce", to=announced, **options))

    deployment.client.start("orders.Tell", inputs, workflow_id=RUN)
    life.settle()
    life.end()

    row = deployment.workflow(RUN)
    assert row.status == ERROR
    assert row.error is not None
    assert row.error.type == error_type
    assert said in row.error.message
    assert len(deployment.records(announced)) == (1 if error_type == "ResultMismatch" else 0)


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        ({"request_id": "size"}, b"3", b'{"order":"7","size":3,"note":null}'),
        ({"request_id": lambda payload: f"order-{payload['order']}"}, b"order-7", None),
        ({"data": "order"}, RUN.encode(), b'"7"'),
        # A tombstone would say that the key is gone.
        ({"data": "note"}, RUN.encode(), b"null"),
        ({"data": lambda payload: [payload["size"]]}, RUN.encode(), b"[3]"),
    ],
)
def test_key_and_data_of_a_published_event_are_chosen(
    world: World, options: dict[str, Any], key: bytes, value: bytes | None
) -> None:
    deployment = world.deployment(WORKFLOWS)
    announced = f"{deployment.config.prefix}announced"

    def sent(published: PublishedEvent) -> dict[str, object]:
        return {"sent": published.key}

    life = life_of(deployment, lambda bridge: bridge.publish("orders.Announce", to=announced, results=sent, **options))
    deployment.client.start("orders.Tell", {"order": "7"}, workflow_id=RUN)
    life.settle()
    life.end()

    (record,) = deployment.records(announced)
    assert record.key == key
    assert value in (None, record.value)
    row = deployment.workflow(RUN)
    assert (row.status, row.outputs) == (COMPLETED, {"sent": key.decode()})


# --- declarations ----------------------------------------------------------------------------------------------------


def test_a_bridge_does_not_start_on_topics_that_do_not_exist(world: World) -> None:
    deployment = world.deployment(WORKFLOWS)
    transport = deployment.cluster.transport(Faults())
    announced, approvals = (f"{deployment.config.prefix}{name}" for name in ("announced", "approvals"))
    publishing, raising_events = Bridge(deployment.config), Bridge(deployment.config)
    publishing.publish("orders.Announce", to=announced)
    raising_events.raise_events(approvals, name="approved")

    with pytest.raises(BridgeTopicMissing, match=f"{announced} does not exist and is needed for the events of facet"):
        publishing.start(transport)
    transport.admin().create_topic(approvals, partitions=1)
    with pytest.raises(BridgeTopicMissing, match=f"dlq.{approvals.removeprefix(deployment.config.prefix)} does not"):
        raising_events.start(transport)


def test_a_topic_is_read_once(world: World) -> None:
    bridge = Bridge(world.deployment().config)
    bridge.raise_events("approvals", name="approved")

    with pytest.raises(BridgeInvalid, match="topic approvals: the bridge reads it already"):
        bridge.raise_events("approvals", name="declined")


def test_a_reply_needs_a_facet_that_a_workflow_answers_and_a_bridge_that_runs(world: World) -> None:
    bridge = Bridge(world.deployment().config)
    bridge.answer_with_workflow("news.Review", Newsroom().workflow)

    with pytest.raises(BridgeInvalid, match=r"facet orders\.Announce: no workflow answers it"):
        bridge.reply("orders.Announce", "run-1:0a#1", "yes", reply_id="1")
    with pytest.raises(BridgeNotRunning):
        bridge.reply("news.Review", "run-1:0a#1", "yes", reply_id="1")
