"""SIGTERM and Ctrl-C while a process starts, waits or drains, also as process 1; and what it says of its waits."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import Final

import pytest

from afl.stores.sqlite.store import SqliteStore
from tests.eventually import eventually
from tests.scenarios.command_lines import ROOT, CommandLine

DEADLINE_S: Final = 60.0
#: A process that waits 30 s or more by itself: an end before that is the signal's. The machine may be slow.
AT_ONCE_S: Final = 10.0
#: How soon a person is to hear of it.
SAID_S: Final = 5.0
#: What loading may take until a process comes to its first wait.
LOADING_S: Final = 10.0
_FACET: Final = "net.Ping"


class Process:
    """A process of the command line, or of a module, that writes to a pipe."""

    def __init__(self, folder: Path, words: Sequence[str], *, as_process_1: bool = False) -> None:
        before = ["unshare", "--pid", "--fork", "--kill-child"] if as_process_1 else []
        self._began_s = time.monotonic()
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", *words, *(["--data-dir", "data"] if words[0] == "afl_stream" else [])],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.lines: list[str] = []
        self._is_process_1 = as_process_1
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(self.process.stdout)

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def when_it_says(self, words: str) -> float:
        """Wait for these words, and return how long after its start they came."""
        eventually(lambda: words in self.text or self.process.poll() is not None, DEADLINE_S)
        assert words in self.text, self.text
        return time.monotonic() - self._began_s

    def send(self, number: signal.Signals) -> None:
        pid = self.process.pid
        if self._is_process_1:
            # The process itself, which is number 1 among its own.
            pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        os.kill(pid, number)

    def ends_with(self, number: signal.Signals) -> int:
        """Send a signal, and return the exit code; it has to end at once."""
        self.send(number)
        code = self.process.wait(AT_ONCE_S)
        self._reader.join(AT_ONCE_S)
        return code


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


#: Starts a process by its words.
Starter = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """Start processes; what is left of them is killed."""
    made: list[Process] = []

    def started(words: Sequence[str], *, as_process_1: bool = False) -> Process:
        made.append(Process(tmp_path, words, as_process_1=as_process_1))
        return made[-1]

    yield started
    for each in made:
        each.process.kill()
        each.process.communicate()


@pytest.fixture
def hole() -> Iterator[str]:
    """Provide an address that takes connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def locked(tmp_path: Path, command_line: CommandLine) -> Iterator[Path]:
    """Provide a store whose file this process has locked."""
    path = tmp_path / "data" / "store.sqlite3"
    path.parent.mkdir(exist_ok=True)
    command_line("topics", "apply")
    SqliteStore(path).close()
    holder = sqlite3.connect(path, isolation_level=None)
    # Readers too are shut out.
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    yield path
    holder.close()


SERVICES: Final = {
    "evaluator": ["evaluator"],
    "agent": ["agent", "--handlers", "./handlers.py"],
    "audit": ["audit"],
}


def handlers_in(folder: Path) -> None:
    (folder / "handlers.py").write_text(f'FACET = "{_FACET}"\ndef handle(payload):\n    return {{"ms": 1}}\n')


# --- while connecting -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "service", ["evaluator", *(pytest.param(name, marks=pytest.mark.long) for name in ("agent", "audit"))]
)
def test_a_service_that_connects_ends_well_at_once(
    service: str, number: signal.Signals, hole: str, start: Starter, tmp_path: Path
) -> None:
    handlers_in(tmp_path)
    process = start(["afl_stream", *SERVICES[service], "--bootstrap", hole])
    process.when_it_says("no broker answers")

    assert process.ends_with(number) == 0
    assert "no work was lost" in process.text


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_connects_is_interrupted_at_once(number: signal.Signals, hole: str, start: Starter) -> None:
    process = start(["afl_stream", "start", "Watch", "--wait", "--bootstrap", hole])
    process.when_it_says("no broker answers")

    assert process.ends_with(number) == 130


@pytest.mark.parametrize(
    "words",
    [
        ["afl_stream", "agent", "--handlers", "./slow.py"],
        pytest.param(["afl.runtime.runner", "--store", "s.sqlite3", "--handlers", "./slow.py"], marks=pytest.mark.long),
    ],
)
def test_a_module_of_handlers_that_takes_long_to_load_holds_up_no_end(
    words: list[str], start: Starter, command_line: CommandLine, tmp_path: Path
) -> None:
    command_line("topics", "apply")
    # Python handles no signal that comes just before a sleep until that is over.
    (tmp_path / "slow.py").write_text("import time\nprint('loading', flush=True)\nwhile True:\n    time.sleep(0.05)\n")
    process = start(words)
    process.when_it_says("loading")

    assert process.ends_with(signal.SIGTERM) == 0, process.text


