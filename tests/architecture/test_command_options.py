"""Both commands: a letter is short for one option, an option is of one kind, and the page about them names it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
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

    commands = (
        "afl run",
        "afl-stream dev",
        "afl-stream start",
        "afl-stream continue-as-new",
        "afl-stream list",
        "afl-stream schedule create",
    )
    assert sorted(with_input) == sorted((path, ["-i", "--input"]) for path in commands)


def test_every_command_that_takes_an_input_takes_a_document_of_them_in_the_same_forms() -> None:
    reported = {option.help for _, option in OPTIONS if "--inputs" in option.opts}

    assert reported == {"All inputs as an object; @FILE reads a file, - standard input."}


def test_both_commands_show_the_table_of_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    for main in (afl_main, stream_main):
        assert main(["--help"]) == ExitCode.OK
        text = re.sub(r"\s+", " ", capsys.readouterr().out)
        assert [meaning for meaning in MEANINGS.values() if meaning not in text] == []


@pytest.mark.parametrize(
    ("main", "words", "meant"),
    [
        (afl_main, ["chekc", "a.afl"], "check"),
        (afl_main, ["--versoin"], "--version"),
        (afl_main, ["check", "--jsn"], "--json"),
        (afl_main, ["run", "--inptu", "a=1"], "--input"),
        (stream_main, ["stauts"], "status"),
        (stream_main, ["topics", "aply"], "apply"),
        (stream_main, ["store", "chekc"], "check"),
        (stream_main, ["handlers", "registr"], "register"),
        (stream_main, ["--versoin"], "--version"),
        (stream_main, ["dev", "--inptu", "a=1", "a.afl"], "--input"),
        (stream_main, ["topics", "apply", "--leneint"], "--lenient"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_misspelt_word_ends_both_with_2_and_the_one_that_was_meant(
    main: Callable[[list[str]], int], words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == ExitCode.BAD_INPUT
    assert meant in capsys.readouterr().err.rpartition("Error:")[2]


@pytest.mark.parametrize("arguments", [["afl"], ["afl_stream"]])
def test_both_end_with_130_when_nobody_reads_their_output_any_more(arguments: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", *arguments, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()

        assert process.wait(60) == ExitCode.INTERRUPTED


def test_an_interrupted_run_of_afl_ends_with_130(tmp_path: Path) -> None:
    fifo = tmp_path / "slow.afl"
    os.mkfifo(fifo)
    with subprocess.Popen([sys.executable, "-m", "afl", "check", str(fifo)], stderr=subprocess.PIPE) as process:
        # It opens the file once it is there for signals, too.
        with open(fifo, "w"):
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == ExitCode.INTERRUPTED
        assert process.stderr is not None
        assert process.stderr.read().strip() == b"interrupted"
