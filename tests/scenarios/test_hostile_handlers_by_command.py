"""A handler's objects hurt no process: the commands end as they do with any failure of a handler."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.evaluation.evaluator import Evaluator
from afl.stores.sqlite.store import SqliteStore
from afl.workers.service.__main__ import main as runner
from tests.scenarios.command_lines import CommandLine
from tests.scenarios.handlers.hostile import HOSTILE, PROGRAM, facet_of

MODULE = "tests.scenarios.handlers.hostile"
#: What is worst of each kind; `test_hostile_handlers.py` has them all.
WORST = ("awful", "nameless", "proxy", "leaving_inside", "interrupts_async", "own_base", "good")


def failures() -> dict[str, str | None]:
    return {handler.__name__: failure for handler, failure in HOSTILE.items() if handler.__name__ in WORST}


def facets() -> dict[str, str]:
    return {handler.__name__: facet_of(handler) for handler in HOSTILE if handler.__name__ in WORST}


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


def test_an_agent_answers_for_them_and_ends_as_ever(shell: CommandLine) -> None:
    program = shell.file("hostile.afl", PROGRAM)
    assert [shell("topics", "apply", program).code, shell("deploy", program).code] == [0, 0]
    for name, facet in facets().items():
        assert shell("start", f"hostile.Run{facet}", "--id", name.replace("_", "-")).code == 0
    assert shell("evaluator", "--until-idle").code == 0

    agent = shell("agent", "--handlers", MODULE, "--until-idle")
    assert shell("evaluator", "--until-idle").code == 0

    assert agent.code == 0, agent.err
    found = {}
    for name in facets():
        run = shell("status", name.replace("_", "-"), "--json").document
        found[name] = run["error"]["type"] if run.get("error") else None
    assert found == failures()


def test_a_runner_until_idle_ends_when_all_of_them_have_failed(tmp_path: Path) -> None:
    compiled = CompiledProgram(compile_text(PROGRAM).program_json)
    path = tmp_path / "store.db"
    with closing(SqliteStore(path)) as store:
        evaluator = Evaluator(store)
        runs = {n: evaluator.execute(f"hostile.Run{f}", {}, compiled).workflow_id for n, f in facets().items()}

    code = runner(["--store", str(path), "--handlers", MODULE, "--until-idle", "--port", "0", "--poll-interval", "10"])

    with closing(SqliteStore(path)) as store:
        rows = {name: store.load_workflow(workflow_id) for name, workflow_id in runs.items()}
    found = {name: row.error.type if row is not None and row.error is not None else None for name, row in rows.items()}
    assert (code, found) == (0, failures())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("class Bad(Exception):\n    def __str__(self): raise SystemExit(9)\nraise Bad()", "it raised Bad"),
        ("raise GeneratorExit", "it raised GeneratorExit"),
        ("def register_handlers(runner): raise SystemExit(9)", "register_handlers() raised SystemExit: 9"),
    ],
)
def test_a_module_that_raises_while_it_is_loaded_is_a_message_and_an_exit_code(
    shell: CommandLine, text: str, said: str
) -> None:
    handlers = shell.file("bad_module.py", text)
    shell.deployed()

    called = shell("agent", "--handlers", f"{handlers}", "--until-idle")

    assert called.code == 2
    assert said in called.err


#: Handlers that hang for as long as the test takes, and whose time is up soon.
HANGING = """
import threading
def register_handlers(runner):
    runner.register("net.Ping", lambda payload: threading.Event().wait(60), timeout_ms=50)
    runner.register("net.Note", lambda payload: {"ok": True})
"""


@pytest.mark.parametrize("ways", [["--until-idle"], []])
def test_an_agent_with_too_many_stuck_handlers_says_of_which_facet_and_ends_with_1(
    shell: CommandLine, ways: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFL_AGENT_MAX_STUCK_HANDLERS", "2")
    handlers = shell.file("hanging.py", HANGING)
    shell.deployed()
    shell("start", "Watch", "--input", 'hosts=["a", "b", "c", "d", "e"]', "--id", "w1")
    shell("evaluator", "--until-idle")

    agent = shell("agent", "--handlers", handlers, *ways)

    assert agent.code == 1
    assert "3 handlers still run after their time was up, and max_stuck_handlers is 2: net.Ping (3)" in agent.err
