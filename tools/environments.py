"""Environments for programs whose dependencies do not go together with ours: made once, and kept in the user's cache.

    python -m tools.environments faust

makes the environment that `constraints/faust.txt` pins, or finds it, and prints its interpreter. With `--pin` the file
is written again, from the newest versions that the ranges of pyproject.toml admit together.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import click

from afl_stream.broker.jars import cache_root, locked
from tools.constraints import APART, IMAGE, Group, requirements

_TIMEOUT_S: Final = 600
_PIP: Final = ("-m", "pip", "--quiet", "--disable-pip-version-check", "--retries", "2", "--timeout", "20")
_SHOWN_LINES: Final = 12
_BY_NAME: Final = {group.name: group for group in (*APART, IMAGE)}


class EnvironmentNotMade(Exception):
    """An environment cannot be made here, for want of a package index for instance."""

    def __init__(self, name: str, said: str) -> None:
        super().__init__(f"the environment for {name} could not be made; is a package index within reach?\n{said}")


def interpreter_of(name: str) -> Path:
    """Return the interpreter of the environment, which is made when it is not there yet.

    Steps:
      1. take the lock of its folder, so that of two callers at once one makes it and the other waits,
      2. make the environment and install what its file pins,
      3. write the mark that it is complete.

    A crash before 3 leaves an environment without the mark, and the next caller starts over. Raises EnvironmentNotMade.
    """
    group = _BY_NAME[name]
    folder = cache_root() / "environments" / _folder_name(group)
    folder.mkdir(parents=True, exist_ok=True)
    mark, python = folder / "complete", folder / "venv" / "bin" / "python"
    with locked(folder / "lock"):
        if not (mark.exists() and python.exists()):
            mark.unlink(missing_ok=True)
            _make(folder / "venv", ["-r", str(group.path)], name)
            mark.touch()
    return python


def pin(name: str) -> None:
    """Write the file of the environment from the newest versions that the ranges admit. Raises EnvironmentNotMade."""
    group = _BY_NAME[name]
    with tempfile.TemporaryDirectory() as folder:
        python = _make(Path(folder) / "venv", [str(needed) for needed in requirements(group.extras)], name)
        frozen = _run([str(python), *_PIP, "freeze"], name)
    head = f"# {group.purpose}\n# Made by `python -m tools.environments {name} --pin`; ranges: pyproject.toml.\n"
    group.path.write_text(head + frozen)


def _folder_name(group: Group) -> str:
    # Another Python, and another version of anything, is another folder.
    digest = hashlib.sha256(group.path.read_bytes()).hexdigest()[:8]
    return f"{group.name}-{sys.implementation.cache_tag}-{digest}"


def _make(folder: Path, wanted: list[str], name: str) -> Path:
    if folder.exists():
        shutil.rmtree(folder)
    _run([sys.executable, "-m", "venv", str(folder)], name)
    python = folder / "bin" / "python"
    _run([str(python), *_PIP, "install", "--no-compile", *wanted], name)
    return python


def _run(command: list[str], name: str) -> str:
    try:
        run = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentNotMade(name, f"{command[0]} did not finish within {_TIMEOUT_S} s") from None
    if run.returncode != 0:
        said = (run.stdout + run.stderr).splitlines()[-_SHOWN_LINES:]
        raise EnvironmentNotMade(name, "\n".join(said))
    return run.stdout


@click.command()
@click.argument("name", type=click.Choice(sorted(_BY_NAME)))
@click.option("--pin", "is_pinning", is_flag=True, help="Write its file of constraints/ again first.")
def main(name: str, is_pinning: bool) -> None:
    """Make an environment, or find it, and print its interpreter."""
    if is_pinning and name == IMAGE.name:
        raise click.UsageError(f"constraints/{name}.txt has digests: python -m tools.hashes writes it")
    try:
        if is_pinning:
            pin(name)
        click.echo(interpreter_of(name))
    except EnvironmentNotMade as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main(prog_name="python -m tools.environments")
