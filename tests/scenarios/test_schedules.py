"""Schedules through the loop: each firing starts one run, whatever happens to the evaluators."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

import pytest

from afl.core.values import plain_values
from afl.engine.model.schedules import ScheduleChange, ScheduleRow
from afl.engine.model.store import COMPLETED, PAUSED, Batch
from afl.engine.types import Value
from afl_stream.client.client import RefusedByEvaluator
from afl_stream.embedded.transport import Crash, Faults
from afl_stream.schedules.documents import Schedule, to_document
from afl_stream.schedules.firings import ScheduleState, StartedRun
from afl_stream.schedules.spec import Overlap, ScheduleSpec, command_of
from afl_stream.wire.command_answers import APPLIED, REPEATED
from afl_stream.wire.messages import Lifecycle, StartWorkflow
from afl_stream.wire.schedule_commands import (
    DeleteSchedule,
    PauseSchedule,
    ResumeSchedule,
    ScheduleCommand,
    TriggerSchedule,
)
from tests.tiers import some_now
from tests.worlds.deployment import START_MS, Deployment
from tests.worlds.parties import Interruptions
from tests.worlds.schedules import FIRST_MINUTE_MS, MINUTE, PLAN, QUICK, SLOW, Planner, run_at
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED_EVERY_STORE, FILES, KAFKA, MEMORY, SQLITE, in_worlds

WORLDS = EMBEDDED_EVERY_STORE

EVERY_MINUTE = ScheduleSpec(workflow=QUICK, inputs={"n": 7}, interval_ms=MINUTE)
SLOWLY = replace(EVERY_MINUTE, workflow=SLOW)


@pytest.fixture
def planner(world: World) -> Planner:
    return Planner(world.deployment(PLAN))


def answer_to(planner: Planner, command: ScheduleCommand) -> Lifecycle:
    """Return the evaluator's answer to a command that is sent now. Raises RefusedByEvaluator."""
    deployment = planner.deployment
    with closing(deployment.client.milestones(command.schedule_id)) as milestones:
        deployment.send(command, key=command.schedule_id.encode())
        deployment.settle()
        return milestones.answer_to(command.command_id or "", timeout_s=5)


# --- firing ----------------------------------------------------------------------------------------------------------


def test_each_firing_starts_a_run_with_the_inputs_and_names_its_schedule(planner: Planner) -> None:
    planner.put(EVERY_MINUTE)
    planner.pass_minutes(0, 2)

    assert planner.runs() == ["22:14:00", "22:15:00", "22:16:00"]
    row = planner.deployment.workflow(run_at(0))
    assert (row.status, row.outputs, row.runner_id) == (COMPLETED, {"n": 7}, "schedule:m")
    state = planner.schedule().state
    assert (state.fired, state.last_run, state.last_firing_ms) == (3, run_at(2), FIRST_MINUTE_MS + 2 * MINUTE)


def test_a_cron_schedule_fires_at_the_times_of_its_zone(planner: Planner) -> None:
    # 23:20 in Berlin is 22:20 UTC.
    planner.put(replace(EVERY_MINUTE, interval_ms=None, cron="20 23 * * *", time_zone="Europe/Berlin"))
    planner.pass_minutes(0, 8)

    assert planner.runs() == ["22:20:00"]


def test_nothing_fires_before_the_start_nor_after_the_end(planner: Planner) -> None:
    planner.put(replace(EVERY_MINUTE, start_at=FIRST_MINUTE_MS + MINUTE, end_at=FIRST_MINUTE_MS + 2 * MINUTE))
    planner.pass_minutes(0, 5)

    assert planner.runs() == ["22:15:00", "22:16:00"]
    row = planner.deployment.store.schedule("m")
    assert row is not None
    assert row.next_at_ms is None


def test_a_short_name_of_a_workflow_is_kept_in_full(planner: Planner) -> None:
    planner.put(replace(EVERY_MINUTE, workflow="Quick"))

    assert planner.schedule().spec.workflow == QUICK


