"""`afl-stream raise|history|continue-as-new`, command by command: what they say, refuse, and bring about."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.scenarios.command_lines import CommandLine

#: One run that waits once, and one that waits without end, a wait in each execution.
SHOP = """namespace shop {
    workflow Checkout(order: String) => (by: Json) andThen {
        approval = afl.WaitForEvent(name = "approval")
        yield Checkout(by = approval.data)
    }
    workflow Meter(total: Long, last: Json = null) => (total: Long) andThen {
        reading = afl.WaitForEvent(name = "reading", timeout_ms = 86400000)
        next = afl.ContinueAsNew(inputs = #{"total": $.total + 1, "last": reading.data})
        yield Meter(total = $.total)
    }
}
"""


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Deploy SHOP, and run nothing."""
    command_line = CommandLine(tmp_path, capsys)
    program = command_line.file("shop.afl", SHOP)
    assert command_line("topics", "apply", program).code == 0
    assert command_line("deploy", program).code == 0
    return command_line


def done(command_line: CommandLine, *words: str) -> str:
    """Call it, and have an evaluator apply what is there. Returns the command's own output."""
    called = command_line(*words)
    assert called.code == 0, called.err
    # Waits are left, nearly always.
    assert command_line("evaluator", "--until-idle").code in (0, 1)
    return called.out


def run_of(command_line: CommandLine, workflow_id: str) -> dict[str, object]:
    document = command_line("status", workflow_id, "--json").document
    assert isinstance(document, dict)
    return document


def history_of(command_line: CommandLine, workflow_id: str, *options: str) -> list[dict[str, object]]:
    document = command_line("history", workflow_id, "--json", *options).document
    assert document["workflow_id"] == workflow_id
    rows: list[dict[str, object]] = document["history"]
    return rows


def events_of(command_line: CommandLine, workflow_id: str) -> dict[object, tuple[object, bool]]:
    """Return the data of each event of a run, by its id, and whether a step has taken it."""
    rows = [row for row in history_of(command_line, workflow_id) if row["kind"] == "ExternalEvent"]
    return {row["id"]: (row["data"], row["step_id"] is not None) for row in rows}


def test_an_event_that_is_raised_before_its_run_is_started_is_the_runs(shop: CommandLine) -> None:
    said = done(shop, "raise", "order-17", "approval", '{"by": "ann"}', "--id", "a-1")

    assert said == "raised approval for order-17, with id a-1\n"
    early = shop("history", "order-17")
    assert early.code == 0
    assert "there is no run order-17 yet" in early.out
    assert "pending until" in early.out
    done(shop, "start", "Checkout", "--input", "order=17", "--id", "order-17")
    run = run_of(shop, "order-17")
    assert (run["status"], run["outputs"]) == ("COMPLETED", {"by": {"by": "ann"}})
    assert events_of(shop, "order-17") == {"a-1": ({"by": "ann"}, True)}


def test_an_event_during_a_run_continues_the_step_that_status_shows_waiting(shop: CommandLine) -> None:
    done(shop, "start", "Checkout", "--input", "order=17", "--id", "order-17")
    status = shop("status", "order-17")
    (step_id,) = shop.steps("order-17", "afl.WaitForEvent")
    assert f"waits for event approval\n  step {step_id}\n" in status.out
    assert "afl-stream raise order-17 approval DATA" in status.out

    done(shop, "raise", "order-17", "approval", '"yes"', "--id", "a-1")

    assert run_of(shop, "order-17")["outputs"] == {"by": "yes"}
    subscribed, event = history_of(shop, "order-17")
    assert (subscribed["kind"], subscribed["name"], subscribed["step_id"], subscribed["execution"]) == (
        "ExternalSubscribed", "approval", step_id, 1,
    )  # fmt: skip
    assert (event["kind"], event["name"], event["data"], event["step_id"], event["execution"]) == (
        "ExternalEvent", "approval", "yes", step_id, 1,
    )  # fmt: skip
    assert isinstance(event["at_ms"], int)
    assert not event["pending"]


def test_an_event_after_the_end_is_kept_without_an_error_and_never_taken(shop: CommandLine) -> None:
    done(shop, "raise", "order-17", "approval", "1", "--id", "a-1")
    done(shop, "start", "Checkout", "--input", "order=17", "--id", "order-17")

    late = shop("raise", "order-17", "approval", "2", "--id", "a-2")

    assert late.code == 0
    assert "order-17 has ended as COMPLETED" in late.err
    assert shop("evaluator", "--until-idle").code == 0
    assert events_of(shop, "order-17") == {"a-1": (1, True), "a-2": (2, False)}
    assert "never taken: the run has ended" in shop("history", "order-17").out


def test_an_event_that_waits_when_its_run_ends_was_never_taken(shop: CommandLine) -> None:
    done(shop, "start", "Checkout", "--input", "order=17", "--id", "order-17")
    done(shop, "raise", "order-17", "noise", "1")
    assert "    pending\n" in shop("history", "order-17").out

    done(shop, "raise", "order-17", "approval", '"yes"')

    history = shop("history", "order-17").out
    assert "    never taken: the run has ended\n" in history
    assert "pending" not in history


def test_a_name_like_one_that_the_run_waits_for_is_asked_about(shop: CommandLine) -> None:
    done(shop, "start", "Checkout", "--input", "order=17", "--id", "order-17")

    misspelt = shop("raise", "order-17", "aproval", '"yes"')
    other = shop("raise", "order-17", "cancelled", '"yes"')
    meant = shop("raise", "order-17", "approval", '"yes"')

    assert misspelt.code == 0
    assert "Note: order-17 waits for event approval, not for aproval: is that meant?" in misspelt.err
    assert "Note" not in other.err + meant.err


def test_what_a_run_waits_for_is_no_wider_than_the_terminal(shop: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done(shop, "start", "Checkout", "--input", "order=17", "--id", "01a226de-435e-748b-b72e-aa4fc6f51dc6")

    shown = shop("status", "01a226de-435e-748b-b72e-aa4fc6f51dc6").out.splitlines()

    assert max(len(line) for line in shown if not line.startswith("  afl-stream")) <= 80


def test_the_same_id_twice_counts_once(shop: CommandLine) -> None:
    done(shop, "start", "Meter", "--input", "total=0", "--id", "m")
    for data in ("1", "2"):
        done(shop, "raise", "m", "reading", data, "--id", "r-1")
    done(shop, "raise", "m", "reading", "3", "--id", "r-2")

    run = run_of(shop, "m")

    assert (run["execution_number"], run["inputs"]) == (3, {"total": 2, "last": 3})
    assert events_of(shop, "m") == {"r-1": (1, True), "r-2": (3, True)}


def test_a_history_goes_over_executions_and_one_of_them_has_what_was_carried_into_it(shop: CommandLine) -> None:
    done(shop, "start", "Meter", "--input", "total=0", "--id", "m")
    done(shop, "raise", "m", "noise", "0", "--id", "n-1")
    done(shop, "raise", "m", "reading", "1", "--id", "r-1")

    status = shop("status", "m")
    assert "execution 2" in status.out
    assert "1 external event that no step has taken: noise; afl-stream history m" in status.out
    kinds = [(row["kind"], row["execution"]) for row in history_of(shop, "m")]
    assert kinds == [
        ("ExternalSubscribed", 1),
        ("ExternalEvent", 1),
        ("ExternalEvent", 1),
        ("ContinuedAsNew", 1),
        ("ExternalSubscribed", 2),
    ]
    second = history_of(shop, "m", "--execution", "2")
    assert [(row["kind"], row.get("id"), row["execution"]) for row in second] == [
        ("ExternalEvent", "n-1", 1),
        ("ExternalSubscribed", None, 2),
    ]
    (ended,) = [row for row in history_of(shop, "m") if row["kind"] == "ContinuedAsNew"]
    assert ended["inputs"] == {"total": 1, "last": 1}
    missing = shop("history", "m", "--execution", "3")
    assert (missing.code, missing.out) == (3, "")
    assert "no execution 3 of m; its last is 2" in missing.err


def test_an_operator_continues_a_run_with_other_inputs(shop: CommandLine) -> None:
    done(shop, "start", "Meter", "--input", "total=7", "--id", "m")
    done(shop, "raise", "m", "noise", "0", "--id", "n-1")

    said = done(shop, "continue-as-new", "m", "--input", "total=100", "--reason", "new tariff")

    assert said == "asked for m to continue as new\n"
    run = run_of(shop, "m")
    assert (run["status"], run["execution_number"], run["pending_events"]) == ("WAITING", 2, 1)
    assert run["inputs"] == {"total": 100}
    assert "ContinuedAsNew" in shop("history", "m").out


def test_no_line_of_a_history_breaks_an_id_or_is_wider_than_the_terminal(
    shop: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    event_id = "an-id-of-sixty-characters-" + "x" * 34
    done(shop, "raise", "order-17", "approval", '{"text": "' + "word " * 60 + '"}', "--id", event_id)
    done(shop, "start", "Checkout", "--input", "order=17", "--id", "order-17")
    (step_id,) = shop.steps("order-17", "afl.WaitForEvent")
    monkeypatch.setenv("COLUMNS", "80")

    lines = shop("history", "order-17").out.splitlines()

    assert max(map(len, lines)) <= 80
    for whole in (event_id, step_id):
        assert any(line.endswith(f" {whole}") for line in lines)


MISTAKES: list[tuple[Sequence[str], int, Sequence[str]]] = [
    (["raise", "w", "n", "yes"], 2, ["DATA: not JSON", "quoted twice", """afl-stream raise w n '"yes"'"""]),
    (["raise", "w", "n", "{by: ann}"], 2, ["DATA: not JSON", """single quotes: '{"by": "ann"}'"""]),
    (["raise", "w", "n", "[1,"], 2, ["DATA: not JSON", "single quotes"]),
    (["raise", "w", "n", ""], 2, ["DATA: not JSON"]),
    (["raise", "w", "n", "99999999999999999999"], 2, ["DATA", "beyond 64 bits"]),
    (["raise", "w", "n", '{"a": 1, "a": 2}'], 2, ["DATA", "'a'"]),
    (["raise", "w", "n", "@no-such-file"], 2, ["@no-such-file", "No such file"]),
    (["raise", "w", "n", "1", "--data", "2"], 2, ["DATA and --data say the same"]),
    (["raise", "w", "n", "--timeout", "1"], 2, ["--timeout goes with --wait"]),
    (
        ["raise", "w", "n", "--wait"],
        2,
        ["no process holds the embedded log for others", "afl-stream evaluator --until-idle"],
    ),
    (["raise", "a b", "n"], 2, ["'a b' is not a valid workflow id"]),
    (["raise", "w", ""], 2, ["'' is not a valid name of an external event", "1 to 249 characters"]),
    (["raise", "w", "x" * 250], 2, ["name of an external event"]),
    (["raise", "w", "n", "--id", ""], 2, ["id of an external event", "leave it out for one that is drawn"]),
    (["raise", "w"], 2, ["Missing argument 'NAME'"]),
    (["raise", "w", "n", '"' + "x" * 900_001 + '"'], 2, ["ExternalEvent takes 900", "max_event_bytes allows 900000"]),
    (["history", "a b"], 2, ["'a b' is not a valid workflow id"]),
    (["history", "w"], 3, ["there is no store", "afl-stream evaluator --until-idle"]),
    (["continue-as-new", "a b"], 2, ["'a b' is not a valid workflow id"]),
    (["continue-as-new", "w", "--inputs", "[1]"], 2, ["--inputs: expected a JSON object"]),
]


def test_a_mistake_is_named_and_nothing_is_sent(shop: CommandLine) -> None:
    for words, code, said in MISTAKES:
        called = shop(*words)

        assert (called.code, called.out) == (code, ""), words[:4]
        assert all(part in called.err for part in said), called.err[:500]
    assert shop.records() == 0


def test_a_run_that_cannot_continue_as_new_is_named(shop: CommandLine) -> None:
    done(shop, "raise", "order-17", "approval")
    done(shop, "start", "Checkout", "--input", "order=17", "--id", "order-17")
    done(shop, "start", "Meter", "--input", "total=0", "--id", "m")

    for words, code, said in [
        (["continue-as-new", "order-17", "--input", "order=1"], 2, "has ended: it is COMPLETED"),
        (["continue-as-new", "nobody"], 3, "there is no run nobody"),
        (["continue-as-new", "m"], 2, "total"),
        (["continue-as-new", "m", "--input", "total=much"], 2, "expected Long"),
        (["continue-as-new", "m", "--input", "total=1", "--program", "f" * 64], 3, "f" * 12),
        (["history", "nobody"], 3, "there is no run nobody"),
    ]:
        called = shop(*words)
        assert (called.code, called.out) == (code, ""), words
        assert said in called.err, called.err


def test_data_comes_from_a_file_from_standard_input_or_behind_an_option(
    shop: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('["from", "stdin"]'))
    file = shop.file("data.json", '{"from": "a file"}')
    given = [[f"@{file}"], ["-"], ["--data=-1"], ["--data", f"@{file}"], ["null"], ['""'], []]
    for number, words in enumerate(given):
        assert shop("raise", "w", "n", *words, "--id", f"e-{number}").code == 0
    assert shop("evaluator", "--until-idle").code == 0

    data = [row["data"] for row in history_of(shop, "w")]

    assert data == [{"from": "a file"}, ["from", "stdin"], -1, {"from": "a file"}, None, "", None]


def test_the_answer_of_raise_is_a_document_for_programs(shop: CommandLine) -> None:
    document = shop("raise", "w", "n", "1", "--id", "e-1", "--json").document

    assert document == {
        "workflow_id": "w",
        "name": "n",
        "id": "e-1",
        "outcome": None,
        "status": None,
        "step_id": None,
        "reason": None,
        "answered": False,
    }


def test_the_audit_tells_of_events_and_of_continuing(shop: CommandLine) -> None:
    done(shop, "start", "Meter", "--input", "total=0", "--id", "m")
    done(shop, "raise", "m", "noise", '{"n": 1}', "--id", "n-1")
    done(shop, "continue-as-new", "m", "--input", "total=1")

    lines = shop("audit", "--from-beginning", "--until-idle").out.splitlines()

    assert any('"kind":"external"' in line and '"data":{"n":1}' in line and '"name":"noise"' in line for line in lines)
    assert any('"command":"ContinueAsNew"' in line and '"inputs":{"total":1}' in line for line in lines)


def test_an_evaluator_says_what_it_did_with_events(shop: CommandLine) -> None:
    for _ in range(2):
        assert shop("raise", "m", "reading", "0", "--id", "r-1").code == 0
    assert shop("start", "Meter", "--input", "total=7", "--id", "m").code == 0

    said = shop("evaluator", "--until-idle", "--json").document

    assert (said["events"]["raised"], said["events"]["duplicate"], said["continued"]) == (2, 1, 1)
    assert (said["timers"]["fired"], said["republished"], said["firings"]) == (0, 0, {})
