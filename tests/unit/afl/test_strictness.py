"""A library may leave open what a program that is to be run may not; --lenient and --strict say otherwise."""

from collections.abc import Callable
from pathlib import Path

import pytest

from afl import compile_text, parse, validate
from afl.cli import main
from afl.core.strictness import Strictness
from afl.diagnostics import Severity

from .checking import check_texts, codes, marked

#: A library is completed by each of these, whose workflow makes it a program that leaves something open.
LIBRARY = "namespace lib { schema Money { amount: Double } event facet Charge(to: String, sum: Double = 1.0) %s }"
OPEN = {
    "REF_UNKNOWN_FACET": 'x = Chrage(to = "a")',
    "ARG_MISSING": "x = Charge()",
    "SCHEMA_UNKNOWN_FIELD": "m = Money(amount = 1.0) x = Take(m = m)",
}
_TAKE = "facet Take(m: Money) andThen { c = Charge(to = $.m.amont) }"


def text_of(code: str, kind: str) -> str:
    take = _TAKE if code == "SCHEMA_UNKNOWN_FIELD" else ""
    return LIBRARY % f"{take} {kind} W() andThen {{ {OPEN[code]} }}"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    def written(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return written


@pytest.mark.parametrize("code", OPEN)
@pytest.mark.parametrize(("command", "exit_code"), [("check", 1), ("compile", 1), ("graph", 1), ("run", 2)])
def test_no_command_takes_a_program_that_leaves_something_open(
    code: str, command: str, exit_code: int, write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = write("program.afl", text_of(code, "workflow"))

    assert main([command, file]) == exit_code

    reported = capsys.readouterr()
    assert f"error[{code}]" in reported.err
    assert reported.out == ""


@pytest.mark.parametrize("code", OPEN)
def test_lenient_makes_it_a_warning(
    code: str, write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = write("program.afl", text_of(code, "workflow"))

    assert main(["check", "--lenient", file]) == 0
    assert f"warning[{code}]" in capsys.readouterr().err
    assert main(["compile", "--lenient", file]) == 0


@pytest.mark.parametrize("code", OPEN)
def test_a_library_may_leave_it_open_unless_told_to_be_strict(
    code: str, write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = write("library.afl", text_of(code, "facet"))

    assert main(["check", file]) == 0
    assert f"warning[{code}]" in capsys.readouterr().err
    assert main(["check", "--strict", file]) == 1
    assert f"error[{code}]" in capsys.readouterr().err


@pytest.mark.parametrize("how", [[], ["--library"]], ids=["beside it", "named as a library"])
def test_a_library_beside_a_program_keeps_what_it_left_open(
    how: list[str], write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    library = write("library.afl", "namespace lib { facet Open() andThen { x = Nowhere() } facet Fine() }")
    program = write("program.afl", "namespace app { use lib workflow W() andThen { x = Fine() } }")

    assert main(["check", program, *how, library]) == 0
    reported = "library.afl:1:44: warning[REF_UNKNOWN_FACET]: Unknown facet 'Nowhere'" in capsys.readouterr().err
    assert reported is (how == [])
    assert main(["check", "--strict", program, library]) == 1


def test_each_of_the_files_that_declare_a_workflow_is_a_program(
    write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        write(f"{name}.afl", f"namespace {name} {{ {kind} W() andThen {{ x = Nowhere() }} }}")
        for name, kind in (("first", "workflow"), ("second", "facet"), ("third", "workflow"))
    ]

    assert main(["check", *files]) == 1
    reported = capsys.readouterr().err
    for name, severity in (("first", "error"), ("second", "warning"), ("third", "error")):
        assert any(f"{name}.afl" in line and f"{severity}[REF_UNKNOWN_FACET]" in line for line in reported.splitlines())


def test_a_workflow_of_a_library_makes_no_program_of_it(write: Callable[[str, str], str]) -> None:
    library = write("library.afl", "namespace lib { workflow W() }")
    own = write("own.afl", "namespace app { facet F() andThen { x = Nowhere() } }")

    assert main(["check", own, "--library", library]) == 0


def test_strict_makes_every_warning_an_error(
    write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = write("top.afl", "workflow W()")

    assert main(["check", file]) == 0
    assert main(["check", "--strict", file]) == 1
    assert "error[WORKFLOW_AT_TOP_LEVEL]" in capsys.readouterr().err


def test_lenient_and_strict_exclude_each_other(write: Callable[[str, str], str]) -> None:
    assert main(["check", "--strict", "--lenient", write("top.afl", "workflow W()")]) == 2


@pytest.mark.parametrize("code", OPEN)
def test_the_python_api_leaves_it_open_unless_asked(code: str) -> None:
    text = text_of(code, "workflow")

    assert validate(parse(text)).is_valid
    assert [item.severity for item in compile_text(text).diagnostics] == [Severity.WARNING]
    judged = check_texts([(text, None)], strictness=Strictness.PROGRAM).diagnostics
    assert [(item.code, item.severity) for item in judged] == [(code, Severity.ERROR)]


# -- returns that no yield sets ---------------------------------------------------------------------------------------

_W = "namespace a { facet G() => (y: Int) facet M() => (z: Int) %s }"


@pytest.mark.parametrize(
    ("workflow", "unset"),
    [
        ("workflow W() => (x: Int)", "x"),
        ("workflow W() => (x: Int) andThen { g = G() }", "x"),
        ("workflow W() => (x: Int, z: Int) andThen { g = G() yield W(x = g.y) }", "z"),
        ("workflow W() => (x: Int) andThen { g = G() andThen { yield G(y = 1) } }", "x"),
    ],
)
def test_a_workflow_with_returns_that_no_yield_sets_is_warned_of(workflow: str, unset: str) -> None:
    assert marked(_W % workflow) == [("RETURN_UNSET", unset)]


@pytest.mark.parametrize(
    "workflow",
    [
        "workflow W()",
        "workflow W() => (x: Int = 1)",
        "workflow W(b: Boolean) => (x: Int) andThen when { case $.b => { yield W(x = 1) } case _ => { } }",
        "workflow W(xs: [Int]) => (x: Int) andThen foreach i in $.xs { yield W(x = $.i) }",
        "workflow W() => (x: Int) andThen { g = G() } catch { yield W(x = 0) }",
        "workflow W() => (x: Int) andThen { g = G() catch { yield W(x = 0) } }",
        "workflow W() => (x: Int) andThen { g = G() andThen { yield a.W(x = 0) } }",
        'workflow W() => (x: Int) andThen script { result["x"] = 1 }',
        "workflow W() => (x: Int, y: Int) andThen { yield W(x = 1) } andThen { yield W(y = 1) }",
        "facet W() => (x: Int) andThen { g = G() }",
        "event facet W() => (x: Int)",
    ],
)
def test_a_workflow_whose_returns_may_be_set_is_not(workflow: str) -> None:
    assert codes(_W % workflow) == []


def test_a_yield_with_a_mistake_is_told_alone() -> None:
    assert codes(_W % "workflow W() => (total: Int) andThen { yield W(totl = 1) }") == ["YIELD_UNKNOWN_FIELD"]
    assert codes(_W % "workflow W() => (total: Int) andThen { yield V(total = 1) }") == ["YIELD_INVALID_TARGET"]


def test_what_a_missing_namespace_would_declare_is_no_error_of_its_own() -> None:
    text = "namespace a { use shop.prices workflow W() andThen { p = PriceOf() } }"

    found = check_texts([(text, None)], strictness=Strictness.PROGRAM).diagnostics

    assert {finding.code for finding in found if finding.is_error} == {"USE_UNKNOWN_NAMESPACE"}
