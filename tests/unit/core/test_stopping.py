"""The word to stop, and what a process waits for: told to people, obeyed by waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from afl.core.process.children import end_with_parent
from afl.core.process.file_holders import holders_text
from afl.core.process.long_waits import Waits
from afl.core.process.signals import EndedBySignal, draining, signals_handled
from afl.core.process.stopping import PROCESS_STOP, StopFlag
from tests.eventually import eventually

ROOT = Path(__file__).parents[3]


# --- the flag ---------------------------------------------------------------------------------------------------


def test_a_flag_wakes_all_who_wait_for_it() -> None:
    flag = StopFlag()
    woken: list[bool] = []
    threads = [threading.Thread(target=lambda: woken.append(flag.wait(60))) for _ in range(3)]
    for thread in threads:
        thread.start()
    flag.set()
    for thread in threads:
        thread.join()

    assert woken == [True] * 3
    assert flag.wait(60)


def test_a_flag_that_was_taken_back_is_waited_for_again() -> None:
    flag = StopFlag()
    flag.set()
    flag.clear()

    assert not flag.is_set()
    assert not flag.wait(0.01)


# --- signals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_anything_is_under_way_ends_what_the_process_does(number: int) -> None:
    before = signal.getsignal(number)
    with signals_handled(), pytest.raises(EndedBySignal) as told:
        signal.raise_signal(number)

    assert told.value.number == number
    assert signal.getsignal(number) is before


def test_a_signal_within_a_drain_asks_for_it_and_says_what_there_is_to_wait_for(
    capfd: pytest.CaptureFixture[str],
) -> None:
    stop = StopFlag()
    with signals_handled():
        with draining(stop.set, lambda: "3 handlers running (billing.Pay 3), waited for up to 30 s"):
            signal.raise_signal(signal.SIGINT)
            waits_look_at_it = PROCESS_STOP.is_set()
        assert stop.is_set()

    assert waits_look_at_it
    assert not PROCESS_STOP.is_set()
    said = capfd.readouterr().err
    assert said == (
        "Ctrl-C: ends when this is done: 3 handlers running (billing.Pay 3), waited for up to 30 s. "
        "A second signal ends it at once\n"
    )


def test_one_of_several_processes_says_which_one_drains(capfd: pytest.CaptureFixture[str]) -> None:
    with signals_handled(), draining(lambda: None, lambda: "a commit", name="2 of 4"):
        signal.raise_signal(signal.SIGTERM)

    assert capfd.readouterr().err.startswith("[2 of 4] SIGTERM: ends when this is done: a commit. ")


def test_a_process_whose_watcher_is_gone_says_so_and_drains() -> None:
    ours, theirs = os.pipe()
    stop, said = StopFlag(), list[str]()
    with open(ours) as standard_input, signals_handled(), draining(stop.set):
        end_with_parent(standard_input, said.append)
        assert not stop.is_set()
        os.close(theirs)
        eventually(stop.is_set, 60)

    assert said == ["the process that watches this one is gone"]


def test_a_process_drains_when_its_watcher_and_its_terminal_are_gone() -> None:
    ours, theirs = os.pipe()
    stop = StopFlag()

    def tell(text: str) -> None:
        raise BrokenPipeError(text)

    with open(ours) as standard_input, signals_handled(), draining(stop.set):
        end_with_parent(standard_input, tell)
        os.close(theirs)
        eventually(stop.is_set, 60)


DRAINS = """
import sys, time
from afl.core.process.signals import draining, signals_handled
from afl.core.process.stopping import StopFlag
with signals_handled(lambda number: 130), draining(lambda: None, lambda: "a handler", limit_s={limit_s}, limit_code=3):
    {inside}
        print("ready", flush=True)
        # Python handles no signal that comes just before a sleep until that is over.
        while True:
            time.sleep(0.05)
