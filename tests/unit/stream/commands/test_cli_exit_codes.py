"""The exit codes, which errors lead to which, and the help that tells of them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from afl import __version__
from afl.compiled.program import AmbiguousName, UnknownName
from afl.core.handlers.modules import HandlerModuleError
from afl.engine.errors import ForeignStore, MissingInput, StoreCorrupt, StoreUnavailable
from afl_stream.cli import afl_stream, main
from afl_stream.client.client import NotInTime
from afl_stream.commands.failures import exit_code_of, message_of
from afl_stream.commands.refusals import CommandRefused, NotFound
from afl_stream.embedded.file import FileInUse, FileUnusable
from afl_stream.errors import (
    ConfigError,
    PartitionsDiffer,
    SchemaUnavailable,
    TooFewPartitions,
    TopicMissing,
    TopicNameRefused,
    ValueRefused,
)
from afl_stream.evaluator.offsets import StoredOffsetOutOfRange, TopicRecreated
from afl_stream.evaluator.runs import ServiceEnded
from afl_stream.exit_codes import MEANINGS, ExitCode, table
from afl_stream.programs.definitions import UnknownProgram
from afl_stream.transport import BrokerUnavailable, TopicPartition, UnknownTopic

ROOT = Path(__file__).parents[4]


def test_the_numbers_stay_what_scripts_know() -> None:
    assert {code.name: code.value for code in ExitCode} == {
        "OK": 0,
        "WORK_LEFT": 1,
        "BAD_INPUT": 2,
        "UNAVAILABLE": 3,
        "TIMEOUT": 4,
        "INTERNAL": 70,
        "INTERRUPTED": 130,
    }
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ServiceEnded("agent", SystemExit(0)), 1),
        (CommandRefused("no"), 2),
        (MissingInput(workflow="W", name="x", expected="Int"), 2),
        (AmbiguousName("workflow", "W", ["a.W", "b.W"]), 2),
        (ConfigError("file", "key", 1, "2"), 2),
        (HandlerModuleError("m", "found", "expected"), 2),
        (ValueRefused("x", "Int", "text"), 2),
        (TopicNameRefused("t", "why"), 2),
        (NotFound("run", "w1"), 3),
        (UnknownName("workflow", "W"), 2),
        (UnknownProgram("W"), 3),
        (FileInUse(Path("log"), 7), 3),
        (FileUnusable(Path("log"), "damaged"), 3),
        (StoreCorrupt("store", "damaged"), 3),
        (StoreUnavailable("store", "full"), 3),
        (ForeignStore("store", "this", "that"), 3),
        (TopicMissing("t", "all"), 3),
        (UnknownTopic("t"), 3),
        (BrokerUnavailable("away"), 3),
        (SchemaUnavailable("s", "away"), 3),
        (StoredOffsetOutOfRange(TopicPartition("t", 0), 5, 0, 3), 3),
        (TooFewPartitions("t", 1, 2), 3),
        (PartitionsDiffer({"a": 1, "b": 2}, 2), 3),
        (TopicRecreated(TopicPartition("t", 0), 5, "t1", "t2"), 3),
        (PermissionError(13, "Permission denied", "audit.jsonl"), 3),
        (NotInTime("the end", 1), 4),
        (KeyError("x"), 70),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_ends_a_command_with_the_code_of_its_kind(error: BaseException, code: int) -> None:
    assert exit_code_of(error) == code


def test_a_file_that_cannot_be_opened_is_named() -> None:
    assert message_of(PermissionError(13, "Permission denied", "audit.jsonl")).startswith(
        "audit.jsonl: Permission denied: folder "
    )


def test_a_mistake_of_our_own_is_called_that() -> None:
    assert "mistake of afl-stream itself: KeyError" in message_of(KeyError("x"))


def _commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, *path, name)
        else:
            yield " ".join((*path, name)), command


def test_the_help_tells_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0

    assert table() in capsys.readouterr().out.replace("\n  ", "\n")


@pytest.mark.parametrize(("name", "command"), list(_commands(afl_stream)), ids=lambda value: str(value))
def test_every_command_has_help_with_an_example_of_itself_and_the_common_options(
    name: str, command: click.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*name.split(), "--help"]) == 0

    reported = capsys.readouterr().out
    assert f"afl-stream {name}" in reported.partition("Examples:")[2]
    for option in ("--config", "--prefix", "--data-dir", "--json", "--verbose"):
        assert option in reported
    assert all(parameter.help for parameter in command.params if isinstance(parameter, click.Option))


@pytest.mark.parametrize(
    "shown",
    [
        "main(['--help'])",
        # Every command as it is declared: for its own help, a usage error, and completion in a shell.
        "[list(getattr(command, 'commands', ())) for command in afl_stream.commands.values()]",
    ],
    ids=["of the group", "of each command"],
)
def test_help_loads_neither_the_engine_nor_the_compiler_nor_a_codec(shown: str) -> None:
    code = (
        f"import sys; from afl_stream.cli import afl_stream, main; {shown}; print(); "
        "loaded = {name for name in sys.modules if not name.startswith('afl.core')}; "
        "heavy = {'lark', 'rich', 'fastavro', 'sqlite3', 'confluent_kafka'} & loaded; "
        "print(*sorted(heavy | {name for name in loaded if name.startswith('afl.')}))"
    )
    # A measurement of coverage would load SQLite into it.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == ""


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0

    assert capsys.readouterr().out == f"afl-stream {__version__}\n"


@pytest.mark.parametrize("command", ["dev", "deploy"])
def test_a_missing_file_is_told_as_that(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "none.afl"

    assert main([command, "--data-dir", str(tmp_path / "data"), str(missing)]) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err == f"Error: File not found: {missing}\n"


@pytest.mark.parametrize("command", ["dev", "deploy"])
def test_what_is_said_of_a_syntax_mistake_ends_with_a_line_that_says_error(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong.afl"
    wrong.write_text("facet F(")

    assert main([command, "--data-dir", str(tmp_path / "data"), str(wrong)]) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err.splitlines()[-1] == f"Error: 1 error in {wrong}"
