"""Programs with scripts on the command line: run where that is allowed, refused with the flag's name elsewhere."""

from pathlib import Path

import pytest

from tests.scenarios.command_lines import CommandLine

_LABELS = """
namespace shop {
    facet Label(sku: String) => (text: String) script { result["text"] = params["sku"].upper() }
    workflow Ship(sku: String) => (slip: String, shouted: String) andThen {
        l = Label(sku = $.sku)
        yield Ship(slip = l.text)
    } andThen script { result["shouted"] = params["sku"] + "!" }
}
"""


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


def test_dev_runs_scripts_when_it_is_told_to(command_line: CommandLine) -> None:
    program = command_line.file("labels.afl", _LABELS)

    called = command_line("dev", program, "--allow-scripts", "--input", "sku=tea", "--json")

    assert called.document["outputs"] == {"slip": "TEA", "shouted": "tea!"}


def test_dev_refuses_a_workflow_with_a_script_and_names_the_flag(command_line: CommandLine) -> None:
    program = command_line.file("labels.afl", _LABELS)

    called = command_line("dev", program, "--input", "sku=tea")

    # The evaluator refuses the start: nothing has run.
    assert called.code == 2
    assert "shop.Ship has a script" in called.out + called.err
    assert "--allow-scripts" in called.out + called.err


def test_an_evaluator_that_ends_when_it_is_idle_has_run_the_scripts(command_line: CommandLine) -> None:
    program = command_line.file("labels.afl", _LABELS)
    for words in (("topics", "apply", program), ("deploy", program)):
        assert command_line(*words).code == 0
    assert command_line("start", "Ship", "--input", "sku=tea", "--id", "w1").code == 0

    assert command_line("evaluator", "--until-idle", "--allow-scripts").code == 0

    assert command_line("status", "w1", "--json").document["outputs"] == {"slip": "TEA", "shouted": "tea!"}


def test_start_runs_scripts_where_it_waits_itself(command_line: CommandLine) -> None:
    program = command_line.file("labels.afl", _LABELS)
    for words in (("topics", "apply", program), ("deploy", program)):
        assert command_line(*words).code == 0

    waited = command_line("start", "Ship", "--input", "sku=tea", "--wait", "--allow-scripts", "--json")

    assert waited.document["outputs"] == {"slip": "TEA", "shouted": "tea!"}
    assert command_line("start", "Ship", "--input", "sku=tea", "--allow-scripts").code == 2


def test_the_environment_allows_scripts_as_well(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFL_EVALUATOR_ALLOW_SCRIPTS", "true")
    program = command_line.file("labels.afl", _LABELS)

    assert command_line("dev", program, "--input", "sku=tea", "--json").document["status"] == "COMPLETED"


def test_a_wrong_name_of_what_is_accepted_keeps_the_evaluator_from_starting(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFL_SCRIPTS_ACCEPT_MISSING", "everything")
    program = command_line.file("labels.afl", _LABELS)

    called = command_line("dev", program, "--allow-scripts", "--input", "sku=tea")

    assert called.code == 2
    assert "scripts: accept_missing: found 'everything'" in called.out + called.err
