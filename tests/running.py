"""What runs now, told while a run takes its time; and an end for what nothing else ends.

A run that is ended from outside, by the time that it may take, has printed dots. Its last lines say here which tests
were running, and for how long. A test is ended by pytest-timeout with an exception, and code that catches everything,
a callback of C among it, can swallow that, and code that keeps the interpreter's lock never sees it. And one worker
that stands still, stopped by a signal, say, keeps all others from the tests that it has. Of a worker that has died the
failure says where its threads stood: what it printed is lost with it.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TextIO

import pytest

#: Between two reports of what runs.
REPORT_EVERY_S = 300.0
#: What a test may take, behind its time-out, to end what it started.
GRACE_S = 120.0
#: Without the end of any test for so long, no worker works: more than any test of the whole run takes.
STUCK_S = 900.0
#: What a worker may take to write where its threads stand, and to go on.
_DUMP_S = 15.0
#: What the command line of a worker begins with.
_WORKER = "import sys;exec(eval(sys.stdin.readline()))"
_SHOWN_TESTS = 8
#: Of the stacks of a worker that died: characters, from the thread on that died.
_SHOWN_STACKS = 12_000
#: What the process that prints tells a worker: where to write its stacks when it dies.
_STACKS_INPUT = "stacks"


class _Gateway(Protocol):
    id: str


class _Worker(Protocol):
    """What xdist's WorkerController has; it brings no types."""

    workerinput: dict[str, str]
    gateway: _Gateway


class RunningTests:
    """Reports, in the process that prints, the tests that run; ends, in the process that runs it, a test that hangs.

    Where no test has ended for long, the workers are woken and say where they stand. If that is of no use, they are
    killed: the run replaces them, and goes on with the tests that are left.
    """

    def __init__(
        self, report_every_s: float = REPORT_EVERY_S, grace_s: float = GRACE_S, stuck_s: float = STUCK_S
    ) -> None:
        self._report_every_s = report_every_s
        self._grace_s = grace_s
        self._stuck_s = stuck_s
        self._started_at: dict[str, float] = {}
        self._ended_tests = 0
        #: Tests of which a part failed, in the order of that.
        self._failed: dict[str, None] = {}
        self._begun_at = self._last_end_at = time.monotonic()
        self._run_ended = threading.Event()
        self._terminal: TextIO | None = None
        self._reporter: threading.Thread | None = None
        #: Of the process that prints: a file for each worker.
        self._stacks_of: Path | None = None
        #: Of a worker: its file. Empty, unless it dies.
        self._stacks: TextIO | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        # Output of a test is captured by way of the descriptor 2; what is told here is no test's output.
        self._terminal = os.fdopen(os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2), "w")
        worker_input = getattr(session.config, "workerinput", None)
        if worker_input is not None:
            faulthandler.register(signal.SIGUSR2, self._terminal, all_threads=True)
            self._stacks = os.fdopen(os.open(worker_input[_STACKS_INPUT], os.O_WRONLY | os.O_CREAT), "w")
            # In place of the output of the run, which pytest has chosen: there it is lost among that of others.
            faulthandler.enable(self._stacks)
        else:
            self._reporter = threading.Thread(target=self._report, name="running tests", daemon=True)
            self._reporter.start()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: _Worker) -> None:
        """Name, in the process that prints, the file for what a worker writes when it dies."""
        if self._stacks_of is None:
            self._stacks_of = Path(tempfile.mkdtemp(prefix="afl-test-stacks-"))
        node.workerinput[_STACKS_INPUT] = str(self._stacks_of / node.gateway.id)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """Say in the failure where the threads stood of the worker that died in this test."""
        self.pytest_runtest_logfinish(crashitem)
        worker: _Worker | None = getattr(report, "node", None)
        if worker is None or self._stacks_of is None:
            return
        stacks = (self._stacks_of / worker.gateway.id).read_text(errors="replace")[:_SHOWN_STACKS]
        report.longrepr = f"{report.longrepr}\n{stacks or 'It was killed, and could not say where its threads stood.'}"
        if self._terminal is not None:
            self._terminal.write(f"\n{report.longrepr}\n")
            self._terminal.flush()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._started_at[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._started_at.pop(nodeid, None)
        self._ended_tests += 1
        self._last_end_at = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        timeout_s = _timeout_s(item)
        if timeout_s and self._terminal is not None:
            faulthandler.dump_traceback_later(timeout_s + self._grace_s, exit=True, file=self._stacks or self._terminal)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def pytest_unconfigure(self) -> None:
        self._run_ended.set()
        if self._reporter is not None:
            self._reporter.join()
        if self._stacks_of is not None:
            shutil.rmtree(self._stacks_of)
        if self._stacks is not None:
            faulthandler.disable()
            self._stacks.close()
        if self._terminal is not None:
            self._terminal.close()

    def _report(self) -> None:
        terminal = self._terminal
        while terminal is not None and not self._run_ended.wait(self._report_every_s):
            now = time.monotonic()
            if self._started_at and now - self._last_end_at > self._stuck_s:
                terminal.write(f"\nno test has ended for {now - self._last_end_at:.0f} s: where workers stand\n")
                terminal.flush()
                self._free_workers()
            oldest = sorted(self._started_at.copy().items(), key=lambda started: started[1])[:_SHOWN_TESTS]
            minutes, load = (now - self._begun_at) / 60, os.getloadavg()[0]
            failed = list(self._failed)
            so_far = f"{self._ended_tests:,} tests ended, {len(failed):,} failed, load {load:.1f}"
            lines = [f"  failed: {nodeid}\n" for nodeid in failed[:_SHOWN_TESTS]]
            lines += [f"  {now - started_at:4.0f} s  {nodeid}\n" for nodeid, started_at in oldest]
            terminal.write(f"\n{minutes:.0f} min: {so_far}; now running:\n{''.join(lines)}")
            terminal.flush()

    def _free_workers(self) -> None:
        workers, ended_before = _workers(), self._ended_tests
        # One that was stopped writes first when it goes on.
        _send(workers, signal.SIGUSR2)
        _send(workers, signal.SIGCONT)
        until_s = time.monotonic() + _DUMP_S
        while self._ended_tests == ended_before and time.monotonic() < until_s:
            if self._run_ended.wait(0.1):
                break
        if self._ended_tests == ended_before and not self._run_ended.is_set():
            _send(workers, signal.SIGKILL)
        self._last_end_at = time.monotonic()


def _send(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def _workers() -> list[int]:
    """Return the processes of this run's workers, which are children of this process."""
    tasks = Path("/proc/self/task")
    children = [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]
    return [pid for pid in children if _WORKER in Path(f"/proc/{pid}/cmdline").read_text(errors="replace")]


def _timeout_s(item: pytest.Item) -> float:
    """Return what the test may take: by its marker, else by the command line, else by the project's setting."""
    marker = item.get_closest_marker("timeout")
    if marker is not None and marker.args:
        return float(marker.args[0])
    return float(item.config.getvalue("timeout") or item.config.getini("timeout") or 0)
