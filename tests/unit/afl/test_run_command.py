"""`afl run`: a workflow in one process, with answers out of a file."""

import json
from pathlib import Path

import pytest

from afl.cli import main

_PAY = """
namespace pay {
    event facet Charge(amount: Int) => (receipt: String)
    facet Twice(n: Int) => (n2: Int = $.n * 2)
    workflow Pay(amount: Int, who: String = "nobody") => (receipt: String, total: Int, who: String) andThen {
        t = Twice(n = $.amount)
        first = Charge(amount = $.amount)
        second = Charge(amount = t.n2)
        yield Pay(receipt = first.receipt ++ "+" ++ second.receipt, total = t.n2, who = $.who)
    }
}
"""


@pytest.fixture
def pay(tmp_path: Path) -> str:
    path = tmp_path / "pay.afl"
    path.write_text(_PAY)
    return str(path)


def answers(folder: Path, document: object) -> str:
    path = folder / "answers.json"
    path.write_text(json.dumps(document))
    return str(path)


def test_outputs_are_printed_as_json(pay: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    given = answers(tmp_path, {"Charge": [{"receipt": "a"}, {"receipt": "b"}]})

    assert main(["run", pay, "-i", "amount=4", "-i", "who=7", "--answers", given]) == 0
    out, err = capsysbinary.readouterr()
    # `who` is a String: what is typed for it is its text.
    assert json.loads(out) == {"receipt": "a+b", "total": 8, "who": "7"}
    assert err == b""


def test_one_answer_serves_every_event(pay: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    given = answers(tmp_path, {"pay.Charge": {"receipt": "x"}})

    assert main(["run", pay, "--inputs", '{"amount": 1}', "--answers", given]) == 0
    assert json.loads(capsysbinary.readouterr().out)["receipt"] == "x+x"


def test_inputs_come_out_of_a_file_and_single_ones_win(
    pay: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "in.json").write_text('{"amount": 1, "who": "ada"}')
    given = answers(tmp_path, {"Charge": {"receipt": "x"}})

    assert main(["run", pay, "--inputs", f"@{tmp_path / 'in.json'}", "-i", "amount=5", "--answers", given]) == 0
    assert json.loads(capsysbinary.readouterr().out) == {"receipt": "x+x", "total": 10, "who": "ada"}


def test_a_run_without_answers_says_what_waits_and_ends_with_3(pay: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", pay, "-i", "amount=2"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        'waiting: pay.Pay.first for pay.Charge {"amount": 2}',
        'waiting: pay.Pay.second for pay.Charge {"amount": 4}',
        "no answers are left; give more by --answers FILE",
    ]


def test_a_run_goes_as_far_as_its_answers(pay: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", pay, "-i", "amount=2", "--answers", answers(tmp_path, {"Charge": [{"receipt": "a"}]})]) == 3
    assert "waiting: pay.Pay.second for pay.Charge" in capsys.readouterr().err


def test_a_failure_names_the_step_and_ends_with_1(pay: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = {"$error": {"type": "CardRefused", "message": "no money"}}
    given = answers(tmp_path, {"Charge": [{"receipt": "a"}, refused]})

    assert main(["run", pay, "-i", "amount=2", "--answers", given]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    reported, line, carets = err.splitlines()
    assert reported == f"Error: pay.Pay.second (pay.Charge, {pay}:8:9) failed: CardRefused: no money"
    assert line.lstrip().startswith("8 |         second = Charge(")
    assert carets.partition("|")[2] == " " * 9 + "^" * len("second")


def test_an_answer_with_other_names_fails_its_step(
    pay: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = answers(tmp_path, {"Charge": [{"receipt": "a"}, {"reciept": "b"}]})

    assert main(["run", pay, "-i", "amount=2", "--answers", given]) == 1
    assert (
        "failed: ResultMismatch: the result of pay.Charge lacks receipt and has reciept, which pay.Charge does not "
        "declare; it has to hold receipt"
    ) in capsys.readouterr().err


def test_an_answer_with_a_key_twice_is_refused(pay: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = tmp_path / "answers.json"
    given.write_text('{"Charge": [{"receipt": "a", "receipt": "b"}]}', encoding="utf-8")

    assert main(["run", pay, "-i", "amount=2", "--answers", str(given)]) == 2
    assert "the key 'receipt' stands twice in one object" in capsys.readouterr().err


def test_answers_that_were_not_needed_are_told(pay: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = answers(tmp_path, {"Charge": [{"receipt": "a"}] * 3})

    assert main(["run", pay, "-i", "amount=2", "--answers", given]) == 0
    assert capsys.readouterr().err == "note: there were more answers for pay.Charge than events\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "Error: "),
        (["-i", "amount=x"], "Error: "),
        (["-i", "amount=1", "-i", "amount=2"], "Error: --input amount is given twice"),
        (["-i", "amount"], "Error: --input amount: wanted NAME=VALUE"),
        (["--inputs", "[]"], "Error: --inputs: wanted a JSON object"),
        (["--inputs", "{"], "Error: --inputs: not JSON"),
        (["--inputs", '{"a": 1, "a": 2}'], "Error: --inputs: the key 'a' stands twice in one object"),
        (["-i", 'amount={"a": 1, "a": 2}'], "Error: --input amount: the key 'a' stands twice in one object"),
        (["--inputs", "@none.json"], "Error: --inputs: none.json: No such file"),
        (["--answers", "none.json"], "Error: --answers: none.json: No such file"),
        (["--workflow", "Nope"], "Error: no workflow named 'Nope'"),
    ],
)
def test_what_a_run_cannot_start_with_ends_with_2(
    pay: str, args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", pay, *args]) == 2
    out, err = capsys.readouterr()
    assert (out, err.startswith(said)) == ("", True), err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"Nope": {}}, "the answers name 'Nope', which is not an event facet of the program"),
        (
            {"Chrage": {}},
            "the answers name 'Chrage', which is not an event facet of the program; did you mean pay.Charge?",
        ),
        ({"Twice": {}}, "the answers name 'Twice', which is not an event facet of the program"),
        ({"Charge": 3}, "an answer for Charge is 3, wanted an object with the facet's returns"),
        ({"Charge": [3]}, "an answer for Charge is 3, wanted an object with the facet's returns"),
        ({"Charge": {}, "pay.Charge": {}}, "the answers name pay.Charge twice"),
    ],
)
def test_answers_have_to_fit_the_program(
    pay: str, tmp_path: Path, document: object, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", pay, "-i", "amount=1", "--answers", answers(tmp_path, document)]) == 2
    assert capsys.readouterr().err == f"Error: {said}\n"


def test_of_several_workflows_one_has_to_be_chosen(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "two.afl"
    path.write_text(
        "namespace b { workflow W() => (x: Int) andThen { yield W(x = 1) } }"
        "namespace a { workflow W() => (x: Int) andThen { yield W(x = 2) } }"
    )

    assert main(["run", str(path)]) == 2
    said = b"Error: the program has several workflows; choose one by --workflow: a.W, b.W\n"
    assert capsysbinary.readouterr().err == said
    assert main(["run", str(path), "--workflow", "a.W"]) == 0
    assert json.loads(capsysbinary.readouterr().out) == {"x": 2}


def test_a_program_without_a_workflow_cannot_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.afl"
    path.write_text("facet F()")

    assert main(["run", str(path)]) == 2
    assert capsys.readouterr().err == "Error: the program has no workflow to run\n"


def test_steps_in_loops_and_blocks_are_named_by_their_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "loop.afl"
    path.write_text(
        """
namespace n {
    event facet E(x: Int)
    facet Inner(x: Int) andThen { e = E(x = $.x) }
    workflow W(xs: [Int]) andThen foreach x in $.xs { i = Inner(x = $.x) }
}"""
    )

    assert main(["run", str(path), "-i", "xs=[1, 2]"]) == 3
    assert capsys.readouterr().err.splitlines()[:2] == [
        'waiting: n.W.i.e for n.E {"x": 1}',
        'waiting: n.W.i.e for n.E {"x": 2}',
    ]


def test_what_a_workflow_logs_is_shown_beside_its_outputs(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "log.afl"
    path.write_text(
        """
namespace n {
    workflow W(x: Int) => (y: Int) andThen {
        sys.log(seen = $.x, text = "ü")
        yield W(y = $.x)
    }
}""",
        encoding="utf-8",
    )
    assert main(["run", str(path), "-i", "x=4"]) == 0
    out, err = capsysbinary.readouterr()
    assert json.loads(out) == {"y": 4}
    (line,) = err.decode().splitlines()
    assert line.startswith("INFO n.W")
    assert line.endswith(': {"seen": 4, "text": "ü"}')
    assert main(["run", str(path), "-i", "x=4", "--log-level", "info", "--log-file", str(tmp_path / "log")]) == 0
    assert capsysbinary.readouterr().err.decode().splitlines() == [line]
    assert line.removeprefix("INFO ") in (tmp_path / "log").read_text(encoding="utf-8")


def test_a_catch_sees_the_error_of_an_answer_and_scripts_run(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "caught.afl"
    path.write_text(
        """
namespace n {
    event facet Scan(badge: String) => (owner: String)
    facet Upper(text: String) => (upper: String) script { result["upper"] = params["text"].upper() }
    workflow W(badge: String) => (state: String, upper: String) andThen {
        u = Upper(text = $.badge)
        s = Scan(badge = u.upper) catch when {
            case s.error_type == "Lost" => { yield W(state = "lost: " ++ s.error) }
            case _ => { yield W(state = "?") }
        }
        yield W(upper = u.upper)
    }
}"""
    )
    given = answers(tmp_path, {"Scan": {"$error": {"type": "Lost", "message": "gone"}}})

    assert main(["run", str(path), "-i", "badge=b7", "--answers", given]) == 0
    assert json.loads(capsysbinary.readouterr().out) == {"state": "lost: gone", "upper": "B7"}


def test_an_assertion_that_does_not_hold_fails_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "assert.afl"
    path.write_text("namespace n { workflow W(x: Int) andThen { sys.assert($.x > 3) } }")

    assert main(["run", str(path), "-i", "x=3"]) == 1
    assert "failed: AssertionError: sys.assert failed: $.x > 3" in capsys.readouterr().err
