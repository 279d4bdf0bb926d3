"""The external topic is read like the others: assigned with them, paused, continued from the store's positions."""

from __future__ import annotations

import pytest

from afl.core.limits import MAX_VALUE_DEPTH
from afl_stream.evaluator.offsets import TopicRecreated
from afl_stream.transport import Assignor, TopicPartition
from afl_stream.wire.headers import HeaderForm, headers_for
from afl_stream.wire.messages import CancelWorkflow, ExternalEvent, StepContinue
from tests.eventually import eventually
from tests.worlds.gate import ASKING, RUN, Gate
from tests.worlds.parties import Evaluator
from tests.worlds.world import World
from tests.worlds.worlds import EACH_ONCE, EMBEDDED, EMBEDDED_DURABLE, in_worlds

WORLDS = EACH_ONCE


def test_one_evaluator_owns_the_same_partition_of_all_three_topics(world: World) -> None:
    gate = Gate(world, control_partitions=2)
    gate.deployment.evaluator()
    gate.deployment.settle()
    # A broker that nothing is read from may take longer to let the second one in.
    eventually(lambda: gate.deployment.round() or all(e.stats.owned for e in gate.deployment.evaluators), 30.0)

    topology = gate.deployment.topology
    owned = [evaluator.stats.owned for evaluator in gate.deployment.evaluators]
    numbers = [{place.partition for place in places} for places in owned]
    assert sorted(map(sorted, numbers)) == [[0], [1]]
    for places in owned:
        assert {place.topic for place in places} == {topology.control(), topology.commands(), topology.external()}


def test_a_newer_event_pauses_its_partition_and_the_rest_continues(world: World) -> None:
    gate = Gate(world)
    deployment = gate.deployment
    external = deployment.topology.external()
    event = ExternalEvent(workflow_id=RUN, name="go", value="newer")
    headers = tuple(
        (name, b"7.0" if name == "afl_runtime_version" else value)
        for name, value in headers_for(event, source="/tests", form=HeaderForm.CLOUDEVENTS)
    )
    deployment.put(external, deployment.codec.encode(event, external), key=RUN.encode(), headers=headers)
    gate.send("behind it")
    deployment.settle()
    gate.start(ASKING)

    ((place, why),) = gate.evaluator.stats.paused.items()
    assert place == TopicPartition(external, 0)
    assert "upgrade this process" in why
    assert gate.letters() == []
    assert gate.history() == []
    assert deployment.workflow(RUN).status == "PAUSED"
    assert gate.evaluator.stats.events.happened == {}


@in_worlds(EMBEDDED_DURABLE)
def test_a_recreated_external_topic_is_refused_by_name(world: World) -> None:
    gate = Gate(world)
    deployment = gate.deployment
    gate.raised("one")
    deployment.remove(gate.evaluator, killed=False)
    deployment.recreate(deployment.topology.external())
    evaluator = deployment.evaluator()

    with pytest.raises(TopicRecreated, match=r"external\[0\]"):
        turns(evaluator, 5)


@in_worlds(EMBEDDED_DURABLE)
def test_an_event_in_the_place_of_one_of_the_topic_before_is_another_one(world: World) -> None:
    gate = Gate(world, lost_records="continue")
    deployment = gate.deployment
    gate.raised("early")
    gate.start()
    deployment.remove(gate.evaluator, killed=False)
    deployment.recreate(deployment.topology.external())
    deployment.clock.advance(1)
    gate.evaluator = deployment.evaluator()
    gate.raised("in the same place")

    assert gate.outputs() == {"got": ["early", "in the same place"]}


@in_worlds(EMBEDDED_DURABLE)
def test_a_parked_answer_in_the_place_of_one_of_the_topic_before_is_another_one(world: World) -> None:
    gate = Gate(world, lost_records="continue")
    deployment = gate.deployment
    deployment.send(StepContinue(step_id=f"{RUN}:0a", result={}))
    deployment.settle()
    deployment.remove(gate.evaluator, killed=False)
    deployment.recreate(deployment.topology.control())
    deployment.clock.advance(1)
    gate.evaluator = deployment.evaluator()
    deployment.send(StepContinue(step_id=f"{RUN}:0b", result={}))
    deployment.settle()

    assert [answer.step_id for answer in deployment.store.parked()] == [f"{RUN}:0a", f"{RUN}:0b"]


SMALL = headers_for(ExternalEvent(workflow_id=RUN, name="go", value=None), source="/tests")


def test_ids_without_bounds_cost_their_own_records_only(world: World) -> None:
    gate = Gate(world)
    deployment = gate.deployment
    external = deployment.topology.external()
    for number in range(20):
        event = ExternalEvent(workflow_id=f"{number}{'x' * 890_000}", name="go", value=None)
        deployment.put(external, deployment.codec.encode(event, external), key=b"w", headers=SMALL)
    gate.raised("behind them")

    assert gate.pending() == ["behind them"]
    assert [reason for reason, _ in gate.letters()] == 20 * ["bad_id"]


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


