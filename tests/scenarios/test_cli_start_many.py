"""`afl-stream start --many`: a file of starts is checked whole, sent, and sent again after it was cut short."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.scenarios.command_lines import Called, CommandLine


@pytest.fixture
def deployed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys).deployed()


def lines(*starts: object) -> str:
    return "".join(f"{json.dumps(start)}\n" for start in starts)


def watch(workflow_id: str, *hosts: str) -> dict[str, object]:
    return {"workflow": "Watch", "id": workflow_id, "inputs": {"hosts": list(hosts)}}


def refused(called: Called, code: int, *words: str) -> None:
    assert (called.code, called.out) == (code, ""), called
    assert [word for word in words if word not in called.err] == [], called.err
    assert "Traceback" not in called.err
    assert len(called.err.splitlines()) == 1


def test_each_line_starts_a_run_and_their_ids_are_printed_in_order(deployed: CommandLine) -> None:
    path = deployed.file("runs.jsonl", lines(watch("w1"), watch("w2", "a")) + "\n" + lines(watch("w3")))

    called = deployed("start", "--many", path)

    assert (called.code, called.out) == (0, "w1\nw2\nw3\n")
    assert "3 starts are asked for; an evaluator applies them: afl-stream evaluator --until-idle" in called.err
    assert deployed("evaluator", "--until-idle").code == 0
    assert {run["workflow_id"] for run in deployed("status", "--json").document} == {"w1", "w2", "w3"}


def test_the_same_file_again_starts_nothing_new(deployed: CommandLine) -> None:
    few = deployed.file("few.jsonl", lines(watch("w1"), watch("w2")))
    every = deployed.file("all.jsonl", lines(*(watch(f"w{n}") for n in range(1, 5))))

    codes = [deployed("start", "--many", few).code, deployed("evaluator", "--until-idle").code]
    again = deployed("start", "--many", every)
    codes += [again.code, deployed("evaluator", "--until-idle").code]

    assert codes == [0, 0, 0, 0]
    runs = deployed("status", "--json").document
    assert sorted(run["workflow_id"] for run in runs) == ["w1", "w2", "w3", "w4"]


def test_a_workflow_on_the_command_line_is_for_lines_without_one_and_ids_are_drawn(deployed: CommandLine) -> None:
    path = deployed.file("runs.jsonl", lines({"inputs": {"hosts": []}}, {"id": "w2", "inputs": {"hosts": []}}))

    document = deployed("start", "Watch", "--many", path, "--json").document

    assert document["count"] == 2
    assert document["workflow_ids"][1] == "w2"
    assert len(document["workflow_ids"][0]) > 20


def test_standard_input_is_read_to_its_end_before_the_first_start(
    deployed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines(watch("w1"), watch("w2")).encode())))
    assert deployed("start", "--many", "-").out == "w1\nw2\n"

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines(watch("w3"), {"id": 3}).encode())))
    refused(deployed("start", "Watch", "--many", "-"), 2, 'standard input:2: "id" is not a text')
    assert deployed.records() == 2


def test_a_pipe_may_be_the_file(deployed: CommandLine) -> None:
    pipe = deployed.folder / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(lines(watch("w1"), watch("w2")),))
    writer.start()

    assert deployed("start", "--many", str(pipe)).out == "w1\nw2\n"
    writer.join()


def test_an_empty_file_starts_nothing(deployed: CommandLine) -> None:
    called = deployed("start", "--many", deployed.file("none.jsonl", "\n"))

    assert (called.code, called.out) == (0, "")
    assert "0 starts are asked for" in called.err
    assert deployed.records() == 0


GOOD = lines(watch("w1"))
LINES: list[tuple[str, int, Sequence[str]]] = [
    ("{", 2, ["not JSON: Expecting property name", "(column 2)"]),
    ("[]", 2, ["expected a JSON object such as"]),
    ('{"workflow": "Watch", "workflow": "Watch"}', 2, ["workflow"]),
    ("\udcff", 2, ["not JSON", "utf-8"]),
    (f"{'[' * 100_000}", 2, ["nested too deep"]),
    ('{"worflow": "Watch"}', 2, ["unknown field worflow", "workflow, id, inputs"]),
    ("{}", 2, ['no "workflow", and none is given on the command line']),
    ('{"workflow": 7}', 2, ['"workflow" is not a text']),
    ('{"workflow": "Watch", "id": 7}', 2, ['"id" is not a text']),
    ('{"workflow": "Watch", "inputs": []}', 2, ['"inputs" is not a JSON object']),
    ('{"workflow": "Watch", "inputs": {"hosts": [NaN]}}', 2, ["inputs.hosts[0]", "nan"]),
    ('{"workflow": "Watch"}', 2, ["needs input hosts: [String]", "nothing was sent"]),
    ('{"workflow": "Watch", "inputs": {"hosts": [1]}}', 2, ["hosts[0]: a String was expected", "nothing was sent"]),
    ('{"workflow": "Watch", "id": "w1", "inputs": {"hosts": ["b"]}}', 2, ["runs.jsonl:1 (w1) has the id w1 too"]),
    ('{"workflow": "Watch", "id": "a b", "inputs": {"hosts": []}}', 2, ["(a b)", "workflow id"]),
    ('{"workflow": "Wach", "inputs": {"hosts": []}}', 3, ["did you mean net.Watch?"]),
]


@pytest.mark.parametrize(("line", "code", "said"), LINES, ids=range(len(LINES)))
def test_a_line_that_cannot_be_is_named_and_nothing_is_sent(
    line: str, code: int, said: Sequence[str], deployed: CommandLine
) -> None:
    path = deployed.folder / "runs.jsonl"
    path.write_bytes(f"{GOOD}{line}\n".encode("utf-8", "surrogateescape"))

    refused(deployed("start", "--many", str(path)), code, f"{path}:2", *said)
    assert deployed.records() == 0


def test_a_file_that_cannot_be_read_is_named(deployed: CommandLine) -> None:
    refused(deployed("start", "--many", "nothing.jsonl"), 2, "--many nothing.jsonl: No such file")
    refused(deployed("start", "--many", str(deployed.folder)), 2, "Is a directory")


@pytest.mark.parametrize(
    "words", [["--id", "w1"], ["--input", "hosts=[]"], ["--inputs", "{}"], ["--wait"], ["--timeout", "0"]]
)
def test_options_of_a_single_start_do_not_go_with_many(words: Sequence[str], deployed: CommandLine) -> None:
    called = deployed("start", "--many", deployed.file("runs.jsonl", GOOD), *words)

    assert called.code == 2
    assert "--many goes without" in called.err
    assert deployed.records() == 0


def test_without_a_file_the_workflow_is_asked_for(deployed: CommandLine) -> None:
    called = deployed("start")

    assert called.code == 2
    assert "Missing argument 'WORKFLOW'" in called.err
