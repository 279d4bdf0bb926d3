"""Java programs of the page, the examples and the tests: compiled together, then run against a broker."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from afl_stream.broker.errors import NotInstalled
from afl_stream.broker.jars import jars_of
from afl_stream.broker.java import find_java
from afl_stream.broker.process import leash_to
from tests.worlds.processes import ROOT
from tests.worlds.requirements import missing, required_tool

EXAMPLES: Final = ROOT / "examples" / "other_languages"
_COMPILE_TIMEOUT_S: Final = 90
_RUN_TIMEOUT_S: Final = 60


class JavaPrograms:
    """Classes in a folder, and the jars that they need: Kafka's client, Avro and nothing of ours."""

    def __init__(self, folder: Path, sources: Sequence[Path], pom: Path = EXAMPLES / "pom.xml") -> None:
        """Compile the sources with a pom's jars. Skips, or in CI fails, where they cannot be had."""
        compiler = required_tool("javac")
        try:
            jars = jars_of(pom)
            self._java = find_java()
        except NotInstalled as error:
            missing(str(error))
        self._path = f"{folder}{os.pathsep}{jars}/*"
        self._run([compiler, "-Xlint:all", "-Werror", "-encoding", "UTF-8", "-cp", self._path, "-d", str(folder),
                   *map(str, sources)], _COMPILE_TIMEOUT_S)  # fmt: skip

    def run(self, name: str, *words: str, text: str = "") -> str:
        """Run a program to its end and return what it printed."""
        return self._run(self._command(name, words), _RUN_TIMEOUT_S, text)

    @contextmanager
    def running(self, name: str, *words: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Provide a program that stays, until the block is left."""
        with log.open("wb") as out:
            # The leash ends it when the tests are gone, however they went.
            process = subprocess.Popen(
                [*leash_to(os.getpid()), *self._command(name, words)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def _command(self, name: str, words: Sequence[str]) -> list[str]:
        return [self._java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", self._path, name, *words]

    @staticmethod
    def _run(command: Sequence[str], timeout_s: float, text: str = "") -> str:
        run = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", timeout=timeout_s, check=False)
        assert run.returncode == 0, f"{command}\n{run.stdout}\n{run.stderr}"
        return run.stdout