"""
#: A part that drains by itself, without a limit of its own, inside of what has one.
PART = 'with draining(lambda: None, lambda: "a part"):'


def draining_process(limit_s: float, *before: str, inside: str = "if True:") -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*before, sys.executable, "-c", DRAINS.format(limit_s=limit_s, inside=inside)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_process_at_once(number: signal.Signals) -> None:
    with draining_process(600) as process:
        assert process.stderr is not None
        process.send_signal(number)
        first = process.stderr.readline()
        process.send_signal(number)

        assert process.wait(60) == 130
        assert "a handler" in first
        assert "ended at once" in process.stderr.readline()


def test_a_drain_that_takes_longer_than_it_may_is_given_up_and_says_what_it_waited_for() -> None:
    with draining_process(0.2) as process:
        assert process.stderr is not None
        process.send_signal(signal.SIGTERM)

        assert process.wait(60) == 3
        assert "not done 0.2 s after the signal: a handler" in process.stderr.read()


def test_the_limit_of_a_drain_holds_for_the_one_inside_of_it() -> None:
    with draining_process(0.2, inside=PART) as process:
        process.send_signal(signal.SIGTERM)

        assert process.wait(60) == 3


# --- waits ------------------------------------------------------------------------------------------------------


def test_a_wait_that_lasts_is_told_of_once_and_so_is_its_end() -> None:
    reported: list[str] = []
    waits = Waits(reported_after_s=0.05, report=reported.append)
    with waits.on("the store x", lambda: ", locked"):
        eventually(lambda: bool(reported), 60)
        assert "the store x" in waits.now()[0]

    assert waits.now() == []
    begins, ends = reported
    assert begins.startswith("waiting for the store x, locked, for ")
    assert ends.startswith("no longer waiting for the store x: ")


def test_the_end_of_a_wait_that_was_in_vain_says_so() -> None:
    reported: list[str] = []
    waits = Waits(reported_after_s=0.05, report=reported.append)

    def wait_in_vain() -> None:
        with waits.on("the store x"):
            eventually(lambda: bool(reported), 60)
            raise TimeoutError

    with pytest.raises(TimeoutError):
        wait_in_vain()

    assert reported[1].startswith("waiting for the store x failed after ")


def test_a_quiet_wait_is_told_of_by_its_caller_alone() -> None:
    reported: list[str] = []
    waits = Waits(reported_after_s=0.0, report=reported.append)
    loud_one_is_told = threading.Event()

    def wait_beside_it() -> None:
        with waits.on("the store"):
            eventually(lambda: bool(reported), 60)
        loud_one_is_told.set()

    with waits.on("a broker", is_quiet=True), waits.on("its answer"):
        threading.Thread(target=wait_beside_it).start()
        assert loud_one_is_told.wait(60)
        assert "a broker" in waits.now()[0]

    assert len(reported) == 2
    assert all("the store" in line for line in reported)


def test_a_short_wait_is_no_news() -> None:
    reported: list[str] = []
    waits = Waits(reported_after_s=600, report=reported.append)
    with waits.on("outer"), waits.on("inner"):
        assert waits.now() == ["outer (for 0 s)"]

    assert reported == []


# --- who has a file ---------------------------------------------------------------------------------------------


HOLDS = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the system does not tell who holds a lock")
def test_the_holder_of_a_lock_is_named_with_its_command(tmp_path: Path) -> None:
    path = tmp_path / "some file"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "held\n"

        said = holders_text([path])
        process.stdin.close()

    assert said.startswith(f"process {process.pid} (")
    assert "python" in said
    assert holders_text([path, tmp_path / "no such file"]) == ""


#: The kernel gives the signal to the other thread, so nothing interrupts the wait of the main one: as when it comes
#: between its last look and its wait.
SIGNAL_BESIDE_A_WAIT = """
import os, signal, threading
from afl.core.process.stopping import StopFlag

flag, ended = StopFlag(), threading.Event()
signal.signal(signal.SIGTERM, lambda *_: flag.set())
threading.Timer(0.3, lambda: (os.kill(os.getpid(), signal.SIGTERM), ended.wait())).start()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print(flag.wait())
ended.set()
"""


def test_a_signal_that_does_not_interrupt_the_wait_ends_it_nevertheless() -> None:
    found = subprocess.run(
        [sys.executable, "-c", SIGNAL_BESIDE_A_WAIT], capture_output=True, text=True, timeout=60, check=False
    )

    assert (found.returncode, found.stdout, found.stderr) == (0, "True\n", "")
