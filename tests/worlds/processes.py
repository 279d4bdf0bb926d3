"""Parties as real processes: started, killed, frozen and stopped by their own ids, and none of them left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from afl_stream.broker.process import leash_to
from tests.eventually import eventually

ROOT = Path(__file__).parents[2]

#: How long a process may take to start, to end, or to come to the point where it acts, on a machine under load.
DEADLINE_S = 60.0
_SHOWN_LINES = 40


class Party:
    """One process. What it writes goes to two files, `NAME.out` and `NAME.err`."""

    def __init__(
        self, name: str, folder: Path, words: Sequence[str], environment: Mapping[str, str], python: str, tree: Path
    ) -> None:
        self.name = name
        self.out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        with self.out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [*leash_to(os.getpid()), python, "-m", *words],
                cwd=folder,
                env={**os.environ, **environment, "PYTHONPATH": str(tree), "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                # Ctrl-C at a terminal is for the tests: they end their parties themselves.
                start_new_session=True,
            )
        self._is_meant_to_die = False

    @property
    def log(self) -> str:
        """What it has written to stderr so far."""
        return self._err.read_text(errors="replace")

    @property
    def lines(self) -> list[str]:
        """What it has written to stdout so far."""
        return self.out.read_text(errors="replace").splitlines()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def check_alive(self) -> bool:
        """Return true; fails with what it wrote when it has ended without being told to."""
        is_well = self._is_meant_to_die or self.is_running
        assert is_well, f"{self.name} ended with {self._process.returncode}\n{self.log}"
        return True

    def is_ready(self) -> bool:
        """Whether it is at work: an evaluator with partitions, an agent or audit that has joined its group."""
        self.check_alive()
        return "ready" in self.lines

    def when_ready(self) -> Party:
        eventually(self.is_ready, DEADLINE_S)
        return self

    def when_it_says(self, words: str) -> Party:
        """Wait until it has logged these words."""
        eventually(lambda: self.check_alive() and words in self.log, DEADLINE_S)
        return self

    def when_dead(self) -> Party:
        """Wait for the SIGKILL that it gives itself."""
        self._is_meant_to_die = True
        code = self._process.wait(DEADLINE_S)
        assert code == -signal.SIGKILL, f"{self.name} ended with {code}\n{self.log}"
        return self

    def has_died(self) -> bool:
        """Whether the SIGKILL that it gives itself sometime has come."""
        self._is_meant_to_die = True
        code = self._process.poll()
        assert code in (None, -signal.SIGKILL), f"{self.name} ended with {code}\n{self.log}"
        return code is not None

    def has_ended_saying(self, words: str) -> bool:
        """Whether it has ended by itself, with these words in its log."""
        self._is_meant_to_die = True
        if self.is_running:
            return False
        assert words in self.log, f"{self.name} ended with {self._process.returncode}\n{self.log}"
        return True

    def when_frozen(self) -> Party:
        """Wait until it stands still."""
        eventually(self._stands_still, DEADLINE_S)
        return self

    def exit_code(self) -> int:
        """Wait for it to end by itself."""
        self._is_meant_to_die = True
        return self._process.wait(DEADLINE_S)

    def kill(self) -> None:
        """SIGKILL, which a process that stands still gets too; returns when it is gone."""
        self._is_meant_to_die = True
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Stop it where it stands; returns when it stands."""
        self._process.send_signal(signal.SIGSTOP)
        self.when_frozen()

    def go_on(self) -> None:
        """Let it go on where it stood."""
        self._process.send_signal(signal.SIGCONT)

    def send(self, number: signal.Signals) -> None:
        """Send a signal that it is to end by."""
        self.check_alive()
        self._is_meant_to_die = True
        self._process.send_signal(number)

    def ask_to_stop(self) -> None:
        """SIGTERM: finish, leave, end with 0."""
        self.check_alive()
        self._is_meant_to_die = True
        self._process.terminate()

    def stop(self) -> dict[str, Any]:
        """End it cleanly and return what it says it has done."""
        self.ask_to_stop()
        return self.stats()

    def stats(self) -> dict[str, Any]:
        """Wait for the clean end that it was asked for and return what it says it has done."""
        code = self._process.wait(DEADLINE_S)
        assert code == 0, f"{self.name} ended with {code}\n{self.log}"
        stats: dict[str, Any] = json.loads(self.lines[-1])
        return stats

    def tail(self) -> str:
        """Return the last it said, for the report of a test that failed."""
        lines = self.log.splitlines()[-_SHOWN_LINES:]
        return "\n".join([f"--- {self.name}, exit code {self._process.poll()}", *lines])

    def _stands_still(self) -> bool:
        self.check_alive()
        # WNOWAIT leaves the state to be asked for again.
        found = os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        return found is not None and found.si_code == os.CLD_STOPPED


class Processes(AbstractContextManager["Processes"]):
    """Starts parties; at the end kills what is left of them and writes what they said."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.started: list[Party] = []

    def start(
        self,
        role: str,
        *words: str,
        environment: Mapping[str, str],
        python: str | Path = sys.executable,
        tree: Path = ROOT,
    ) -> Party:
        """Start `python -m MODULE ARGUMENTS...`, by default with this interpreter; the role is for its name.

        `tree` has the modules: this source tree, or another release's.
        """
        party = Party(f"{len(self.started)}-{role}", self._folder, words, environment, str(python), tree)
        self.started.append(party)
        return party

    def check_alive(self) -> bool:
        """Return true; fails when one has ended without being told to."""
        return all(party.check_alive() for party in self.started)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for party in self.started:
            party.kill()
            # Captured by pytest, which shows it when the test has failed.
            sys.stderr.write(f"{party.tail()}\n")
