"""A group with a table of its commands lists them without loading them, and loads the one that is called."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from afl.core.process.click_groups import LazyGroup


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LazyGroup:
    """Provide a group of two commands: one that works, and one whose module cannot be loaded."""
    (tmp_path / "declares_greet.py").write_text(
        "import click\n\n@click.command('greet')\ndef greet_command():\n    'Say hello to all.'\n"
        "    click.echo('hello')\n"
    )
    (tmp_path / "declares_nothing.py").write_text("{}['a key of its own']\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("declares_greet", "declares_nothing"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    table = {
        "weep": ("declares_nothing:weep_command", "Say nothing."),
        "greet": ("declares_greet:greet_command", "Say hello."),
    }
    return LazyGroup("people", table=table)


def test_the_help_lists_the_commands_in_the_order_of_the_table_and_loads_none(group: LazyGroup) -> None:
    done = CliRunner().invoke(group, ["--help"])

    assert done.output.partition("Commands:\n")[2] == "  weep   Say nothing.\n  greet  Say hello.\n"
    assert {"declares_greet", "declares_nothing"} & set(sys.modules) == set()


def test_a_command_that_is_called_is_loaded_alone(group: LazyGroup) -> None:
    assert CliRunner().invoke(group, ["greet"]).output == "hello\n"
    assert "declares_nothing" not in sys.modules


def test_a_command_that_is_loaded_has_the_line_of_the_table_as_its_short_help(group: LazyGroup) -> None:
    assert group.commands["greet"].get_short_help_str() == "Say hello."


def test_an_unknown_command_is_refused_with_the_one_that_was_meant_and_loads_none(group: LazyGroup) -> None:
    done = CliRunner().invoke(group, ["gret"])

    assert done.exit_code == 2
    assert "greet" in done.output.rpartition("Error:")[2]
    assert {"declares_greet", "declares_nothing"} & set(sys.modules) == set()


def test_an_error_of_a_module_that_is_loaded_is_not_taken_for_an_unknown_command(group: LazyGroup) -> None:
    with pytest.raises(KeyError, match="a key of its own"):
        group.get_command(click.Context(group), "weep")
