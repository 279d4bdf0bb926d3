"""The 22 scenarios of the specification of external events, by its names and with its values, in every world."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from afl.engine.model.history import HistoryKind
from afl.engine.model.store import COMPLETED, PAUSED
from afl_stream.cli import main
from afl_stream.client.client import Client
from afl_stream.embedded.transport import Faults
from tests.worlds.deployment import START_MS
from tests.worlds.parties import Interruptions
from tests.worlds.signals import SIGNALS, Signals
from tests.worlds.world import World
from tests.worlds.worlds import EVERYWHERE, SQLITE, in_worlds

WORLDS = EVERYWHERE

#: The limits of the specification, which are the defaults.
MOST_PENDING, MOST_CARRIED = 100, 5


def signals(world: World) -> Signals:
    return Signals(world.deployment(SIGNALS))


# --- 1. Queue semantics -----------------------------------------------------------------------------------------------


def test_external_event_raise_before_wait_same_execution(world: World) -> None:
    run = signals(world)
    run.start("Gated")

    run.raises("approval", "yes")
    run.open("approval")

    assert run.outputs() == {"data": "yes"}
    assert run.pending() == []


def test_external_event_raise_after_wait_same_execution(world: World) -> None:
    run = signals(world)
    run.start("Once", name="approval")
    assert run.waits() == ["approval"]

    run.raises("approval", "yes")

    assert run.outputs() == {"data": "yes", "timed_out": False}


def test_external_event_multiple_events_same_name(world: World) -> None:
    run = signals(world)
    run.raises("data", "first")
    run.raises("data", "second")

    run.start("Twice", name="data")

    assert run.outputs() == {"data": ["first", "second"]}


def test_external_event_events_different_names(world: World) -> None:
    run = signals(world)
    run.raises("event_a", "data_a")
    run.raises("event_b", "data_b")

    run.start("Once", name="event_b")

    assert run.outputs()["data"] == "data_b"
    assert run.pending() == ["data_a"]


# --- 2. Carried by continue as new ------------------------------------------------------------------------------------


def continue_as_new(run: Signals, times: int) -> None:
    for _ in range(times):
        run.open("continue")


def test_external_event_basic_carry_forward(world: World) -> None:
    run = signals(world)
    run.start("Steered", name="signal")
    run.raises("signal", "payload")

    continue_as_new(run, 1)
    assert run.execution() == 2
    run.open("wait")

    assert run.outputs() == {"data": "payload", "round": 2}


def test_external_event_consumed_event_not_carried(world: World) -> None:
    run = signals(world)
    run.start("Steered", name="signal")
    run.open("wait, then continue")
    run.raises("signal", "data")
    assert run.execution() == 2

    run.open("wait")

    assert run.waits() == ["signal"]
    assert run.deployment.workflow("wf-1").status == PAUSED
    assert run.pending() == []


def test_external_event_carry_forward_multiple_executions(world: World) -> None:
    run = signals(world)
    run.start("Steered", name="signal")
    run.raises("signal", "data")

    continue_as_new(run, 3)
    run.open("wait")

    assert run.execution() == 4
    assert run.outputs() == {"data": "data", "round": 4}


def test_external_event_carry_forward_limit_exceeded(world: World, caplog: pytest.LogCaptureFixture) -> None:
    run = signals(world)
    run.start("Steered", name="signal")
    run.raises("signal", "data")

    continue_as_new(run, MOST_CARRIED)
    assert run.pending() == ["data"]
    continue_as_new(run, 1)
    run.open("wait")

    assert run.execution() == 7
    assert run.waits() == ["signal"]
    assert run.pending() == []
    (event,) = run.events()
    assert (event.execution, event.is_pending, event.step_id) == (1, False, "")
    assert event.dropped
    assert [reason for reason, _ in run.letters()] == ["EventNotCarried"]
    (warning,) = [text for text in caplog.messages if "exceeded carry-forward limit" in text]
    for found in ("event_name=signal ", "event_execution_id=1 ", "new_execution_id=7 "):
        assert found in warning
    assert run.evaluator.stats.events.dropped == {"EventNotCarried": 1}
    assert "event signal of workflow wf-1" in warning


def test_external_event_carry_forward_limit_boundary(world: World) -> None:
    run = signals(world)
    run.start("Steered", name="signal")
    run.raises("signal", "data")

    continue_as_new(run, MOST_CARRIED)
    run.open("wait")

    assert run.execution() == 6
    assert run.outputs() == {"data": "data", "round": 6}
    assert run.letters() == []


# --- 3. The limit of an instance --------------------------------------------------------------------------------------


def raise_events(run: Signals, names: list[str]) -> None:
    """Raise an event of each name, whose data is its name."""
    for name in names:
        run.send(name, name)
    run.deployment.settle()


def numbered(count: int, first: int = 0) -> list[str]:
    return [f"event-{number}" for number in range(first, first + count)]


def test_external_event_events_under_limit(world: World) -> None:
    run = signals(world)
    run.start("Deaf")

    raise_events(run, numbered(50))

    assert [event.value for event in run.events()] == numbered(50)
    assert run.pending() == numbered(50)
    assert run.letters() == []


def test_external_event_events_at_limit_dropped(world: World, caplog: pytest.LogCaptureFixture) -> None:
    run = signals(world)
    run.start("Deaf")
    raise_events(run, numbered(MOST_PENDING))
    assert len(run.pending()) == MOST_PENDING

    run.raises("new_event", "data")

    assert [event.name for event in run.events()] == numbered(MOST_PENDING)
    assert [reason for reason, _ in run.letters()] == ["TooManyPendingEvents"]
    (warning,) = [text for text in caplog.messages if "unconsumed event limit reached" in text]
    for found in ("instance=wf-1 ", "event_name=new_event ", "unconsumed_count=100 ", "limit=100:"):
        assert found in warning
    assert run.evaluator.stats.events.dropped == {"TooManyPendingEvents": 1}
    assert f"evaluator.max_pending_events = {MOST_PENDING}" in warning


def test_external_event_consumed_events_free_capacity(world: World) -> None:
    run = signals(world)
    run.start("Many", names=numbered(10))
    raise_events(run, numbered(MOST_PENDING))

    run.open()
    assert run.pending() == numbered(90, first=10)
    raise_events(run, numbered(10, first=MOST_PENDING))

    assert run.pending() == numbered(100, first=10)
    assert run.letters() == []
    run.raises("one more", "data")
    assert run.pending() == numbered(100, first=10)
    assert len(run.letters()) == 1


def test_external_event_mixed_consumed_unconsumed(world: World) -> None:
    run = signals(world)
    run.start("Many", names=numbered(50))
    raise_events(run, numbered(MOST_PENDING))
    run.open()
    assert len(run.events()) == MOST_PENDING
    assert run.pending() == numbered(50, first=50)

    run.raises("new", "data")

    assert run.pending() == [*numbered(50, first=50), "data"]
    assert run.letters() == []


# --- 4. Edge cases ----------------------------------------------------------------------------------------------------


def test_external_event_raise_to_nonexistent_instance(world: World) -> None:
    run = signals(world)
    run.raises("signal", "data", workflow_id="order-123")

    run.start("Once", workflow_id="order-123", name="signal")

    assert run.outputs("order-123")["data"] == "data"


def test_external_event_raise_to_completed_instance(world: World) -> None:
    run = signals(world)
    run.start("Deaf", workflow_id="order-123")
    run.open("done", workflow_id="order-123")
    assert run.deployment.workflow("order-123").status == COMPLETED

    run.raises("late_signal", "data", workflow_id="order-123")

    (event,) = run.events("order-123")
    assert (event.name, event.value, event.is_pending, event.step_id) == ("late_signal", "data", False, "")
    assert run.outputs("order-123") == {"word": "done"}
    assert run.letters() == []


def test_external_event_same_name_across_executions(world: World) -> None:
    run = signals(world)
    run.start("Steered", name="signal")
    run.open("wait, then continue")
    run.raises("signal", "a")
    assert run.execution() == 2

    run.raises("signal", "new_data")
    run.open("wait")

    assert run.outputs() == {"data": "new_data", "round": 2}


@pytest.mark.parametrize("data", ["", None, [], {}], ids=repr)
def test_external_event_empty_event_data(world: World, data: object) -> None:
    run = signals(world)
    run.raises("signal", data)

    run.start("Once", name="signal")

    assert run.outputs() == {"data": data, "timed_out": False}


def test_external_event_large_event_data(world: World) -> None:
    payload = {"lines": [f"{number:04d}" * 24 for number in range(1_024)], "end": True}
    run = signals(world)
    run.raises("signal", payload)

    run.start("Once", name="signal")

    assert run.outputs()["data"] == payload


# --- 5. Races ---------------------------------------------------------------------------------------------------------


def test_external_event_multiple_runtimes_raising(world: World) -> None:
    run = signals(world)
    run.start("Twice", workflow_id="inst", name="sig")

    for sender in ("from_a", "from_b"):
        with (
            closing(run.deployment.cluster.transport(Faults())) as transport,
            Client(run.deployment.config, transport) as client,
        ):
            client.raise_event("inst", "sig", sender)
    run.deployment.settle()

    assert sorted(run.outputs("inst")["data"]) == ["from_a", "from_b"]


@pytest.mark.parametrize("point", ["read", "applied", "persisted", "published", "committed"])
def test_external_event_race_between_raise_and_wait(world: World, point: str) -> None:
    deployment = world.deployment(SIGNALS)
    interruptions = Interruptions()
    run = Signals(deployment, deployment.evaluator(interruptions))
    run.start("Gated")

    interruptions.happens_at(f"control.{point}", lambda: run.send("signal", "data"))
    run.open("signal")

    assert run.outputs() == {"data": "data"}


# --- 6. History -------------------------------------------------------------------------------------------------------


def test_external_event_external_event_in_history(world: World) -> None:
    run = signals(world)
    run.start("Once", name="signal")
    before_ms = run.deployment.clock.now_ms()

    run.raises("signal", "data")

    (event,) = run.events()
    assert (event.kind, event.name, event.value, event.execution) == ("ExternalEvent", "signal", "data", 1)
    assert START_MS <= before_ms <= event.at_ms <= run.deployment.clock.now_ms()
    (wait,) = [row for row in run.rows() if row.kind == HistoryKind.EXTERNAL_SUBSCRIBED]
    assert (wait.name, wait.execution, wait.step_id) == ("signal", 1, event.step_id)


def test_external_event_carried_event_retains_execution_id(world: World) -> None:
    run = signals(world)
    run.start("Steered", name="signal")
    run.raises("signal", "data")

    continue_as_new(run, 1)

    assert run.execution() == 2
    (carried,) = run.events(execution=2)
    assert (carried.name, carried.value, carried.execution) == ("signal", "data", 1)


@in_worlds([SQLITE])
def test_external_event_history_command_reads_each_execution(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    run = signals(world)
    run.start("Steered", name="signal")
    run.raises("signal", {"by": "ann"}, event_id="e-1")
    continue_as_new(run, 1)
    run.open("wait")

    code = main(
        ["history", "wf-1", "--json", "--data-dir", run.deployment.config.embedded.data_dir, "--execution", "2"]
    )

    told = json.loads(capsys.readouterr().out)
    assert (code, told["execution"]) == (0, 2)
    shown = [(row["kind"], row["execution"], row.get("name")) for row in told["history"]]
    assert shown == [("ExternalEvent", 1, "signal"), ("ExternalSubscribed", 2, "signal")]
    event, wait = told["history"]
    assert (event["id"], event["data"], event["pending"]) == ("e-1", {"by": "ann"}, False)
    assert (event["step_id"], event["until_execution"]) == (wait["step_id"], 2)
    assert START_MS < event["at_ms"] < wait["at_ms"]
