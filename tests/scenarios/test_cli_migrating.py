"""`afl-stream deploy --compare`, `migrate` and `start --if-exists`, command by command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.command_lines import PROGRAM, Called, CommandLine

#: The note waits for the scan, and tells what it found; it has a further step.
NEXT = PROGRAM.replace(
    """        yield Watch(times = s.times, label = $.label)
""",
    """        again = Note(text = "again")
        yield Watch(times = s.times, label = $.label ++ "!")
""",
)
OTHER = PROGRAM.replace("n = Note(", "note = Note(")


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


def version_of(called: Called) -> str:
    return str(called.document["program"])


def waiting(command_line: CommandLine) -> str:
    """Deploy the program and let a run w1 of it wait for its note; return the program's fingerprint."""
    version = version_of(command_line.deployed()("deploy", command_line.program, "--json"))
    assert command_line("start", "Watch", "--input", "hosts=[]", "--id", "w1").code == 0
    assert command_line("evaluator", "--until-idle").code == 0
    return version


def test_a_run_waits_a_new_version_is_compared_and_deployed_and_the_run_moves_and_completes_by_it(
    command_line: CommandLine,
) -> None:
    first, changed = waiting(command_line), command_line.file("next.afl", NEXT)

    compared = command_line("deploy", changed, "--compare")

    assert compared.code == 1
    assert '+ step net.Watch.again: Note(text = "again")' in compared.out
    assert "- yield net.Watch.yield: Watch(times = s.times, label = $.label)" in compared.out
    assert f"1 run stays on {first[:12]} of net.Watch: 1 waiting" in compared.out
    assert "\n  w1\n" in compared.out
    document = command_line("deploy", changed, "--compare", "--json").document
    assert [(found["change"], found["kind"], found["name"]) for found in document["deployed"][0]["steps"]] == [
        ("added", "step", "net.Watch.again"),
        ("changed", "yield", "net.Watch.yield"),
    ]
    assert document["staying"] == [
        {"workflow": "net.Watch", "program": first, "waiting": 1, "running": 0, "runs": ["w1"], "count": 1}
    ]
    assert command_line("deploy", command_line.program, "--compare").code == 0, "nothing was deployed"

    version = version_of(command_line("deploy", changed, "--json"))
    assert command_line("deploy", changed, "--compare", "--json").document["is_same"] is True
    assert command_line("migrate", "w1", "--to", "current", "--check").out == f"w1 fits version {version[:12]}\n"
    assert command_line("show", "w1", "--json").document["program"] == first
    moved = command_line("migrate", "w1", "--to", version[:8], "--reason", "a second note")
    assert (moved.code, moved.out) == (0, f"asked to move w1 to version {version[:12]}\n")
    assert "afl-stream evaluator --until-idle" in moved.err
    assert command_line("evaluator", "--until-idle").code == 0
    assert command_line("show", "w1", "--json").document["program"] == version
    assert command_line("migrate", "w1", "--to", "current").code == 2
    for _ in range(2):
        command_line("agent", "--handlers", command_line.handlers, "--until-idle")
        command_line("evaluator", "--until-idle")
    run = command_line("status", "w1", "--json").document
    assert (run["status"], run["outputs"]) == ("COMPLETED", {"times": [], "label": "none!"})
    assert "has ended (COMPLETED)" in command_line("migrate", "w1", "--to", first[:12]).err


def test_what_does_not_fit_is_named_and_nothing_is_sent(command_line: CommandLine) -> None:
    waiting(command_line)
    version = version_of(command_line("deploy", command_line.file("other.afl", OTHER), "--json"))
    records = command_line.records()
    misfit = "net.Watch.n: the new version has no step n there; its new step note calls net.Note too: was it renamed?"

    document = command_line("migrate", "w1", "--to", version, "--check", "--json").document
    assert (document["fits"], document["misfits"]) == (
        *(False, [dict(zip(("path", "reason"), misfit.split(": ", 1), strict=True))]),
    )
    checked = command_line("migrate", "w1", "--to", version[:12], "--check")
    assert (checked.code, checked.out) == (1, f"w1 does not fit version {version[:12]}:\n  {misfit}\n")
    called = command_line("migrate", "w1", "--to", "current")
    assert (called.code, misfit in called.err) == (2, True)
    all_of_them = command_line("migrate", "--workflow", "Watch", "--all", "--to", "current")
    assert (all_of_them.code, all_of_them.out) == (
        *(1, f"0 of 1 runs move to version {version[:12]}\nw1 stays: {misfit}\n"),
    )
    assert command_line.records() == records


def test_all_runs_of_a_workflow_move_that_fit(command_line: CommandLine) -> None:
    waiting(command_line)
    command_line("start", "Watch", "--input", "hosts=[]", "--id", "w2")
    command_line("evaluator", "--until-idle")
    version = version_of(command_line("deploy", command_line.file("next.afl", NEXT), "--json"))

    called = command_line("migrate", "--workflow", "Watch", "--all", "--to", "current", "--json")
    command_line("evaluator", "--until-idle")

    assert called.code == 0
    assert sorted((run["workflow_id"], run["fits"]) for run in called.document["runs"]) == [("w1", True), ("w2", True)]
    again = command_line("migrate", "--workflow", "net.Watch", "--all", "--to", version)
    assert "2 runs of net.Watch are on that version already" in again.err


#: What is asked, the exit code, and what is said.
MISTAKES = [
    (("w0", "--to", "current"), 3, "there is no run w0"),
    (("w1", "--to", "0000"), 3, "there is no version 0000"),
    (("w1", "--to", "0"), 2, "give 4 digits of the program's id or more, or current"),
    (("--all", "--to", "current"), 2, "give a RUN, or --workflow NAME with --all"),
    (("w1", "--all", "--workflow", "Watch", "--to", "current"), 2, "give a RUN, or --workflow NAME with --all"),
    (("--workflow", "Watsch", "--all", "--to", "current"), 3, "there is no workflow Watsch"),
    (("w1",), 2, "Missing option '--to'"),
]


def test_what_cannot_be_asked_for_is_said(command_line: CommandLine) -> None:
    waiting(command_line)

    for words, code, said in MISTAKES:
        called = command_line("migrate", *words)
        assert (called.code, said in called.err) == (code, True), called.err


def test_a_start_is_repeated_across_deploys(command_line: CommandLine) -> None:
    first = waiting(command_line)
    command_line("deploy", command_line.file("next.afl", NEXT))
    start = ("start", "Watch", "--input", "hosts=[]", "--id", "w1")

    assert f"it runs program {first[:12]}" in command_line(*start).err
    used = command_line(*start, "--if-exists", "use", "--json")
    assert (used.code, used.document["program"], used.document["status"]) == (0, first, "WAITING")
    refused = command_line(*start, "--if-exists", "refuse")
    assert (refused.code, "exists already" in refused.err) == (2, True)
    assert command_line("start", "Watch", "--if-exists", "use").code == 2
    lines = command_line.file("starts.jsonl", '{"workflow": "Watch", "id": "w1", "inputs": {"hosts": ["else"]}}\n')
    assert command_line("start", "--many", lines, "--if-exists", "use").code == 0
    assert command_line("evaluator", "--until-idle").code == 0
    assert command_line("dlq", "list", "--json").document["count"] == 0