def test_a_loop_waits_no_longer_than_until_the_next_firing(planner: Planner) -> None:
    planner.put(EVERY_MINUTE)
    planner.deployment.clock.advance(1_000)
    planner.deployment.settle()
    schedules = planner.evaluator.service.loop._schedules
    now_ms = planner.deployment.clock.now_ms()

    assert schedules.next_due_ms == FIRST_MINUTE_MS
    assert schedules.wait_s(1_000.0) == (FIRST_MINUTE_MS - now_ms) / 1_000
    assert schedules.wait_s(0.2) == 0.2


# --- overlap ---------------------------------------------------------------------------------------------------------


def test_skip_starts_nothing_while_the_run_before_goes_on(planner: Planner) -> None:
    planner.put(SLOWLY)
    planner.pass_minutes(0, 3)
    assert planner.runs() == ["22:14:00"]
    assert planner.schedule().state.skipped == 3

    planner.end_run(run_at(0))
    planner.pass_until(4)

    assert planner.runs() == ["22:14:00", "22:18:00"]


def test_queue_starts_one_firing_when_the_run_before_has_ended(planner: Planner) -> None:
    planner.put(replace(SLOWLY, overlap=Overlap.QUEUE))
    planner.pass_minutes(0, 3)
    assert planner.runs() == ["22:14:00"]

    planner.end_run(run_at(0))
    planner.pass_until(3, seconds=10)

    assert planner.runs() == ["22:14:00", "22:15:00"]
    assert (planner.schedule().state.skipped, planner.schedule().state.queued_ms) == (2, None)


def test_allow_starts_every_run(planner: Planner) -> None:
    planner.put(replace(SLOWLY, overlap=Overlap.ALLOW))
    planner.pass_minutes(0, 2)

    assert planner.runs() == ["22:14:00", "22:15:00", "22:16:00"]
    assert {planner.deployment.workflow(run_at(minute)).status for minute in range(3)} == {PAUSED}


def test_a_run_that_was_refused_holds_up_no_later_one(planner: Planner) -> None:
    # Its id is another run's, of other inputs.
    planner.deployment.client.start(QUICK, {"n": 1}, workflow_id=run_at(0))
    planner.put(SLOWLY)
    planner.pass_minutes(0, 1)

    assert planner.deployment.workflow(run_at(1)).name == SLOW
    state = planner.schedule().state
    assert (state.refused, state.fired) == (1, 2)
    assert state.last_refusal is not None
    assert run_at(0) in state.last_refusal


def test_a_run_whose_start_was_lost_holds_up_no_run_for_ever(planner: Planner) -> None:
    planner.put(SLOWLY)
    faults = planner.evaluator.faults
    faults.fail_at("outbox.before_publish")
    with suppress(Crash):
        planner.pass_until(0)
    deployment = planner.deployment
    deployment.remove(planner.evaluator, killed=True)
    # An operator has emptied the outbox by hand.
    deployment.store.commit_batch(Batch(published=[(0, 1 << 40)]))
    deployment.evaluator()
    planner.pass_minutes(1, 11)

    assert planner.runs() == ["22:24:00"]


@in_worlds([MEMORY])
def test_very_many_schedules_that_wait_hold_up_no_other(planner: Planner) -> None:
    waiting = replace(SLOWLY, overlap=Overlap.QUEUE)
    # As many as are asked for at once, all of them long due.
    changes = []
    for number in range(1_000):
        state = ScheduleState(decided_ms=FIRST_MINUTE_MS, queued_ms=1, runs=(StartedRun("gone-0", FIRST_MINUTE_MS),))
        document = plain_values(to_document(Schedule(f"w{number}", waiting, state)), "schedule")
        changes.append(ScheduleChange(f"w{number}", 0, ScheduleRow(f"w{number}", 1, 1, document)))
    planner.deployment.store.commit_batch(Batch(schedules=changes))
    planner.put(EVERY_MINUTE)
    planner.pass_until(0, seconds=1)
    planner.pass_until(0, seconds=3)

    assert planner.runs() == ["22:14:00"]


# --- outages ---------------------------------------------------------------------------------------------------------


