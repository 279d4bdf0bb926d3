"""Many external events: numbered ones over many hand-overs, copies, several producers at once, restarts."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from afl_stream.client.client import Client
from afl_stream.embedded.transport import Faults
from afl_stream.settings.config import EvaluatorSettings
from afl_stream.wire.messages import ExternalEvent
from tests.worlds.deployment import Deployment
from tests.worlds.signals import SIGNALS, Signals
from tests.worlds.world import World
from tests.worlds.worlds import DURABLE, EVERYWHERE, in_worlds

WORLDS = EVERYWHERE

EVENTS, HAND_OVERS = 500, 50
#: Events that an execution takes before it hands over.
TAKEN = EVENTS // HAND_OVERS
#: Room for all of them, and for all executions.
ROOM = EvaluatorSettings(max_pending_events=EVENTS, max_carried_executions=HAND_OVERS)
#: The defaults.
MOST_PENDING, MOST_CARRIED = 100, 5


def collect(run: Signals, left: int = HAND_OVERS) -> None:
    run.start("Collect", name="number", places=list(range(TAKEN)), left=left)


def raise_numbers(run: Signals, numbers: range) -> None:
    for number in numbers:
        run.send("number", number)
    run.deployment.settle()


def numbers_of(letters: Deployment) -> list[int]:
    """Return the data of the events that are dead letters, in order of the topic."""
    found = []
    for letter in letters.dead_letters(letters.topology.external()):
        event = letters.codec.decode(letter.value, letter.headers, json_allowed=True)
        assert isinstance(event, ExternalEvent)
        assert isinstance(event.value, int)
        found.append(event.value)
    return found


# --- 500 events over 50 hand-overs ------------------------------------------------------------------------------------


def test_numbered_events_arrive_complete_and_in_order_over_fifty_hand_overs(world: World) -> None:
    run = Signals(world.deployment(SIGNALS, evaluator=ROOM))
    raise_numbers(run, range(EVENTS))

    collect(run)

    assert run.outputs() == {"seen": list(range(EVENTS))}
    assert run.execution() == HAND_OVERS + 1
    assert run.letters() == []
    run.assert_nothing_is_left()


def test_numbered_events_that_come_between_hand_overs_arrive_complete_and_in_order(world: World) -> None:
    run = Signals(world.deployment(SIGNALS, evaluator=ROOM))
    collect(run)

    for first in range(0, EVENTS, 25):
        raise_numbers(run, range(first, first + 25))

    assert run.outputs() == {"seen": list(range(EVENTS))}
    assert run.execution() == HAND_OVERS + 1
    run.assert_nothing_is_left()


def test_with_the_defaults_what_is_over_the_limits_is_reported_exactly(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    run = Signals(world.deployment(SIGNALS))
    raise_numbers(run, range(EVENTS))
    # The first hundred are kept. Executions 1 to 6 take ten each; seven is too far from the first.
    executions = 1 + MOST_CARRIED
    heard = range(TAKEN * executions)

    collect(run)

    assert run.execution() == executions + 1
    assert len(run.waits()) == TAKEN
    assert run.pending() == []
    assert sorted(numbers_of(run.deployment)) == list(range(len(heard), EVENTS))
    reasons = [reason for reason, _ in run.letters()]
    assert {reason: reasons.count(reason) for reason in reasons} == {
        "TooManyEarlyEvents": EVENTS - MOST_PENDING,
        "EventNotCarried": MOST_PENDING - len(heard),
    }
    taken = [event.value for event in run.events(execution=executions) if event.step_id]
    assert taken == list(range(TAKEN * MOST_CARRIED, TAKEN * executions))
    # What comes now is heard.
    raise_numbers(run, range(EVENTS, EVENTS + TAKEN * (HAND_OVERS - executions)))
    assert run.outputs() == {"seen": [*heard, *range(EVENTS, EVENTS + TAKEN * (HAND_OVERS - executions))]}


# --- The same id twice ------------------------------------------------------------------------------------------------


def test_a_copy_of_an_event_that_waits_counts_once(world: World) -> None:
    run = Signals(world.deployment(SIGNALS))
    run.start("Twice", name="sig")

    run.raises("sig", "one", event_id="e-1")
    run.raises("sig", "one", event_id="e-1")

    assert run.waits() == ["sig"]
    assert [event.event_id for event in run.events()] == ["e-1"]
    run.raises("sig", "two", event_id="e-2")
    assert run.outputs() == {"data": ["one", "two"]}


def test_a_copy_in_the_same_batch_counts_once(world: World) -> None:
    run = Signals(world.deployment(SIGNALS))
    run.start("Gated")

    for _ in range(3):
        run.send("sig", "one", event_id="e-1")
    run.deployment.settle()

    assert run.pending() == ["one"]


def test_a_copy_of_an_event_that_came_before_the_start_counts_once(world: World) -> None:
    run = Signals(world.deployment(SIGNALS))
    run.raises("sig", "one", event_id="e-1")
    run.raises("sig", "one", event_id="e-1")
    run.start("Twice", name="sig")

    run.raises("sig", "one", event_id="e-1")

    assert run.waits() == ["sig"]
    assert len(run.events()) == 1


def test_a_copy_counts_once_after_a_hand_over(world: World) -> None:
    run = Signals(world.deployment(SIGNALS))
    run.start("Steered", name="sig")
    run.open("wait, then continue")
    run.raises("sig", "one", event_id="e-1")
    run.open("wait")

    run.raises("sig", "one", event_id="e-1")

    assert run.execution() == 2
    assert run.waits() == ["sig"]


def test_the_same_id_for_another_workflow_is_another_event(world: World) -> None:
    run = Signals(world.deployment(SIGNALS))
    for workflow_id in ("wf-1", "wf-2"):
        run.start("Once", workflow_id, name="sig")
        run.raises("sig", workflow_id, workflow_id, event_id="e-1")

    assert [run.outputs(workflow_id)["data"] for workflow_id in ("wf-1", "wf-2")] == ["wf-1", "wf-2"]


@in_worlds(DURABLE)
@pytest.mark.parametrize("workflow", ["Gated", "Twice"])
def test_a_copy_counts_once_across_a_restart(world: World, workflow: str) -> None:
    """Gated: the event is pending when the process ends. Twice: a wait has taken it."""
    deployment = world.deployment(SIGNALS)
    run = Signals(deployment)
    run.start(workflow, **({"name": "sig"} if workflow == "Twice" else {}))
    run.raises("sig", "one", event_id="e-1")

    deployment.crash_and_restart()
    run = Signals(deployment)
    run.raises("sig", "one", event_id="e-1")

    (event,) = run.events()
    assert event.is_pending == (workflow == "Gated")


@in_worlds(DURABLE)
def test_events_that_come_while_no_evaluator_runs_are_heard(world: World) -> None:
    deployment = world.deployment(SIGNALS)
    run = Signals(deployment)
    run.start("Twice", name="sig")
    run.raises("sig", "before")

    deployment.crash_and_restart()
    deployment.client.raise_event("wf-1", "sig", "meanwhile")
    run = Signals(deployment)

    assert run.outputs() == {"data": ["before", "meanwhile"]}


# --- Several producers ------------------------------------------------------------------------------------------------


def test_events_of_several_producers_arrive_each_in_its_own_order(world: World) -> None:
    senders, count = 4, 50
    run = Signals(world.deployment(SIGNALS, evaluator=ROOM))
    run.start("Collect", name="number", places=list(range(senders * count)), left=1)

    def send(sender: int) -> None:
        with (
            closing(run.deployment.cluster.transport(Faults())) as transport,
            Client(run.deployment.config, transport) as client,
        ):
            for number in range(count):
                client.raise_event("wf-1", "number", [sender, number])

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(senders)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        run.deployment.round()
    for thread in threads:
        thread.join()
    run.deployment.settle()

    seen = run.outputs()["seen"]
    assert len(seen) == senders * count
    for sender in range(senders):
        assert [number for who, number in seen if who == sender] == list(range(count))


# --- Large ------------------------------------------------------------------------------------------------------------


def test_a_large_event_is_carried_whole(world: World) -> None:
    payload = {"text": "x" * 100_000}
    run = Signals(world.deployment(SIGNALS))
    run.raises("signal", payload)
    run.start("Steered", name="signal")

    for _ in range(MOST_CARRIED):
        run.open("continue")
    run.open("wait")

    assert run.outputs()["data"] == payload
