"""`afl-stream list`, `show`, `trace`, `history` and `programs`, and what they say of runs that failed and caught."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from afl_stream.commands.runs.choosing import STATES
from afl_stream.visibility.choosing import STATUS_OF
from tests.scenarios.command_lines import CommandLine

_SHOP = """namespace shop {
    event facet Charge(order: String) => (receipt: String)
    facet Idle() => (x: Int) andThen { yield Idle(x = 1) }
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
    workflow Wait(by: Int) => (x: Int) andThen { i = Idle() yield Wait(x = i.x) }
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
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Three runs: `caught` and `first` have completed, `broken` has failed."""
    monkeypatch.setenv("COLUMNS", "80")
    run = CommandLine(tmp_path, capsys)
    run.program, run.handlers = run.file("shop.afl", _SHOP), run.file("shop_handlers.py", _HANDLERS)
    for workflow_id, workflow, given in (
        ("caught", "Checkout", "order=declined"),
        ("first", "Checkout", "order=17"),
        ("broken", "Divide", "by=0"),
    ):
        run(
            "dev", run.program, "--start", workflow, "--input", given, "--handlers", run.handlers, "--id", workflow_id
        )  # fmt: skip
    return run


def listed(run: CommandLine, *options: str) -> list[str]:
    """Return the ids that `list` gives with these options."""
    called = run("list", "--json", *options)
    assert called.code == 0, called.err
    return [found["workflow_id"] for found in called.document["workflows"]]


def test_each_option_of_the_list_narrows_it(shop: CommandLine) -> None:
    program = json.loads(shop("status", "first", "--json").out)["program"]

    assert listed(shop) == ["broken", "first", "caught"]
    assert listed(shop, "--state", "failed") == ["broken"]
    assert listed(shop, "--state", "failed", "--state", "COMPLETED") == ["broken", "first", "caught"]
    assert listed(shop, "--workflow", "Checkout") == ["first", "caught"]
    assert listed(shop, "--workflow", "shop.Divide") == ["broken"]
    assert listed(shop, "--facet", "Charge", "--workflow", "Checkout") == ["first", "caught"]
    assert listed(shop, "--facet", "shop.Idle") == []
    assert listed(shop, "-i", "order=17") == ["first"]
    assert listed(shop, "-i", "by=0") == ["broken"]
    assert listed(shop, "--error", "DIVISION by") == ["broken"]
    assert listed(shop, "--error", "card declined") == []
    assert listed(shop, "--since", "1h") == ["broken", "first", "caught"]
    assert listed(shop, "--until", "1h") == []
    assert listed(shop, "--program", program[:10]) == ["broken", "first", "caught"]


def test_pages_follow_each_other_by_the_command_that_is_shown(shop: CommandLine) -> None:
    first = shop("list", "--limit", "2")
    words = first.err.partition("more: afl-stream ")[2].split()
    second = shop(*words, data_dir=False)

    assert words[-4:-2] == ["--after", "first"]
    assert "caught" in second.out
    assert "broken" not in second.out
    assert "more:" not in second.err


def test_a_list_has_no_line_of_more_than_80_characters_and_names_the_first_cause(shop: CommandLine) -> None:
    out = shop("list").out

    assert max(map(len, out.splitlines())) <= 80
    assert "    EvaluationError: division by zero in 1 / $.by" in out.splitlines()


def test_a_list_in_a_pipe_is_a_line_a_run_with_tabs(shop: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")

    rows = [line.split("\t") for line in shop("list").out.splitlines()]

    assert [(row[0], row[1], row[2]) for row in rows] == [
        ("broken", "shop.Divide", "ERROR"),
        ("first", "shop.Checkout", "COMPLETED"),
        ("caught", "shop.Checkout", "COMPLETED"),
    ]
    assert [cell for row in rows for cell in row if cell != cell.strip()] == []


def test_the_words_for_states_are_those_of_the_filter() -> None:
    assert sorted(STATUS_OF) == list(STATES)


@pytest.mark.parametrize("when", ["9999-12-31", "1900-01-01", "999999999d"])
def test_a_time_that_no_run_can_have_is_a_time(shop: CommandLine, when: str) -> None:
    assert shop("list", "--since", when).code == 0


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("list", "--since", "yesterday"), 2, "--since yesterday: expected an age such as 2h"),
        (("list", "--since", "1h", "--until", "2h"), 2, "--until 2h: expected a time after that of since, 1h"),
        (("list", "--program", "zz"), 3, "there is no program"),
        (("list", "--workflow", "Chekout"), 0, "no run has a program with a workflow Chekout; did you mean Checkout"),
        (("list", "--facet", "shop.Chrage"), 0, "with a facet shop.Chrage; did you mean shop.Charge"),
        (("list", "-i", "order"), 2, "expected NAME=VALUE"),
        (("list", "--after", "nothing"), 3, "there is no run nothing"),
        (("show", "nothing"), 3, "there is no run nothing; afl-stream list shows them"),
        (("list", "-i", "ordr=17"), 0, "no run has a workflow with an input ordr; did you mean order?"),
        (("show", "frist"), 3, "there is no run frist; did you mean first?; afl-stream list shows them"),
        (("history", "frist"), 3, "there is no run frist; did you mean first?"),
        (("trace", "frist"), 3, "there is no run frist; did you mean first?"),
        (("status", "frist"), 3, "there is no run frist; did you mean first?"),
        (("why", "frist"), 3, "there is no run frist; did you mean first?"),
        (("retry", "frist"), 3, "there is no run frist; did you mean first?"),
        (("continue-as-new", "frist"), 3, "there is no run frist; did you mean first?"),
        (("store", "purge", "--workflow", "frist"), 3, "there is no run frist; did you mean first?"),
        (("migrate", "frist", "--to", "current"), 3, "there is no run frist; did you mean first?"),
        (("migrate", "--workflow", "Chekout", "--all", "--to", "current"), 3, "did you mean shop.Checkout?"),
        (("schemas", "export", "--facet", "shop.Chrage"), 3, "did you mean shop.Charge?"),
        (("programs", "show", "Chekout"), 3, "no workflow Chekout; did you mean Checkout"),
    ],
)
def test_a_mistake_is_told_with_what_would_be_right(
    shop: CommandLine, words: tuple[str, ...], code: int, told: str
) -> None:
    called = shop(*words)

    assert called.code == code
    assert told in called.err


def test_show_tells_who_answered_and_what_was_caught(shop: CommandLine) -> None:
    run = shop("show", "caught", "--json").document
    (paid,) = run["root"]["children"]
    (again,) = paid["children"]
    text = shop("show", "caught").out

    assert (paid["label"], paid["status"]) == ("paid = Charge", "complete")
    assert paid["caught"] == {"type": "ValueError", "message": "card declined"}
    assert paid["inputs"] == {"order": "declined"}
    (answer,) = paid["answers"]
    assert (answer["answer"], answer["group"]) == ("fail", "afl.agent.shop.Charge")
    assert answer["agent"]
    assert again["label"] == "catch again = Charge"
    assert again["ended_at_ms"] == again["answers"][0]["at_ms"]
    assert paid["ended_at_ms"] >= again["ended_at_ms"]
    assert run["gaps"] == []
    assert "    caught ValueError: card declined" in text.splitlines()
    assert paid["step_id"] in text.split()
    assert max(map(len, text.splitlines())) <= 80


def test_show_has_a_yield_that_failed(shop: CommandLine) -> None:
    lines = shop("show", "broken").out.splitlines()

    assert "yield Divide  failed" in " ".join(lines)
    assert "    EvaluationError: division by zero in 1 / $.by" in lines


def test_show_without_topics_says_no_time_that_it_does_not_know(shop: CommandLine) -> None:
    run = shop("show", "first", "--no-topics", "--json").document
    (paid,) = run["root"]["children"]

    assert (paid["answers"], paid["ended_at_ms"], run["gaps"]) == ([], None, None)
    assert run["duration_ms"] == run["ended_at_ms"] - run["created_at_ms"]


def test_trace_has_the_place_of_each_event_and_answer_in_order_of_time(shop: CommandLine) -> None:
    records = shop("trace", "caught", "--json").document["records"]
    text = shop("trace", "caught").out

    assert [(found["kind"], found["label"]) for found in records] == [
        ("event", "paid = Charge"),
        ("answer", "paid = Charge"),
        ("event", "catch again = Charge"),
        ("answer", "catch again = Charge"),
    ]
    assert [found["topic"] for found in records] == ["afl.events.shop.Charge", "afl.control"] * 2
    assert [found["at_ms"] for found in records] == sorted(found["at_ms"] for found in records)
    for found in records:
        assert f"{found['topic']}[{found['partition']}]@{found['offset']}" in text.replace(",", " ").split()


def test_history_has_the_steps_in_order_of_time(shop: CommandLine) -> None:
    document = shop("history", "caught", "--json").document
    with_topics = shop("history", "caught", "--topics", "--json").document

    assert [found["kind"] for found in document["transitions"]] == [
        "WorkflowStarted",
        "StepCreated",
        "StepCreated",
        "WorkflowEnded",
    ]
    kinds = [found["kind"] for found in with_topics["transitions"]]
    assert (kinds.count("EventPublished"), kinds.count("AnswerWritten")) == (2, 2)
    assert document["not_kept"]
    assert "paid = Charge: now complete" in shop("history", "caught").out


def test_a_beginning_of_a_drawn_id_is_taken_and_one_of_a_chosen_id_changes_no_other_run(shop: CommandLine) -> None:
    drawn = shop("dev", shop.program, "--start", "Wait", "--input", "by=1", "--handlers", shop.handlers, "--json")
    whole = drawn.document["workflow_id"]

    shown = shop("show", whole[:13], "--json").document["workflow_id"]
    reset = shop("reset", whole[:13], "--json").document["workflow_id"]
    unknown = shop("reset", "firs")

    assert shown == reset == whole
    assert unknown.code == 3
    assert "there is no run firs" in unknown.err


def test_programs_have_their_runs_and_what_differs_between_them(shop: CommandLine) -> None:
    changed = shop.file("changed.afl", _SHOP.replace("1 / $.by", "2 / $.by").replace("facet Idle()", "facet Idle2()")
        .replace("yield Idle(", "yield Idle2(").replace("i = Idle()", "i = Idle2()"))  # fmt: skip
    shop("dev", changed, "--start", "Divide", "--input", "by=1", "--handlers", shop.handlers, "--id", "second")

    found = shop("programs", "show", "Divide", "--json").document
    text = shop("programs", "show", "Divide").out
    counts = [version["run_count"] for version in shop("programs", "list", "--json").document]

    assert counts == [1, 3]
    assert [version["run_count"] for version in found["versions"]] == [3, 1]
    assert [(one["change"], one["name"], one["part"]) for one in found["differences"][0]] == [
        ("changed", "shop.Divide", "body"),
        ("removed", "shop.Idle", ""),
        ("added", "shop.Idle2", ""),
        ("changed", "shop.Wait", "body"),
    ]
    assert "+ facet shop.Idle2() => (x: Int)" in text


def test_status_is_as_it_was(shop: CommandLine) -> None:
    rows = shop("status", "--json").document

    assert [row["workflow_id"] for row in rows] == ["broken", "first", "caught"]
    assert shop("status", "cau", "--json").document["workflow_id"] == "caught"