def may_unshare() -> bool:
    """Whether a process may be made number 1 of a namespace of its own."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True, check=False).returncode == 0


NAMESPACES: Final = pytest.mark.skipif(not may_unshare(), reason="no process namespaces here")


@NAMESPACES
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_process_1_of_a_container_hears_the_signal_while_it_connects(
    number: signal.Signals, hole: str, start: Starter
) -> None:
    process = start(["afl_stream", "evaluator", "--bootstrap", hole], as_process_1=True)
    process.when_it_says("no broker answers")

    assert process.ends_with(number) == 0


@pytest.mark.long
@NAMESPACES
def test_a_runner_that_is_process_1_hears_the_signal_and_a_second_one(start: Starter, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    process = start(["afl.runtime.runner", "--store", "store/s.sqlite3", "--port", "0"], as_process_1=True)
    process.when_it_says("works on")

    assert process.ends_with(signal.SIGTERM) == 0


# --- a store that is locked, or away ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["afl_stream", "evaluator"], 0),
        pytest.param(["afl_stream", "agent", "--registry"], 0, marks=pytest.mark.long),
        pytest.param(["afl_stream", "status"], 130, marks=pytest.mark.long),
        pytest.param(["afl_stream", "store", "check"], 130, marks=pytest.mark.long),
        pytest.param(["afl_stream", "servers"], 130, marks=pytest.mark.long),
        pytest.param(["afl.runtime.runner", "--store", "data/store.sqlite3"], 0, marks=pytest.mark.long),
    ],
)
def test_a_locked_store_is_told_with_file_and_holder_and_the_wait_is_ended_by_a_signal(
    words: list[str], code: int, locked: Path, start: Starter
) -> None:
    process = start(words)

    said_s = process.when_it_says("waiting for the store")

    assert said_s < LOADING_S + SAID_S
    assert "store.sqlite3" in process.text
    if Path("/proc/locks").exists():
        assert f"locked by process {os.getpid()}" in process.text
    assert process.ends_with(signal.SIGTERM) == code, process.text


@pytest.mark.long
@pytest.mark.parametrize(("words", "code"), [(["evaluator"], 0), (["status"], 130), (["store", "check"], 130)])
def test_a_mongodb_that_does_not_answer_is_told_and_the_wait_is_ended_by_a_signal(
    words: list[str], code: int, hole: str, start: Starter, tmp_path: Path, command_line: CommandLine
) -> None:
    command_line("topics", "apply")
    (tmp_path / "afl-stream.toml").write_text(f'store = "mongodb://{hole}/afl"\n')
    process = start(["afl_stream", *words])

    said_s = process.when_it_says(f"waiting for the store mongodb://{hole}")

    assert said_s < LOADING_S + SAID_S
    assert process.ends_with(signal.SIGTERM) == code, process.text


@pytest.mark.long
def test_a_store_that_is_locked_while_an_evaluator_runs_does_not_keep_it_from_ending(
    start: Starter, command_line: CommandLine, tmp_path: Path
) -> None:
    command_line.deployed()
    assert command_line("start", "Watch", "--input", 'hosts=["a"]').code == 0
    path = tmp_path / "data" / "store.sqlite3"
    SqliteStore(path).close()
    process = start(["afl_stream", "agent", "--registry", "--refresh", "0"])
    process.when_it_says("Ctrl-C drains")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        process.send(signal.SIGTERM)
        process.when_it_says("SIGTERM: ends when this is done")
        code = process.process.wait(2 * AT_ONCE_S)
    finally:
        holder.close()

    # It could not sign off from the list of servers, which does not prevent it from ending.
    assert code == 0, process.text


# --- draining ---------------------------------------------------------------------------------------------------

_HOLDS: Final = f"""
import pathlib, threading
FACET = "{_FACET}"
def handle(payload):
    print("handling", flush=True)
    threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("number", "as_process_1"),
    [
        (signal.SIGINT, False),
        pytest.param(signal.SIGTERM, False, marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, True, marks=[pytest.mark.long, NAMESPACES]),
    ],
)
def test_a_first_signal_says_what_it_waits_for_and_a_second_one_ends_at_once(
    number: signal.Signals, as_process_1: bool, start: Starter, command_line: CommandLine, tmp_path: Path
) -> None:
    command_line.deployed()
    assert command_line("start", "Watch", "--input", 'hosts=["a", "b"]').code == 0
    assert command_line("evaluator", "--until-idle").code == 0
    (tmp_path / "holds.py").write_text(_HOLDS)
    process = start(["afl_stream", "agent", "--handlers", "./holds.py"], as_process_1=as_process_1)
    eventually(lambda: process.text.count("handling") == 2, DEADLINE_S)

    process.send(number)
    process.when_it_says(
        "2 handlers running (net.Ping 2), waited for up to 30 s (50 s at most). A second signal ends it at once"
    )

    assert process.ends_with(number) == 130
    assert "ended at once" in process.text
