"""Both commands: a letter is short for one option, an option is of one kind, and the page about them names it."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from afl.cli import afl
from afl.cli import main as afl_main
from afl.core.exit_codes import MEANINGS, ExitCode
from afl_stream.cli import afl_stream
from afl_stream.cli import main as stream_main

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()


def _options(command: click.Command, path: str) -> Iterator[tuple[str, click.Option]]:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield path, parameter
    if isinstance(command, click.Group):
        for name, sub in command.commands.items():
            yield from _options(sub, f"{path} {name}")


OPTIONS = [*_options(afl, "afl"), *_options(afl_stream, "afl-stream")]


def _letters(option: click.Option) -> list[str]:
    return [name for name in option.opts if not name.startswith("--")]


def test_a_letter_is_short_for_the_same_option_everywhere() -> None:
    meant: dict[str, set[str]] = {}
    for _, option in OPTIONS:
        for letter in _letters(option):
            meant.setdefault(letter, set()).update(name for name in option.opts if name.startswith("--"))

    assert meant == {"-i": {"--input"}, "-o": {"--output"}, "-v": {"--verbose"}}


def test_the_page_names_every_letter_with_its_option() -> None:
    assert all(f"`{letter}`" in PAGE for _, option in OPTIONS for letter in _letters(option))


@pytest.mark.parametrize(
    "name", ["--input", "--inputs", "--id", "--json", "--config", "--verbose", "--lenient", "--strict"]
)
def test_an_option_of_both_commands_takes_the_same_kind_of_value_everywhere(name: str) -> None:
    kinds = {(option.is_flag, option.count, option.multiple) for _, option in OPTIONS if name in option.opts}

    assert len(kinds) == 1


def test_an_input_is_given_by_the_same_letter_wherever_inputs_are_given() -> None:
    with_input = [(path, option.opts) for path, option in OPTIONS if "--input" in option.opts]

    assert with_input == [(path, ["-i", "--input"]) for path in ("afl run", "afl-stream dev", "afl-stream start")]


def test_every_command_that_takes_an_input_takes_a_document_of_them_in_the_same_forms() -> None:
    told = {option.help for _, option in OPTIONS if "--inputs" in option.opts}

    assert told == {"All inputs as an object; @FILE reads a file, - standard input."}


def test_both_commands_show_the_table_of_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    for main in (afl_main, stream_main):
        assert main(["--help"]) == ExitCode.OK
        told = re.sub(r"\s+", " ", capsys.readouterr().out)
        assert [meaning for meaning in MEANINGS.values() if meaning not in told] == []


@pytest.mark.parametrize("main", [afl_main, stream_main])
def test_a_wrong_option_ends_both_with_2_and_names_the_one_that_was_meant(
    main: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(main)
    assert main(["--versoin"]) == ExitCode.BAD_INPUT
    assert "--version" in capsys.readouterr().err