def test_after_an_outage_of_a_day_what_is_in_the_window_fires_and_the_rest_is_reported_once(
    planner: Planner, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = planner.deployment
    planner.put(replace(EVERY_MINUTE, interval_ms=60 * MINUTE, overlap=Overlap.ALLOW, catch_up_ms=3 * 60 * MINUTE))
    deployment.remove(planner.evaluator, killed=False)
    planner.pass_until(24 * 60)

    deployment.evaluator()
    deployment.settle()
    planner.pass_until(24 * 60, seconds=5)

    # 23:00 of the day before to 22:00: three are inside the window.
    assert planner.runs() == ["20:00:00", "21:00:00", "22:00:00"]
    assert (planner.schedule().state.fired, planner.schedule().state.missed) == (3, 21)
    told = [record.getMessage() for record in caplog.records if "missed" in record.getMessage()]
    assert told == [
        "schedule m has missed 21 firings, from 2023-11-14T23:00:00.000Z to 2023-11-15T19:00:00.000Z: "
        "they are older than its catch-up window of 10800 s"
    ]
    (milestone,) = [m for m in deployment.milestones("m") if m.kind == "schedule.missed"]
    assert milestone.outputs is not None
    assert milestone.outputs["missed"] == 21


def test_a_schedule_deleted_during_an_outage_fires_no_more(planner: Planner) -> None:
    deployment = planner.deployment
    planner.put(EVERY_MINUTE)
    deployment.remove(planner.evaluator, killed=False)
    deployment.client.delete_schedule("m")
    planner.pass_until(10)

    deployment.evaluator()
    deployment.settle()

    assert planner.runs() == []
    assert deployment.store.schedule("m") is None


# --- several evaluators, and crashes ---------------------------------------------------------------------------------


def test_two_evaluators_start_each_run_once(world: World) -> None:
    deployment = world.deployment(PLAN)
    planner = Planner(deployment)
    deployment.evaluator()
    deployment.settle()
    for number in range(6):
        planner.put(EVERY_MINUTE, f"s{number}")
    planner.pass_minutes(0, 2)

    for number in range(6):
        assert planner.runs(f"s{number}") == ["22:14:00", "22:15:00", "22:16:00"]
        assert planner.schedule(f"s{number}").state.fired == 3
    assert sorted(starts_of(deployment)) == sorted(set(starts_of(deployment)))
    assert len(starts_of(deployment)) == 18


def test_an_evaluator_that_lost_its_partitions_while_it_decided_starts_nothing(world: World) -> None:
    deployment = world.deployment(PLAN)
    interruptions = Interruptions()
    frozen = deployment.evaluator(interruptions)
    planner = Planner(deployment, frozen)
    planner.put(EVERY_MINUTE)

    def another_takes_over() -> None:
        deployment.broker.expire(frozen.consumer())
        successor = deployment.evaluator()
        for _ in range(3):
            successor.turn()

    interruptions.happens_at("schedules.decided", another_takes_over)
    planner.pass_until(0)

    assert planner.runs() == ["22:14:00"]
    assert starts_of(deployment) == [run_at(0)]
    assert planner.schedule().state.fired == 1


def test_a_rebalance_at_the_time_of_a_firing_starts_it_once(planner: Planner) -> None:
    planner.put(EVERY_MINUTE)
    planner.deployment.clock.advance(FIRST_MINUTE_MS - planner.deployment.clock.now_ms())
    planner.deployment.rebalance()
    planner.pass_minutes(0, 1)

    assert planner.runs() == ["22:14:00", "22:15:00"]
    assert starts_of(planner.deployment) == [run_at(0), run_at(1)]


CRASHES = (
    "schedules.read",
    "schedules.decided",
    "control.persisted",
    "outbox.before_publish",
    "outbox.published",
    "control.published",
    "control.committed",
)


@pytest.mark.parametrize("point", CRASHES)
@pytest.mark.parametrize("overlap", [*Overlap])
def test_a_crash_between_any_two_steps_loses_no_firing_and_doubles_none(
    planner: Planner, point: str, overlap: Overlap
) -> None:
    deployment = planner.deployment
    planner.put(replace(EVERY_MINUTE, overlap=overlap))
    planner.pass_until(0)
    planner.evaluator.faults.fail_at(point)
    with suppress(Crash):
        planner.pass_until(1)
    assert planner.evaluator.faults.reached(point)
    deployment.remove(planner.evaluator, killed=True)
    deployment.evaluator(Faults())
    deployment.settle()
    planner.pass_minutes(1, 2)

    assert planner.runs() == ["22:14:00", "22:15:00", "22:16:00"]
    state = planner.schedule().state
    assert (state.fired, state.skipped, state.missed, state.refused) == (3, 0, 0, 0)
    assert set(starts_of(deployment)) == {run_at(minute) for minute in range(3)}
    assert deployment.dead_letters(deployment.topology.commands()) == []


def starts_of(deployment: Deployment) -> list[str]:
    """Return the workflow ids of the starts on the commands topic, copies included."""
    messages = deployment.messages(deployment.topology.commands())
    return sorted(message.workflow_id for message in messages if isinstance(message, StartWorkflow))


# --- commands --------------------------------------------------------------------------------------------------------


def test_a_paused_schedule_starts_nothing_and_makes_nothing_up(planner: Planner) -> None:
    planner.put(EVERY_MINUTE)
    planner.pass_until(0)
    assert answer_to(planner, PauseSchedule(schedule_id="m", command_id="c-1")).kind == APPLIED
    planner.pass_minutes(1, 3)
    assert planner.runs() == ["22:14:00"]

    assert answer_to(planner, ResumeSchedule(schedule_id="m", command_id="c-2")).kind == APPLIED
    planner.pass_until(4)

    assert planner.runs() == ["22:14:00", "22:18:00"]
    state = planner.schedule().state
    assert (state.fired, state.skipped, state.missed) == (2, 0, 0)


def test_a_trigger_starts_a_run_now_whatever_else_runs(planner: Planner) -> None:
    planner.put(SLOWLY)
    planner.pass_until(0)

    told = answer_to(planner, TriggerSchedule(schedule_id="m", command_id="c-1"))
    assert told.outputs == {"workflow_id": "m-20231114T221401Z-t"}
    answer_to(planner, TriggerSchedule(schedule_id="m", command_id="c-2"))

    assert planner.runs() == ["22:14:00", "22:14:01-t", "22:14:02-t"]
    assert planner.schedule().state.triggered == 2


def test_the_same_command_again_does_nothing(planner: Planner) -> None:
    put = command_of("m", EVERY_MINUTE, command_id="c-1")
    commands: list[ScheduleCommand] = [
        put,
        replace(put, command_id="c-2"),
        TriggerSchedule(schedule_id="m", command_id="c-3"),
        TriggerSchedule(schedule_id="m", command_id="c-3"),
        PauseSchedule(schedule_id="m", command_id="c-4"),
        PauseSchedule(schedule_id="m", command_id="c-5"),
    ]

    kinds = [answer_to(planner, command).kind for command in commands]

    assert kinds == [APPLIED, REPEATED, APPLIED, REPEATED, APPLIED, REPEATED]
    assert planner.schedule().state.triggered == 1


def test_a_schedule_that_is_put_again_keeps_what_it_has_done(planner: Planner) -> None:
    planner.put(EVERY_MINUTE)
    planner.pass_minutes(0, 1)
    planner.put(replace(EVERY_MINUTE, inputs={"n": 8}))
    planner.pass_until(2)

    assert planner.schedule().state.fired == 3
    assert planner.deployment.workflow(run_at(2)).outputs == {"n": 8}


REFUSALS = [
    (PauseSchedule(schedule_id="nobody", command_id="c"), "NoSuchSchedule", "there is no schedule nobody"),
    (DeleteSchedule(schedule_id="nobody", command_id="c"), "NoSuchSchedule", "there is no schedule nobody"),
    (TriggerSchedule(schedule_id="nobody", command_id="c"), "NoSuchSchedule", "there is no schedule nobody"),
    (command_of("m", replace(EVERY_MINUTE, workflow="plan.Quik"), command_id="c"), "UnknownProgram", "plan.Quick"),
    (command_of("m", replace(EVERY_MINUTE, inputs={"m": 7}), command_id="c"), "UnknownInput", "m"),
    (command_of("m", replace(EVERY_MINUTE, interval_ms=10), command_id="c"), "ScheduleRefused", "too short"),
    (command_of("m", replace(EVERY_MINUTE, end_at=MINUTE), command_id="c"), "ScheduleRefused", "no firing is left"),
]


@in_worlds([MEMORY])
@pytest.mark.parametrize(("command", "error_type", "said"), REFUSALS)
def test_what_cannot_be_done_is_refused_with_the_reason_and_a_dead_letter(
    planner: Planner, command: ScheduleCommand, error_type: str, said: str
) -> None:
    with pytest.raises(RefusedByEvaluator) as refused:
        answer_to(planner, command)

    assert refused.value.reason.type == error_type
    assert said in refused.value.reason.message
    assert planner.deployment.store.schedules() == []
    assert len(planner.deployment.dead_letters(planner.deployment.topology.commands())) == 1


def document_of(**changed: Value) -> dict[str, Value]:
    """Return the document of a schedule with parts that no evaluator writes."""
    spec: dict[str, Value] = {"workflow": QUICK, "inputs": {"n": 1}, "overlap": "skip", "cron": "* * * * *"}
    return {"spec": spec | changed, "state": {"decided_ms": START_MS}}


UNREADABLE: Final = {
    "no specification": {"spec": 1},
    "a time zone that this machine lacks": document_of(time_zone="Atlantis/City"),
    "times that are none": document_of(cron="every now and then"),
    "no times at all": document_of(cron=None),
    "an interval of nothing": document_of(cron=None, interval_ms=0),
    "a beginning that is no time": document_of(start_at="monday"),
}


@in_worlds([MEMORY, SQLITE])
@pytest.mark.parametrize("document", UNREADABLE.values(), ids=UNREADABLE)
def test_a_schedule_that_cannot_be_read_holds_up_no_other(
    planner: Planner, document: Mapping[str, Value], caplog: pytest.LogCaptureFixture
) -> None:
    broken = ScheduleRow("broken", 1, FIRST_MINUTE_MS, document)
    planner.deployment.store.commit_batch(Batch(schedules=[ScheduleChange("broken", 0, broken)]))
    planner.put(EVERY_MINUTE)
    planner.pass_minutes(0, 1)

    assert planner.runs() == ["22:14:00", "22:15:00"]
    assert "schedule broken cannot be read from the store" in caplog.text


@in_worlds([SQLITE])
def test_a_schedule_of_a_newer_release_waits_for_the_upgrade_and_ends_no_evaluator(
    planner: Planner, caplog: pytest.LogCaptureFixture
) -> None:
    planner.put(EVERY_MINUTE)
    path = Path(planner.deployment.config.embedded.data_dir) / "store.sqlite3"
    with closing(sqlite3.connect(path)) as file, file:
        (written,) = file.execute("SELECT document FROM schedule").fetchone()
        newer = replace_versions(written)
        file.execute("UPDATE schedule SET document = ?", (newer,))
    planner.pass_minutes(0, 1)
    planner.deployment.client.start(QUICK, {"n": 3}, workflow_id="other")
    planner.deployment.settle()

    assert planner.deployment.workflow("other").status == COMPLETED
    assert planner.runs() == []
    assert "schedules that cannot be read wait" in caplog.text
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE schedule SET document = ?", (written,))
    planner.pass_until(2)
    assert planner.runs() == ["22:14:00"]


def replace_versions(document: bytes) -> bytes:
    """Return a document as a release of a far future writes it."""
    versions, content = json.loads(document)
    return json.dumps([" ".join("7.0" for _ in versions.split(" ")), content]).encode()


@in_worlds(FILES)
def test_a_damaged_row_of_a_schedule_does_not_end_the_evaluator(world: World, caplog: pytest.LogCaptureFixture) -> None:
    deployment = world.deployment(PLAN)
    planner = Planner(deployment)
    planner.put(EVERY_MINUTE)
    path = deployment.config.store_path
    deployment.crash()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE schedule SET document = x'00'")
    deployment.restart()
    planner = Planner(deployment)
    planner.pass_minutes(0, 1)
    deployment.client.start(QUICK, {"n": 1}, workflow_id="wf-1")
    deployment.settle()

    assert deployment.workflow("wf-1").status == COMPLETED
    assert "schedules that cannot be read wait" in caplog.text
    deployment.crash()


@in_worlds([KAFKA])
def test_on_kafka_a_schedule_fires_each_time_once_on_two_evaluators(world: World) -> None:
    deployment = world.deployment(PLAN)
    planner = Planner(deployment)
    deployment.evaluator()
    deployment.settle()
    planner.put(EVERY_MINUTE)
    planner.put(SLOWLY, "s")
    planner.pass_minutes(0, 2)

    assert planner.runs() == ["22:14:00", "22:15:00", "22:16:00"]
    assert planner.runs("s") == ["22:14:00"]
    assert planner.schedule("s").state.skipped == 2
    assert starts_of(deployment) == sorted([*(run_at(minute) for minute in range(3)), run_at(0, "s")])


# --- any lives of evaluators ------------------------------------------------------------------------------------------


def test_a_clock_that_is_set_back_makes_no_firing_twice(planner: Planner) -> None:
    planner.put(EVERY_MINUTE)
    planner.pass_minutes(0, 2)
    planner.deployment.clock.set_back(2 * MINUTE)
    planner.pass_minutes(1, 3)

    assert planner.runs() == ["22:14:00", "22:15:00", "22:16:00", "22:17:00"]
    assert len(starts_of(planner.deployment)) == 4


SEEDS = range(60)


@in_worlds([MEMORY])
@pytest.mark.parametrize("seed", some_now(SEEDS, 12))
def test_whatever_becomes_of_the_evaluators_each_firing_in_the_window_is_decided_once(world: World, seed: int) -> None:
    drawn = Random(seed)
    deployment = world.deployment(PLAN)
    planner = Planner(deployment)
    overlap = drawn.choice([*Overlap])
    window = drawn.choice([3, 1_000])
    spec = replace(SLOWLY, overlap=overlap, catch_up_ms=window * MINUTE)
    planner.put(spec)
    minute = 0
    for _ in range(12):
        event = drawn.randrange(6)
        if event == 0 and deployment.evaluators:
            deployment.remove(drawn.choice(deployment.evaluators), killed=drawn.random() < 0.5)
        elif event == 1 and len(deployment.evaluators) < 3:
            deployment.evaluator(Faults())
        elif event == 2 and deployment.evaluators:
            drawn.choice(deployment.evaluators).faults.fail_at(drawn.choice(CRASHES))
        elif event == 3 and (runs := unfinished(deployment)):
            deployment.client.cancel(drawn.choice(runs))
        elif event == 4:
            deployment.broker.rebalance(deployment.config.evaluator_group)
        minute += drawn.choice([1, 1, 1, 2, 8])
        live_until(planner, minute)
    for evaluator in list(deployment.evaluators):
        deployment.remove(evaluator, killed=False)
    deployment.evaluator(Faults())
    minute += 1
    planner.pass_until(minute)
    planner.pass_until(minute, seconds=40)

    state = planner.schedule().state
    waiting = state.queued_ms is not None
    # The first whole minute is number 0.
    assert state.fired + state.skipped + state.missed + waiting == minute + 1
    starts = set(starts_of(deployment))
    assert len(starts) == len(planner.runs()) == state.fired
    assert deployment.dead_letters(deployment.topology.commands()) == []
    if window == 1_000:
        assert state.missed == 0
    if overlap is Overlap.ALLOW:
        assert state.skipped == 0
        assert state.fired + state.missed == minute + 1
    else:
        assert len(unfinished(deployment)) <= 1


def unfinished(deployment: Deployment) -> list[str]:
    """Return the runs that have not ended."""
    return sorted(row.id for row in deployment.store.list_workflows(limit=10_000) if row.status == PAUSED)


def live_until(planner: Planner, minute: int) -> None:
    """Let time pass up to a minute; an evaluator that crashes is buried, and the others live on."""
    deployment = planner.deployment
    deployment.clock.advance(max(FIRST_MINUTE_MS + minute * MINUTE + 1_000 - deployment.clock.now_ms(), 0))
    for _ in range(12):
        deployment.clock.advance(100)
        for evaluator in list(deployment.evaluators):
            try:
                evaluator.turn()
            except Crash:
                deployment.remove(evaluator, killed=True)
