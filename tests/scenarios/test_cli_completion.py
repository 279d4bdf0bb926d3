"""`afl-stream completion`: what bash itself completes with the script, in folders of all kinds."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.scenarios.command_lines import ROOT, CommandLine
from tests.worlds.requirements import required_tool

#: Types a line, presses Tab at its end, and prints what is offered; the last word may be empty.
_TAB: Final = """
compopt() {{ echo "files"; }}
source completion.bash
COMP_WORDS=({words})
COMP_CWORD=$(({count} - 1))
COMPREPLY=()
_afl_stream_completion afl-stream
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


class Shell:
    """A bash in a folder, in which `afl-stream` is the command of this tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        commands = folder / "commands"
        commands.mkdir()
        command = commands / "afl-stream"
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m afl_stream "$@"\n')
        command.chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{commands}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }

    def tab(self, *words: str) -> list[str]:
        """Return what is offered for the last of these words. Nothing may be written to standard error."""
        line = ["afl-stream", *words]
        script = _TAB.format(words=" ".join(map(shlex.quote, line)), count=len(line))
        bash = subprocess.run(
            ["bash", "--norc", "-c", script],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert bash.stderr == ""
        return [one for one in bash.stdout.splitlines() if one]


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    required_tool("bash")
    written = CommandLine(tmp_path, capsys)("completion", "bash", data_dir=False)
    (tmp_path / "completion.bash").write_text(written.out)
    return Shell(tmp_path)


def test_commands_workflows_runs_and_files_are_completed(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    line = CommandLine(shell.folder, capsys)
    line.data_dir = shell.folder / ".afl"
    line.deployed()

    assert shell.tab("sta") == ["start", "status"]
    # Nothing has run yet: the names are those that are deployed.
    assert shell.tab("start", "W") == ["Watch"]
    line.waiting()
    assert shell.tab("start", "net.") == ["net.Watch"]
    assert shell.tab("show", "") == ["w1"]
    assert shell.tab("why", "w") == ["w1"]
    assert shell.tab("show", "x") == []
    assert shell.tab("deploy", "wat") == ["files"]


def test_a_folder_without_a_store_or_with_a_broken_one_completes_nothing_and_says_nothing(shell: Shell) -> None:
    assert shell.tab("show", "") == []
    (shell.folder / ".afl").mkdir()
    (shell.folder / ".afl" / "store.sqlite3").write_bytes(b"SQLite format 3\x00 and nothing else")
    assert shell.tab("show", "") == []
    (shell.folder / "afl-stream.toml").write_text("[stor\n")
    assert shell.tab("start", "") == []


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_asks_the_command(
    shell_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = CommandLine(tmp_path, capsys)("completion", shell_name, data_dir=False)

    assert (written.code, written.err) == (0, "")
    assert f"_AFL_STREAM_COMPLETE={shell_name}_complete" in written.out
    if (program := shutil.which(shell_name)) is not None:
        subprocess.run([program, "-n"], input=written.out, text=True, check=True, timeout=60)