#: Fields of an event as a stranger writes them, in JSON; they stand behind a workflow's id and a name, and win.
HOSTILE = {
    "nesting at the bound": f'"value": {nested(MAX_VALUE_DEPTH)}',
    "nesting below it": f'"value": {nested(MAX_VALUE_DEPTH - 1)}',
    "nesting two below it": f'"value": {nested(MAX_VALUE_DEPTH - 2)}',
    "nesting above it": f'"value": {nested(MAX_VALUE_DEPTH + 1)}',
    "deep nesting": f'"value": {nested(20_000)}',
    "not a number": '"value": NaN',
    "infinite": '"value": [1e400]',
    "a huge number": '"value": ' + "9" * 5_000,
    "a negative number": f'"value": {-(2**63)}',
    "below all numbers": f'"value": {-(2**63) - 1}',
    "half a character": '"value": "\\ud800"',
    "half a character as a key": '"value": {"\\udfff": 1}',
    "a null character": '"value": {"\\u0000": "\\u0000", "$set": {"a.b": 1}}',
    "an id of half a character": '"value": 1, "id": "\\ud800"',
    "an id of a null character": '"value": 1, "id": "\\u0000"',
    "an empty id": '"value": 1, "id": ""',
    "a long id": '"value": 1, "id": "' + "x" * 800_000 + '"',
    "an id that is a place": '"value": 1, "id": "dev.external/99999999999999999999/-1@0"',
    "an id of digits that are none": '"value": 1, "id": "dev.external/\u00b2/\u00b2@0"',
    "a number as its id": '"value": 1, "id": 7',
    "a time before all": f'"value": 1, "created_at": {-(2**63)}',
    "a time that is none": '"value": 1, "created_at": "yesterday"',
    "no value": '"extra": {}',
}


@in_worlds(EMBEDDED)
@pytest.mark.parametrize("when", ["before the start", "before the wait", "at the wait", "after the end"])
def test_whatever_an_event_says_it_is_kept_or_a_dead_letter_and_holds_nothing_up(world: World, when: str) -> None:
    gate = Gate(world, early_event_expiry_ms=60_000)
    deployment = gate.deployment
    ids = [f"wf-{number}" for number in range(len(HOSTILE))]
    for workflow_id in ids if when != "before the start" else ():
        gate.order(workflow_id=workflow_id, first="other" if when == "before the wait" else "go", second="never")
    deployment.settle()
    for workflow_id in ids if when == "after the end" else ():
        deployment.send(CancelWorkflow(workflow_id=workflow_id))
    deployment.settle()
    for workflow_id, fields in zip(ids, HOSTILE.values(), strict=True):
        text = f'{{"workflow_id": "{workflow_id}", "name": "go", {fields}}}'
        deployment.put(deployment.topology.external(), text.encode(), key=workflow_id.encode())
        gate.send("behind", name="last", workflow_id=workflow_id)
    deployment.settle()

    kept = {workflow_id: [row.name for row in gate.events(workflow_id)] for workflow_id in ids}
    assert [workflow_id for workflow_id, names in kept.items() if names[-1:] != ["last"]] == []
    letters = len(ids) - sum("go" in names for names in kept.values())
    assert len(gate.letters()) == letters
    assert 0 < letters < len(ids)
    # A restarted evaluator reads all of them back.
    deployment.remove(gate.evaluator, killed=True)
    gate.evaluator = deployment.evaluator()
    for workflow_id in ids:
        gate.send(None, name="other", workflow_id=workflow_id)
    deployment.settle()
    assert [workflow_id for workflow_id in ids if len(gate.events(workflow_id)) != len(kept[workflow_id]) + 1] == []
    if when == "before the start":
        # All are given up in time, as dead letters.
        for _ in range(3):
            deployment.clock.advance(70_000)
            deployment.settle()
        assert [workflow_id for workflow_id in ids if gate.history(workflow_id)] == []
        assert len(gate.letters()) == 3 * len(ids)


def turns(evaluator: Evaluator, count: int) -> None:
    for _ in range(count):
        evaluator.turn()


@in_worlds(EMBEDDED)
def test_a_member_that_reads_two_topics_only_costs_conflicts_and_no_event(world: World) -> None:
    gate = Gate(world, control_partitions=2)
    deployment = gate.deployment
    topology = deployment.topology
    transport = deployment.cluster.transport(deployment.broker_faults)
    earlier = transport.consumer(deployment.config.evaluator_group, assignor=Assignor.RANGE)
    earlier.subscribe([topology.control(), topology.commands()])
    for _ in range(20):
        earlier.consume(1, 0.0)
        deployment.round()
    mine: dict[str, list[int]] = {place.topic: [] for place in gate.evaluator.stats.owned}
    for place in gate.evaluator.stats.owned:
        mine[place.topic].append(place.partition)
    # The earlier one has a partition of control and commands, and none of external.
    assert {topic: len(numbers) for topic, numbers in mine.items()} == {
        topology.control(): 1, topology.commands(): 1, topology.external(): 2,
    }  # fmt: skip
    others = 1 - mine[topology.control()][0]
    theirs = deployment.id_in_partition(others)
    gate.send("one", workflow_id=theirs)
    gate.send("two", workflow_id=theirs)
    gate.order(workflow_id=theirs)
    for _ in range(20):
        deployment.round()
    assert gate.pending(theirs) == ["one", "two"]

    # The earlier one goes, and its start is read by the one that is left.
    earlier.close()
    transport.close()
    deployment.settle()
    deployment.clock.advance(2_000)
    deployment.settle()

    assert gate.outputs(theirs) == {"got": ["one", "two"]}
