"""Schedules and sensitive inputs: named in the starts of their runs, hidden from people, refused where encrypted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from afl_stream.client.client import RefusedByEvaluator
from afl_stream.schedules.spec import ScheduleSpec, command_of
from afl_stream.sensitive.envelope import is_sealed, sealed_text
from afl_stream.sensitive.key_files import KeyFolder
from afl_stream.sensitive.marks import SENSITIVE_HEADER
from afl_stream.sensitive.redaction import Redaction
from afl_stream.settings.sensitive import KeySettings, SensitiveSettings
from afl_stream.visibility.schedules import shown_schedule
from tests.record_headers import headers_of
from tests.scenarios.command_lines import CommandLine
from tests.worlds.deployment import Deployment
from tests.worlds.schedules import MINUTE, Planner, run_at
from tests.worlds.world import World
from tests.worlds.worlds import SQLITE

WORLDS = (SQLITE,)

SECRET = "c4nary-4111"
PAY = """
namespace plan {
  /** @sensitive card */
  workflow Pay(card: String, cents: Long) => (cents: Long) andThen { yield Pay(cents = $.cents) }
}
"""
SPEC = ScheduleSpec(workflow="plan.Pay", inputs={"card": SECRET, "cents": 5}, interval_ms=MINUTE)


def put_by_another_client(deployment: Deployment, spec: ScheduleSpec) -> str:
    """Put a schedule as a client does that knows nothing of marks, and return why it is refused."""
    command = replace(command_of("m", spec), command_id="c-1")
    with closing(deployment.client.milestones("m")) as milestones:
        deployment.send(command, key=b"m")
        deployment.settle()
        with pytest.raises(RefusedByEvaluator) as refused:
            milestones.answer_to("c-1", timeout_s=5)
    return str(refused.value)


def encrypting(world: World, folder: Path) -> Deployment:
    KeyFolder(folder / "keys").add_master("first")
    return world.deployment(PAY, sensitive=SensitiveSettings(encrypt=True), keys=KeySettings(path=str(folder / "keys")))


def test_the_starts_of_its_runs_name_the_sensitive_inputs(world: World) -> None:
    planner = Planner(world.deployment(PAY))
    planner.put(SPEC)
    planner.pass_minutes(0, 0)

    deployment = planner.deployment
    (start,) = [
        record for record in deployment.records(deployment.topology.commands()) if b"-2023" in (record.key or b"")
    ]
    assert headers_of(start)[SENSITIVE_HEADER] == b"card"
    assert deployment.workflow(run_at(0)).inputs == SPEC.inputs


@pytest.mark.parametrize("is_from_before", [False, True])
def test_people_see_no_sensitive_input_of_a_schedule(world: World, is_from_before: bool) -> None:
    planner = Planner(world.deployment(PAY))
    planner.put(SPEC)
    schedule, store = planner.schedule(), planner.deployment.store
    state = replace(schedule.state, last_refusal=f"card: {SECRET} is refused")
    schedule = schedule._replace(state=state, sensitive=None if is_from_before else schedule.sensitive)

    shown = shown_schedule(schedule, store, Redaction())
    # Of one from before, that has had no run, nothing is known: all is hidden.
    assert shown.spec.inputs == {"card": "[sensitive]", "cents": "[sensitive]" if is_from_before else 5}
    assert SECRET not in repr(shown)
    assert shown_schedule(schedule, store, Redaction(reveals=True)) == schedule

    planner.pass_minutes(0, 0)
    ran = planner.schedule()._replace(sensitive=schedule.sensitive)
    assert shown_schedule(ran, store, Redaction()).spec.inputs == {"card": "[sensitive]", "cents": 5}


def test_an_evaluator_that_encrypts_refuses_a_schedule_with_sensitive_inputs(world: World, tmp_path: Path) -> None:
    deployment = encrypting(world, tmp_path)
    deployment.evaluator()

    why = put_by_another_client(deployment, SPEC)

    assert "schedule m has sensitive inputs (card)" in why
    assert "give the schedule a reference" in why
    assert deployment.store.schedule("m") is None


def test_a_schedule_with_encrypted_inputs_is_refused(world: World) -> None:
    deployment = world.deployment(PAY)
    deployment.evaluator()

    why = put_by_another_client(
        deployment, replace(SPEC, inputs={"card": sealed_text("k", b"n" * 12, b"x"), "cents": 5})
    )

    assert "schedule m has encrypted inputs (card)" in why
    assert deployment.store.schedule("m") is None


def test_a_schedule_from_before_encryption_starts_runs_with_encrypted_inputs(world: World, tmp_path: Path) -> None:
    deployment = world.deployment(PAY)
    planner = Planner(deployment)
    planner.put(SPEC)
    deployment.remove(planner.evaluator, killed=False)
    KeyFolder(tmp_path / "keys").add_master("first")
    settings = SensitiveSettings(encrypt=True)
    deployment.config = replace(deployment.config, sensitive=settings, keys=KeySettings(path=str(tmp_path / "keys")))
    planner = Planner(deployment)
    planner.pass_minutes(0, 0)

    starts = [record.value or b"" for record in deployment.records(deployment.topology.commands())][1:]
    assert len(starts) == 1
    assert SECRET.encode() not in starts[0]
    row = deployment.workflow(run_at(0))
    assert row.outputs == {"cents": 5}
    assert is_sealed(row.inputs["card"])


def test_commands_hide_them_unless_they_are_to_reveal_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = CommandLine(tmp_path, capsys)
    program = line.file("pay.afl", PAY)
    assert line("topics", "apply", program).code == line("deploy", program).code == 0
    inputs: Sequence[str] = ("--input", f"card={SECRET}", "--input", "cents=5")
    created = line("schedule", "create", "m", "Pay", "--every", "1h", *inputs, "--start", "2090-01-01", "--json")
    assert created.document["inputs"] == {"card": "[sensitive]", "cents": 5}
    assert line("evaluator", "--until-idle").code == 0

    for words in (["show", "m"], ["show", "m", "--json"], ["list"], ["list", "--json"]):
        called = line("schedule", *words)
        assert called.code == 0
        assert SECRET not in called.out + called.err
    assert line("schedule", "show", "m", "--json", "--reveal").document["inputs"]["card"] == SECRET
    assert line("schedule", "list", "--json", "--reveal").document[0]["inputs"]["card"] == SECRET
    assert SECRET in line("schedule", "show", "m", "--reveal").out
