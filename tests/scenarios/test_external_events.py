"""External events through the loop: given to a wait, kept for one, refused with a reason; races, and crashes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from afl.core.process.crashes import Crash
from afl_stream.embedded.transport import Faults
from afl_stream.errors import NotStorable
from afl_stream.evaluator.unit_of_work import UnitOfWork
from afl_stream.settings.config import StoreSettings
from afl_stream.wire.messages import ExternalEvent
from tests.worlds.gate import ASKING, BOTH, RUN, Gate
from tests.worlds.parties import Evaluator, Interruptions
from tests.worlds.world import World
from tests.worlds.worlds import EACH_ONCE, EMBEDDED, EMBEDDED_DURABLE, MEMORY, in_worlds

WORLDS = EACH_ONCE


# --- what becomes of an event --------------------------------------------------------------------------------------


def test_events_before_the_start_and_after_it_are_taken_in_order(world: World) -> None:
    gate = Gate(world)
    gate.raised("early")
    gate.start()
    gate.raised("late")

    assert gate.outputs() == {"got": ["early", "late"]}
    assert [(row.value, row.is_pending, row.execution) for row in gate.events()] == [
        ("early", False, 1),
        ("late", False, 1),
    ]
    assert gate.happened() == {"raised": 2, "early": 1, "adopted": 1, "taken": 1}


def test_a_start_in_the_batch_of_its_events_adopts_those_before_it(world: World) -> None:
    gate = Gate(world)
    deployment = gate.deployment
    deployment.remove(gate.evaluator, killed=False)
    for data in ("first", "second"):
        gate.send(data, id=data)
    gate.order()
    gate.send("second again", id="second")
    evaluator = deployment.evaluator()
    # In this order, whichever of the topics a consumer reads first.
    external, commands = deployment.topology.external(), deployment.topology.commands()
    first, second, again = deployment.records(external)
    (start,) = deployment.records(commands)
    unit = UnitOfWork(evaluator.service.loop._context)
    records = [first, second, start, again]
    unit.read(records)
    assert [unit.apply(record) for record in records] == ["queued", "queued", "applied", "duplicate"]
    deployment.store.commit_batch(unit.finish())

    assert gate.outputs() == {"got": ["first", "second"]}
    assert [(row.value, row.is_pending, row.expires_at_ms) for row in gate.events()] == [
        ("first", False, 0),
        ("second", False, 0),
    ]
    # The evaluator reads them again: its positions were not moved.
    deployment.settle()
    assert gate.happened() == {"raised": 3, "duplicate": 3}


def test_waits_of_one_name_take_one_event_each(world: World) -> None:
    gate = Gate(world)
    gate.start(BOTH)
    gate.raised("one")
    assert gate.deployment.workflow(RUN).status == "PAUSED"
    gate.raised("two")

    assert gate.outputs() == {"got": ["one", "two"]}
    assert gate.happened() == {"raised": 2, "taken": 2}


def test_an_event_with_a_known_id_counts_once(world: World) -> None:
    gate = Gate(world)
    gate.raised("before", id="a")
    gate.raised("again", id="a")
    gate.start()
    gate.raised("and again", id="a")
    assert gate.pending() == []
    # In one batch, too.
    gate.send("second", id="b")
    gate.send("second again", id="b")
    gate.deployment.settle()

    assert gate.outputs() == {"got": ["before", "second"]}
    assert gate.asked("late", id="b").kind == "event.repeated"
    assert gate.happened() == {"raised": 6, "early": 1, "adopted": 1, "taken": 1, "duplicate": 4}


def test_events_without_an_id_are_told_apart_by_their_place(world: World) -> None:
    gate = Gate(world)
    gate.raised("same")
    gate.raised("same")
    gate.start()

    assert gate.outputs() == {"got": ["same", "same"]}
    topic = gate.deployment.topology.external()
    times = [record.timestamp_ms for record in gate.deployment.records(topic)]
    assert [row.event_id for row in gate.events()] == [f"{topic}/0/{offset}@{times[offset]}" for offset in (0, 1)]


def test_an_event_after_the_end_is_kept_and_its_sender_is_told(world: World) -> None:
    gate = Gate(world)
    gate.raised("one")
    gate.raised("two")
    gate.start()
    gate.deployment.clock.advance(5)

    answer = gate.asked("late")

    assert (answer.kind, answer.status) == ("event.late", "COMPLETED")
    assert gate.pending() == []
    assert [row.value for row in gate.events()] == ["one", "two", "late"]
    assert gate.events()[-1].step_id == ""
    assert gate.letters() == []
    # A copy is known all the same.
    assert gate.deployment.outcomes()["late"] == 1


def test_each_sender_that_asks_is_told_what_became_of_its_event(world: World) -> None:
    gate = Gate(world, max_pending_events=1)

    early = gate.asked("early", id="e")
    assert (early.kind, early.status) == ("event.queued", None)
    gate.start()
    taken = gate.asked("taken", id="t")
    # The first wait took the early one.
    assert (taken.kind, taken.status) == ("event.taken", "PAUSED")
    assert taken.step_id in {step.id for step in gate.deployment.steps(RUN)}
    gate.start(workflow_id="wf-2", first="other", second="other")
    queued = gate.asked("queued", workflow_id="wf-2")
    assert (queued.kind, queued.status) == ("event.queued", "PAUSED")
    refused = gate.asked("refused", workflow_id="wf-2")
    assert refused.kind == "event.refused"
    assert refused.error is not None
    assert refused.error.type == "TooManyPendingEvents"
    assert gate.asked("again", id="e").kind == "event.repeated"


def test_a_runnable_workflow_continues_whatever_event_wakes_it(world: World) -> None:
    gate = Gate(world)
    gate.start(ASKING)
    gate.raised("for the wait", "chosen")
    gate.answer("chosen")
    gate.deployment.settle()

    assert gate.outputs() == {"data": "for the wait"}


# --- what is not kept ----------------------------------------------------------------------------------------------


def test_an_event_over_the_limit_is_a_dead_letter_that_says_why(world: World, caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate(world, max_pending_events=2)
    gate.start(first="other", second="other")
    for data in ("one", "two", "three"):
        gate.raised(data)

    assert gate.pending() == ["one", "two"]
    ((reason, text),) = gate.letters()
    assert reason == "TooManyPendingEvents"
    expected = ("event go of workflow wf-1", "it has 2 events", "evaluator.max_pending_events = 2")
    assert [part for part in expected if part not in text] == []
    (warned,) = [line for line in caplog.messages if "unconsumed event limit reached" in line]
    assert "instance=wf-1 event_name=go unconsumed_count=2 limit=2" in warned
    assert gate.evaluator.stats.events.dropped == {"TooManyPendingEvents": 1}


def test_a_taken_event_makes_room_for_another_one(world: World) -> None:
    gate = Gate(world, max_pending_events=1)
    gate.start(first="other", second="go")
    gate.raised("kept")
    gate.raised("over it")
    gate.raised("first", "other")

    assert gate.outputs() == {"got": ["first", "kept"]}
    assert len(gate.letters()) == 1


@in_worlds(EMBEDDED)
def test_the_sender_of_an_event_that_ends_its_workflow_is_told(world: World) -> None:
    gate = Gate(world)
    gate.start()
    gate.evaluator.faults.fail_at("external.given", times=2, error=NotStorable(ValueError("no form")))

    answer = gate.asked("one")

    assert answer.kind == "event.refused"
    assert answer.error is not None
    assert answer.error.type == "NotStorable"
    assert gate.deployment.workflow(RUN).status == "ERROR"
    assert [reason for reason, _ in gate.letters()] == ["NotStorable"]


def test_an_early_event_over_a_limit_is_a_dead_letter(world: World) -> None:
    gate = Gate(world, max_pending_events=2, max_early_events=3)
    for data in ("one", "two", "over the workflow's"):
        gate.raised(data)
    gate.raised("three", workflow_id="wf-2")
    gate.raised("over all", workflow_id="wf-3")

    reasons, texts = zip(*gate.letters(), strict=True)
    assert reasons == ("TooManyEarlyEvents", "TooManyEarlyEvents")
    assert "2 events wait for it, and the limit is evaluator.max_pending_events = 2" in texts[0]
    assert "3 events wait for workflows to be started, and the limit is evaluator.max_early_events = 3" in texts[1]
    gate.start()
    assert gate.outputs() == {"got": ["one", "two"]}
    gate.raised("now there is room", workflow_id="wf-3")
    assert gate.pending("wf-3") == ["now there is room"]


def test_the_bytes_of_early_events_are_bounded_in_all(world: World) -> None:
    gate = Gate(world, max_early_bytes=30_000)
    for number in range(4):
        gate.raised(f"{number}" * 9_000, workflow_id=f"wf-{number}")

    ((reason, text),) = gate.letters()
    assert reason == "TooManyEarlyEvents"
    assert re.search(r"27\d\d\d bytes of events wait for workflows to be started.*max_early_bytes = 30000", text)
    gate.start(workflow_id="wf-0")
    assert gate.pending("wf-0") == []  # Its first wait has it.
    gate.raised("3" * 9_000, workflow_id="wf-3")
    assert gate.pending("wf-3") == ["3" * 9_000]


@in_worlds(EMBEDDED)
def test_an_early_event_expires_and_leaves_nothing_behind(world: World) -> None:
    gate = Gate(world, early_event_expiry_ms=60_000)
    gate.raised({"n": 1}, id="a")
    gate.deployment.clock.advance(30_000)
    gate.raised({"n": 2}, id="b")
    gate.deployment.clock.advance(30_000)
    gate.deployment.settle()

    ((reason, text),) = gate.letters()
    assert reason == "EventExpired"
    assert "event go of workflow wf-1 has expired: no such workflow was started within 60 s" in text
    (letter,) = gate.deployment.dead_letters(gate.deployment.topology.external())
    event = gate.deployment.codec.decode(letter.value, letter.headers)
    assert isinstance(event, ExternalEvent)
    assert (event.workflow_id, event.name, event.value, event.id) == (RUN, "go", {"n": 1}, "a")
    assert letter.key == RUN.encode()
    assert [row.value for row in gate.history()] == [{"n": 2}]
    # The id of the expired one is free again, and the numbers of the history do not clash.
    gate.raised({"n": 3}, id="a")
    gate.start()
    assert gate.outputs() == {"got": [{"n": 2}, {"n": 3}]}


@in_worlds(EMBEDDED)
def test_when_all_early_events_have_expired_a_start_begins_with_nothing(world: World) -> None:
    gate = Gate(world, early_event_expiry_ms=60_000)
    gate.raised("expires")
    gate.deployment.clock.advance(60_000)
    gate.deployment.settle()
    assert gate.history() == []

    gate.start()
    gate.raised("one")
    gate.raised("two")

    assert gate.outputs() == {"got": ["one", "two"]}


@in_worlds(EMBEDDED)
def test_an_event_of_a_purged_run_is_a_dead_letter(world: World) -> None:
    gate = Gate(world)
    gate.deployment.config = replace(gate.deployment.config, store=StoreSettings(retention="1h"))
    gate.deployment.remove(gate.evaluator, killed=False)
    gate.evaluator = gate.deployment.evaluator()
    gate.raised("one")
    gate.raised("two")
    gate.start()
    for _ in range(3):
        gate.deployment.clock.advance(3_600_000)
        gate.deployment.settle()
    assert gate.deployment.store.load_workflow(RUN) is None

    answer = gate.asked("late")

    assert answer.kind == "event.refused"
    ((reason, text),) = gate.letters()
    assert reason == "EventAfterPurge"
    assert "the run ended as COMPLETED on 2023-11-14" in text
    assert gate.history() == []


def test_records_that_are_no_events_are_dead_letters_and_reading_continues(world: World) -> None:
    gate = Gate(world)
    deployment = gate.deployment
    external = deployment.topology.external()
    deployment.put(external, b"no record", key=b"wf-1")
    deployment.put(external, json.dumps({"name": "go"}).encode())
    deployment.put(external, json.dumps({"name": "go", "workflow_id": "not an id"}).encode(), key=b"wf-1")
    deployment.put(external, json.dumps({"name": "", "workflow_id": RUN}).encode(), key=b"wf-1")
    deployment.put(external, json.dumps({"name": "n" * 250, "workflow_id": RUN}).encode(), key=b"wf-1")
    deployment.put(external, json.dumps({"step_id": "wf-1:ab", "result": {}}).encode(), key=b"wf-1")
    # Enough from a shell: the key says the workflow, and `data` is another name of the value.
    deployment.put(external, json.dumps({"name": "go", "data": {"n": 1}}).encode(), key=b"wf-1")
    deployment.settle()

    reasons = [reason for reason, _ in gate.letters()]
    assert len(reasons) == 6
    assert set(reasons) <= {"bad_json", "bad_magic", "missing_field", "bad_id", "unknown_type", "truncated", "bad_avro"}
    assert gate.pending() == [{"n": 1}]


# --- several evaluators --------------------------------------------------------------------------------------------


def turns(evaluator: Evaluator) -> None:
    for _ in range(3):
        evaluator.turn()


class TwoEvaluators:
    """A gate whose run lies on a partition of the first evaluator, and whose events are read by the second one."""

    def __init__(self, world: World) -> None:
        self.gate = Gate(world, control_partitions=2)
        self.other_faults, deployment = Interruptions(), self.gate.deployment
        deployment.remove(self.gate.evaluator, killed=False)
        self.faults = Interruptions()
        self.first: Evaluator = deployment.evaluator(self.faults)
        self.second: Evaluator = deployment.evaluator(self.other_faults)
        deployment.settle_among_all()
        (mine,), (self.others,) = self.first.partitions(), self.second.partitions()
        self.run = deployment.id_in_partition(mine)

    def send(self, data: object, **fields: str) -> None:
        """Send an event to the partition of the second evaluator."""
        self.gate.send(data, workflow_id=self.run, partition=self.others, **fields)


@in_worlds(EMBEDDED)
@pytest.mark.parametrize("slower", ["start", "event"])
def test_an_event_that_races_with_the_start_is_not_lost(world: World, slower: str) -> None:
    two = TwoEvaluators(world)
    gate = two.gate
    gate.order(workflow_id=two.run)
    two.send("raced")
    if slower == "start":
        two.faults.happens_at("control.applied", lambda: turns(two.second))
        two.first.turn()
    else:
        two.other_faults.happens_at("control.applied", lambda: turns(two.first))
        two.second.turn()
    gate.deployment.settle()
    gate.deployment.clock.advance(2_000)
    gate.deployment.settle()
    two.send("second")
    gate.deployment.settle()

    assert gate.outputs(two.run) == {"got": ["raced", "second"]}
    assert len(gate.events(two.run)) == 2
    assert sum(evaluator.stats.conflicts for evaluator in gate.deployment.evaluators) > 0


@in_worlds(EMBEDDED)
@pytest.mark.parametrize("slower", ["start", "event"])
def test_an_event_that_races_with_the_start_of_a_run_that_does_not_wait_yet_is_kept_for_it(
    world: World, slower: str
) -> None:
    """Such a start writes no history, so that nothing but the workflow itself tells the two writers apart."""
    two = TwoEvaluators(world)
    gate = two.gate
    gate.order(ASKING, workflow_id=two.run)
    two.send("raced")
    if slower == "start":
        two.faults.happens_at("control.applied", lambda: turns(two.second))
        two.first.turn()
    else:
        two.other_faults.happens_at("control.applied", lambda: turns(two.first))
        two.second.turn()
    gate.deployment.settle()
    gate.deployment.clock.advance(2_000)
    gate.deployment.settle()
    assert gate.pending(two.run) == ["raced"]
    assert [row.expires_at_ms for row in gate.events(two.run)] == [0]
    # One that was kept before the start came is the sweep's; the other one knew of the start when it was kept.
    happened = gate.happened()
    assert (happened.get("adopted", 0), happened.get("queued", 0)) == ((1, 0) if slower == "start" else (0, 1))

    gate.answer("go", two.run)
    gate.deployment.settle()
    assert gate.outputs(two.run) == {"data": "raced"}


@in_worlds(EMBEDDED)
@pytest.mark.parametrize("slower", ["wait", "event"])
def test_an_event_that_races_with_its_wait_is_taken_once(world: World, slower: str) -> None:
    two = TwoEvaluators(world)
    gate = two.gate
    gate.start(ASKING, two.run)
    gate.answer("go", two.run)
    two.send("raced")
    if slower == "wait":
        two.faults.happens_at("control.applied", lambda: turns(two.second))
        two.first.turn()
    else:
        two.other_faults.happens_at("control.applied", lambda: turns(two.first))
        two.second.turn()
    gate.deployment.settle()

    assert gate.outputs(two.run) == {"data": "raced"}
    assert len(gate.events(two.run)) == 1
    assert sum(evaluator.stats.conflicts for evaluator in gate.deployment.evaluators) > 0


@in_worlds(EMBEDDED)
@pytest.mark.parametrize("is_started", [False, True])
def test_two_evaluators_that_read_the_same_event_keep_it_once(world: World, is_started: bool) -> None:
    two = TwoEvaluators(world)
    gate = two.gate
    if is_started:
        gate.start(workflow_id=two.run)
    two.send("raced", id="same")
    gate.send("raced", workflow_id=two.run, id="same")
    two.faults.happens_at("external.compared", lambda: turns(two.second))
    two.first.turn()
    gate.deployment.settle()

    assert [row.event_id for row in gate.events(two.run)] == ["same"]
    assert gate.happened()["duplicate"] == 1
    gate.start(workflow_id=two.run)
    gate.raised("second", workflow_id=two.run)
    assert gate.outputs(two.run) == {"got": ["raced", "second"]}


# --- crashes -------------------------------------------------------------------------------------------------------

POINTS = (
    "control.read", "external.compared", "external.given", "external.found", "external.adopted", "control.applied",
    "store.written", "store.committed", "control.persisted", "control.published", "control.committed",
)  # fmt: skip


@in_worlds(EMBEDDED_DURABLE)
@pytest.mark.parametrize("passes", range(4))
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_any_step_loses_no_event_and_takes_none_twice(world: World, point: str, passes: int) -> None:
    gate = Gate(world)
    deployment = gate.deployment
    deployment.remove(gate.evaluator, killed=False)
    faults = Faults()
    faults.fail_at(point, passes=passes)
    deployment.evaluator(faults)
    crashes = 0
    acts: list[Callable[[], None]] = [
        lambda: gate.send("early", id="a"),
        gate.order,
        lambda: gate.send("late", id="b"),
        lambda: gate.send("after the end", id="c"),
    ]
    for act in acts:
        act()
        try:
            deployment.settle()
        except Crash:
            crashes += 1
            deployment.crash_and_restart()
            deployment.evaluator()
            deployment.settle()

    assert gate.outputs() == {"got": ["early", "late"]}
    assert [(row.event_id, row.is_pending) for row in gate.events()] == [("a", False), ("b", False), ("c", False)]
    assert [row.number for row in gate.history()] == list(range(len(gate.history())))
    assert gate.letters() == []
    assert crashes <= 1


@in_worlds(EMBEDDED_DURABLE)
@pytest.mark.parametrize("point", ["external.found", "external.adopted", "store.written", "control.persisted"])
def test_a_crash_while_an_early_event_expires_makes_one_dead_letter(world: World, point: str) -> None:
    gate = Gate(world, early_event_expiry_ms=60_000)
    deployment = gate.deployment
    gate.raised("expires")
    deployment.remove(gate.evaluator, killed=False)
    faults = Faults()
    deployment.evaluator(faults)
    deployment.settle()
    deployment.clock.advance(60_000)
    faults.fail_at(point)
    with pytest.raises(Crash):
        deployment.settle()
    deployment.crash_and_restart()
    deployment.evaluator()
    deployment.settle()
    # The sweep, and that of the outbox rows which the dead process has left.
    for _ in range(2):
        deployment.clock.advance(11_000)
        deployment.settle()

    assert {reason for reason, _ in gate.letters()} == {"EventExpired"}
    # One that was published again, after a crash before its row was deleted, is the same to the byte.
    assert len({letter.headers for letter in deployment.dead_letters(deployment.topology.external())}) == 1
    assert gate.history() == []


def counted(asked: list[str], name: str, question: Callable[..., Any]) -> Callable[..., Any]:
    def ask(*arguments: Any, **named: Any) -> Any:
        asked.append(name)
        return question(*arguments, **named)

    return ask


@in_worlds((MEMORY,))
def test_a_batch_without_events_and_starts_asks_nothing_about_histories(world: World) -> None:
    gate = Gate(world)
    gate.start(ASKING)
    asked: list[str] = []
    # Not a patch of what is under test: it counts the questions to a store.
    for name in ("known_events", "pending_events", "history_sizes", "history"):
        setattr(gate.evaluator.store, name, counted(asked, name, getattr(gate.evaluator.store, name)))
    gate.raised("kept", "chosen")
    assert asked == ["known_events"]
    gate.answer("chosen")
    gate.deployment.settle()

    assert gate.outputs() == {"data": "kept"}
    assert asked == ["known_events"]
