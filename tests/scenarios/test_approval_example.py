"""`examples/approval`: days pass on a virtual clock, and a person answers by the command, by kcat or in the form."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from afl.engine.model.store import COMPLETED
from afl.engine.states import StepState
from afl_stream.cli import main
from examples.approval.__main__ import main as demo
from examples.approval.answering import answer_by
from examples.approval.answering import main as answering
from examples.approval.form import FormServer
from examples.approval.handlers import TELL, message, tell
from tests.eventually import eventually
from tests.worlds.deployment import Deployment
from tests.worlds.requirements import required_tool
from tests.worlds.world import World
from tests.worlds.worlds import KAFKA, MEMORY, SQLITE, in_worlds

FOLDER: Final = Path(__file__).parents[2] / "examples" / "approval"
REQUEST: Final = "desk-1"
DAY_MS: Final = 86_400_000
#: Far longer than it takes until all is done that is due.
_A_MINUTE_MS: Final = 60_000
YES: Final = {"approved": True, "by": "ada"}


class Office:
    """A purchase that was asked for, on a deployment with an evaluator and the agent that tells people."""

    def __init__(self, world: World) -> None:
        self.deployment: Deployment = world.deployment((FOLDER / "approval.afl").read_text())
        self.open()
        inputs = {"item": "a desk", "euros": 480}
        self.deployment.client.start("approval.Purchase", inputs, workflow_id=REQUEST)
        self.deployment.settle()

    def open(self) -> None:
        self.deployment.evaluator()
        self.deployment.worker({TELL: tell}).join()
        self.deployment.settle()

    def pass_time(self, duration_ms: int) -> None:
        self.deployment.clock.advance(duration_ms)
        self.deployment.settle()

    def told(self) -> list[str]:
        """Return who was told something, in order."""
        steps = [step for step in self.deployment.steps(REQUEST) if step.facet_name == TELL]
        assert {step.state for step in steps} <= {StepState.STATEMENT_COMPLETE}
        return [str(step.params["person"]) for step in steps]

    def outputs(self) -> Mapping[str, Any]:
        row = self.deployment.workflow(REQUEST)
        assert (row.status, row.error) == (COMPLETED, None)
        assert row.outputs is not None
        assert self.deployment.store.next_timer_ms() is None
        return row.outputs

    def is_open(self) -> bool:
        return self.deployment.workflow(REQUEST).status != COMPLETED


def test_a_purchase_reminds_escalates_and_is_declined_after_a_week(world: World) -> None:
    office = Office(world)
    assert office.told() == ["ada"]

    office.pass_time(2 * DAY_MS - _A_MINUTE_MS)
    assert office.told() == ["ada"]
    office.pass_time(_A_MINUTE_MS)
    assert office.told() == ["ada", "ada"]
    office.pass_time(2 * DAY_MS)
    assert office.told() == ["ada", "ada", "grace"]
    office.pass_time(3 * DAY_MS - _A_MINUTE_MS)
    assert office.is_open()
    office.pass_time(_A_MINUTE_MS)

    assert office.outputs() == {"verdict": "declined", "answer": "nobody has answered", "asked": 3}
    assert office.told() == ["ada", "ada", "grace"]


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (YES, "approved"),
        *((other, "declined") for other in ({"approved": False}, {"approved": "yes"}, {"by": "ada"}, "yes", None, 7)),
    ],
    ids=str,
)
@in_worlds([MEMORY])
def test_only_a_clear_yes_is_a_yes(world: World, answer: object, verdict: str) -> None:
    office = Office(world)

    office.deployment.client.raise_event(REQUEST, "approval", answer)
    office.deployment.settle()

    assert office.outputs() == {"verdict": verdict, "answer": answer, "asked": 1}


def test_an_answer_in_the_form_after_five_days_counts(world: World) -> None:
    office = Office(world)
    for _ in range(5):
        office.pass_time(DAY_MS)

    with FormServer(answer_by(office.deployment.client)) as form:
        fields = {"token": "0" * 32, "by": "grace", "comment": "a <good> desk", "approved": "yes"}
        # Twice: a second click on the button.
        for _ in range(2):
            assert "You have approved" in _posted(form, f"/requests/{REQUEST}", fields)
    office.deployment.settle()

    answer = {"approved": True, "by": "grace", "comment": "a <good> desk"}
    assert office.outputs() == {"verdict": "approved", "answer": answer, "asked": 3}
    assert len(office.deployment.store.history(REQUEST)) == 4


def _posted(form: FormServer, path: str, fields: Mapping[str, str]) -> str:
    """Post fields to the form, which this thread serves meanwhile; return the page."""
    pages: list[str] = []

    def post() -> None:
        with urlopen(form.url + path, urlencode(fields).encode(), timeout=10) as answered:
            pages.append(answered.read().decode())

    visitor = threading.Thread(target=post)
    visitor.start()
    form.handle_request()
    visitor.join()
    return pages[0]


def _command_of_the_message() -> list[str]:
    """Return the words of the command in the message that a person gets."""
    line = message({"person": "ada", "text": "please approve a desk"}, REQUEST).splitlines()[1]
    return shlex.split(line)


@in_worlds([SQLITE])
def test_the_command_of_the_message_answers(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    office = Office(world)
    office.pass_time(3 * DAY_MS)
    words = _command_of_the_message()
    # The log serves one process at a time.
    office.deployment.crash()

    code = main([*words[1:], "--data-dir", office.deployment.config.embedded.data_dir])

    assert code == 0, capsys.readouterr()
    office.deployment.restart()
    office.open()
    assert office.outputs() == {"verdict": "approved", "answer": YES, "asked": 2}


def test_the_demo_declines_when_nobody_answers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()

    assert demo(["--day-s", "0.05", "--port", "0"], out, tmp_path) == 0

    assert out.getvalue().splitlines()[1:] == ["declined, after 3 of 3 messages: nobody has answered"]
    told = [line.partition(":")[0] for line in capfd.readouterr().out.splitlines() if line.startswith("To ")]
    assert told == ["To ada", "To ada", "To grace"]


@pytest.mark.parametrize("day_s", ["0", "-1", "nan", "1e300", "0.0001"])
def test_a_day_of_no_length_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], day_s: str) -> None:
    with pytest.raises(SystemExit) as ended:
        demo([f"--day-s={day_s}"], io.StringIO(), tmp_path)

    assert ended.value.code == 2
    assert "expected 0.001 or more" in capsys.readouterr().err


def test_a_port_that_is_taken_is_named_with_a_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FormServer(lambda request, data, event_id: None) as other, pytest.raises(SystemExit) as ended:
        demo(["--port", str(other.server_port)], io.StringIO(), tmp_path)

    assert ended.value.code == 3
    said = capsys.readouterr().err
    assert said.startswith(f"Error: port {other.server_port} of this machine: ")
    assert said.endswith("; choose another by --port\n")


def test_the_demo_is_answered_in_its_form(tmp_path: Path) -> None:
    out, codes = io.StringIO(), list[int]()
    runs = threading.Thread(target=lambda: codes.append(demo(["--port", "0"], out, tmp_path)))
    runs.start()
    eventually(lambda: "\n" in out.getvalue(), 30)
    address = out.getvalue().split()[-1]
    fields = {"token": "0" * 32, "by": "ada", "comment": "", "approved": "no"}
    with urlopen(address, urlencode(fields).encode(), timeout=30) as answered:
        assert "You have declined" in answered.read().decode()
    runs.join(30)

    assert codes == [0]
    assert 'declined, after 1 of 3 messages: {"approved": false, "by": "ada", "comment": ""}' in out.getvalue()


@in_worlds([KAFKA])
def test_the_command_of_the_message_answers_on_kafka(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(world)
    config = office.deployment.config
    office.pass_time(3 * DAY_MS)
    monkeypatch.setenv("AFL_PREFIX", config.prefix)
    monkeypatch.setenv("AFL_KAFKA_BOOTSTRAP", str(config.kafka.bootstrap))

    assert main(_command_of_the_message()[1:]) == 0, capsys.readouterr()

    office.deployment.settle()
    assert office.outputs() == {"verdict": "approved", "answer": YES, "asked": 2}


@in_worlds([KAFKA])
def test_the_line_of_kcat_that_the_page_shows_answers(world: World) -> None:
    required_tool("kcat")
    office = Office(world)
    config = office.deployment.config
    (block,) = [
        body for body in re.findall(r"```sh\n(.*?)```", (FOLDER / "README.md").read_text(), re.S) if "kcat" in body
    ]
    line = block.replace("localhost:9092", str(config.kafka.bootstrap)).replace(
        "afl.external", f"{config.prefix}external"
    )

    subprocess.run(["bash", "-euo", "pipefail", "-c", line], check=True, timeout=60, env=dict(os.environ))
    office.deployment.settle()

    answer = office.outputs()["answer"]
    assert office.outputs()["verdict"] == "approved"
    assert answer == json.loads(re.search(r'"data": (\{.*?\})', block)[1])  # type: ignore[index]  # the page has it


def test_the_form_needs_a_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AFL_KAFKA_BOOTSTRAP", raising=False)

    with pytest.raises(SystemExit) as ended:
        answering(["--port", "0"], io.StringIO())

    assert ended.value.code == 3
    assert "AFL_KAFKA_BOOTSTRAP=HOST:PORT" in capsys.readouterr().err
