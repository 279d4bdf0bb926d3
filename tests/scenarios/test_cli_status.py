"""`afl-stream status` and what `dev`, `start` and `evaluator` say of runs that wait, have ended, or were cancelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from afl.engine.operations.unanswered import waiting_steps
from afl_stream.dev import LocalDeployment
from afl_stream.settings.config import EmbeddedSettings, StreamConfig
from tests.scenarios.command_lines import CommandLine
from tests.worlds.deployment import program_of

_SHOP = """namespace shop {
    event facet Charge(order: String) => (receipt: String)
    workflow Checkout(order: String) => (receipt: String) andThen {
        paid = Charge(order = $.order) catch {
            again = Charge(order = "again")
            yield Charge(receipt = again.receipt)
        }
        yield Checkout(receipt = paid.receipt)
    }
    workflow Divide(by: Int) => (result: Int) andThen {
        paid = Charge(order = "1")
        yield Divide(result = 1 / $.by)
    }
}
"""
_HANDLERS = """
def charge(payload):
    if payload["order"] == "declined":
        raise ValueError("card declined")
    return {"receipt": "r-" + payload["order"]}
def register_handlers(runner):
    runner.register("shop.Charge", charge)
"""


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.setenv("COLUMNS", "80")
    return CommandLine(tmp_path, capsys)


@pytest.fixture
def shop(run: CommandLine) -> CommandLine:
    run.program = run.file("shop.afl", _SHOP)
    run.handlers = run.file("shop_handlers.py", _HANDLERS)
    return run


def steps_of(run: CommandLine, workflow_id: str) -> dict[str, dict[str, object]]:
    """Return the steps of a run by their labels, as JSON has them."""
    steps = run("status", workflow_id, "--json").document["steps"]
    return {step["label"]: step for step in steps if step["label"] is not None}


# --- status -----------------------------------------------------------------------------------------------------


def test_a_failure_that_was_caught_is_shown_with_the_step_that_caught_it(shop: CommandLine) -> None:
    shop(
        "dev",
        shop.program,
        "--start",
        "Checkout",
        "--input",
        "order=declined",
        "--handlers",
        shop.handlers,
        "--id",
        "w1",
    )

    text, steps = shop("status", "w1").out, steps_of(shop, "w1")

    assert "caught ValueError: card declined" in text
    assert steps["paid = Charge"]["status"] == "complete"
    assert steps["paid = Charge"]["caught"] == {"type": "ValueError", "message": "card declined"}


def test_a_yield_that_failed_is_shown(shop: CommandLine) -> None:
    shop("dev", shop.program, "--start", "Divide", "--input", "by=0", "--handlers", shop.handlers, "--id", "w1")

    text, steps = shop("status", "w1").out, steps_of(shop, "w1")

    (line,) = [line for line in text.splitlines() if line.startswith("  yield Divide")]
    assert line.split()[-1] == "failed"
    assert "EvaluationError: division by zero" in text
    assert steps["yield Divide"]["status"] == "failed"


def test_steps_of_a_cancelled_run_do_not_run(run: CommandLine) -> None:
    run.waiting()("cancel", "w1", "--reason", "ordered twice")
    run("evaluator", "--until-idle")

    text, steps = run("status", "w1").out, steps_of(run, "w1")

    assert "runs" not in text.split()
    assert "waits" not in text.split()
    assert {label: step["status"] for label, step in steps.items()} == {
        "net.Watch": "cancelled",
        "s = Scan": "complete",
        "n = Note": "cancelled",
    }


def test_a_run_that_waits_is_called_so_everywhere(run: CommandLine) -> None:
    dev = run("dev", run.program, "--input", "hosts=[]", "--id", "w1", "--json")

    texts = [run("status").out, run("status", "w1").out, dev.out, run("status", "--json").out]

    assert all("WAITING" in text and "PAUSED" not in text for text in texts)
    assert dev.document["status"] == run("status", "w1", "--json").document["status"] == "WAITING"


def test_no_id_is_broken_at_80_columns_and_every_step_has_its_own(run: CommandLine) -> None:
    drawn = run("dev", run.program, "--input", 'hosts=["a"]', "--handlers", run.handlers, "--json").document[
        "workflow_id"
    ]

    listed, shown = run("status").out, run("status", drawn).out
    servers = run("servers").out

    assert drawn in listed.split()
    steps = [step["step_id"] for step in run("status", drawn, "--json").document["steps"] if step["label"] is not None]
    assert len(steps) == 4
    assert [step for step in steps if step not in shown.split()] == []
    assert max(len(line) for line in (listed + shown + servers).splitlines()) <= 80


# --- events without an answer -----------------------------------------------------------------------------------


def test_an_evaluator_that_ends_idle_names_the_facets_that_nobody_answers(run: CommandLine) -> None:
    run.deployed()("start", "Watch", "--input", 'hosts=["a", "b"]', "--id", "w1")

    reported = run("evaluator", "--until-idle")
    as_json = run("evaluator", "--until-idle", "--json").document

    assert reported.code == 0
    first, note = run.steps("w1", "net.Ping")[0], run.steps("w1", "net.Note")[0]
    assert "net.Ping: 2 events wait for an answer, the oldest since 2" in reported.err
    assert f": step {first}, attempt 1" in reported.err
    assert "net.Note: an event waits for an answer, since 2" in reported.err
    assert "agent --handlers MODULE --facet net.Ping --until-idle" in reported.err
    assert f"""continue {note} --result '{{"ok": <Boolean>}}'""" in reported.err
    assert [(step["facet"], step["workflow_id"]) for step in as_json["waiting"]] == [
        ("net.Note", "w1"),
        ("net.Ping", "w1"),
        ("net.Ping", "w1"),
    ]


def test_an_evaluator_says_nothing_of_runs_that_have_ended(run: CommandLine) -> None:
    run("dev", run.program, "--input", "hosts=[]", "--handlers", run.handlers)

    assert "answer" not in run("evaluator", "--until-idle").err


def test_a_wait_that_times_out_says_what_it_waits_for(run: CommandLine) -> None:
    run.waiting()
    slow = run.file("slow.py", "import threading\nFACET = 'net.Note'\ndef handle(p):\n    threading.Event().wait(3)\n")

    reported = run(
        "start", "Watch", "--input", "hosts=[]", "--id", "w1", "--wait", "--timeout", "1", "--handlers", slow
    )

    assert reported.code == 4
    assert "net.Note: an event waits for an answer, since" in reported.err
    assert "net.Watch.n (net.Note)" in reported.err
    assert "at-work: it is the first" in reported.err
    assert run.steps("w1", "net.Note")[0] in reported.err


def test_a_long_wait_is_told_once_with_the_steps_that_no_agent_here_answers(tmp_path: Path) -> None:
    config = StreamConfig(embedded=EmbeddedSettings(data_dir=str(tmp_path / "data")))
    program = program_of(
        """namespace n {
            event facet Slow() => (x: Int)
            event facet Nobody() => (x: Int)
            workflow W() => (x: Int) andThen { a = Slow() b = Nobody() yield W(x = a.x + b.x) }
        }"""
    )
    reported: list[tuple[str, ...]] = []
    handler = (
        "def handle(p):\n    import threading\n    threading.Event().wait(2)\n    return {'x': 1}\nFACET = 'n.Slow'\n"
    )
    (tmp_path / "slow_one.py").write_text(handler)
    with LocalDeployment(config, handlers=[str(tmp_path / "slow_one.py")]) as deployment:
        deployment.deploy(program)
        deployment.run()
        workflow_id = deployment.start("n.W", {})
        ending = deployment.wait(
            workflow_id,
            long_wait_s=1.0,
            on_long_wait=lambda: reported.append(tuple(step.facet for step in deployment.unhandled(workflow_id))),
        )
        left = waiting_steps(deployment.store, workflow_id)

    assert reported == [("n.Nobody",)]
    assert ending is not None
    assert [step.facet for step in ending.waiting] == [step.facet for step in left] == ["n.Nobody"]


# --- a run that has ended ---------------------------------------------------------------------------------------


def test_dev_with_the_id_of_a_completed_run_says_so_and_runs_nothing(run: CommandLine) -> None:
    words = ("dev", run.program, "--input", "hosts=[]", "--handlers", run.handlers, "--id", "w1")
    first = run(*words)

    again, as_json = run(*words), run(*words, "--json")

    assert (first.code, again.code, as_json.code) == (0, 0, 0)
    assert "ended before" not in first.err
    assert "run w1 ended before, as COMPLETED at 2" in again.err
    assert "nothing was run now" in again.err
    assert "choose another --id" in again.err
    assert f"afl-stream reset w1 --data-dir {run.data_dir}" in again.err
    assert (as_json.document["was_over"], as_json.document["events"]) == (True, 0)


def test_start_with_the_id_of_a_completed_run_says_that_nothing_was_started(run: CommandLine) -> None:
    run("dev", run.program, "--input", "hosts=[]", "--handlers", run.handlers, "--id", "w1")
    words = ("start", "Watch", "--input", "hosts=[]", "--id", "w1")

    again, as_json = run(*words), run(*words, "--json")

    assert (again.code, again.out, as_json.code) == (0, "w1\n", 0)
    assert "w1 exists already: it ended as COMPLETED, nothing was started" in again.err
    assert "choose another --id" in again.err
    assert f"afl-stream reset w1 --data-dir {run.data_dir}" in again.err
    assert "is started" not in again.err
    assert "is asked for" not in again.err
    assert (as_json.document["status"], as_json.document["was_over"]) == ("COMPLETED", True)


def test_start_with_the_id_of_a_run_that_waits_says_that_it_exists_and_continues(run: CommandLine) -> None:
    run.waiting()
    words = ("start", "Watch", "--input", "hosts=[]", "--id", "w1")

    again, as_json = run(*words), run(*words, "--json")

    assert (again.code, as_json.code) == (0, 0)
    assert "w1 exists already: nothing new was started, and it continues as it is, WAITING" in again.err
    assert (as_json.document["status"], as_json.document["was_over"]) == ("WAITING", False)


@pytest.mark.parametrize("end", ["fail", "cancel"])
def test_dev_with_the_id_of_a_failed_run_offers_retry(run: CommandLine, end: str) -> None:
    run.waiting()
    run("cancel", "w1") if end == "cancel" else run("fail", run.steps("w1", "net.Note")[0])
    run("evaluator", "--until-idle")

    again = run("dev", run.program, "--input", "hosts=[]", "--id", "w1")
    retry = run("retry", "w1")
    later = run("dev", run.program, "--input", "hosts=[]", "--id", "w1", "--handlers", run.handlers)

    assert again.code == 1
    assert f"afl-stream retry w1 --data-dir {run.data_dir}" in again.err
    assert "choose another --id" in again.err
    assert retry.code == 0
    assert later.code == 0
    assert "ended before" not in later.err


def test_dev_with_the_id_of_a_run_with_other_inputs_names_them(run: CommandLine) -> None:
    run.waiting()

    other = run("dev", run.program, "--input", 'hosts=["b"]', "--id", "w1")

    assert other.code == 2
    assert 'input hosts is [], not ["b"]; choose another id' in other.err
