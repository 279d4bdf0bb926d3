"""The parties of a deployment as processes of their own: started, watched, and ended in good order."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from afl_stream.broker.process import leash_to

_ROOT = Path(__file__).parents[2]
#: A party that was told to end finishes its running work.
_END_TIMEOUT_S = 60.0


class PartyEnded(Exception):
    """A party has ended without being told to."""

    def __init__(self, name: str, code: int, log: Path) -> None:
        lines = log.read_text(errors="replace").strip().splitlines()
        super().__init__(f"{name} ended with exit code {code}: {lines[-1] if lines else 'it said nothing'} ({log})")


class Parties:
    """Processes of the command line. Leaving ends them all, the one that was started last first."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Each writes to `NAME.log` in the folder, which is also where it runs."""
        self._folder = folder
        self._environment = environment
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        #: The exit codes of those that have ended.
        self.exit_codes: dict[str, int] = {}

    def start(self, name: str, *words: str) -> int:
        """Start `afl-stream WORDS` and return its process id."""
        with self._log(name).open("wb") as log:
            process = subprocess.Popen(
                [*leash_to(os.getpid()), sys.executable, "-m", "afl_stream", *words],
                cwd=self._folder,
                env={**os.environ, **self._environment, "PYTHONPATH": str(_ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C in a terminal is for the one that started them: it ends them one after the other.
                start_new_session=True,
            )
        self._processes[name] = process
        return process.pid

    def check(self) -> None:
        """Raise PartyEnded when one has ended by itself."""
        for name, process in self._processes.items():
            code = process.poll()
            if code is not None:
                raise PartyEnded(name, code, self._log(name))

    def end(self) -> None:
        """Tell each to end (SIGTERM), wait for it, and note its exit code."""
        while self._processes:
            name, process = self._processes.popitem()
            process.terminate()
            try:
                self.exit_codes[name] = process.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                self.exit_codes[name] = process.wait()

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()
