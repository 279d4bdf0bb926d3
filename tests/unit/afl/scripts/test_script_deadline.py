"""Zygotes that die or hang: the script runs elsewhere, and one deadline is for all its tries."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from afl.scripts.errors import TIMEOUT, ScriptFailed
from afl.scripts.limits import ScriptLimits
from afl.scripts.pool import ScriptPool
from tests.eventually import eventually
from tests.unit.afl.scripts.test_script_memory import memory_of

_ENDLESS = "while True: pass"


def _failure(pool: ScriptPool, code: str) -> tuple[ScriptFailed, float]:
    began_s = time.monotonic()
    with pytest.raises(ScriptFailed) as caught:
        pool.run(code, {}, "w1")
    return caught.value, time.monotonic() - began_s


@contextmanager
def _after(delay_s: float, pool: ScriptPool, number: int) -> Iterator[None]:
    """Send a signal to the pool's zygotes in a while."""

    def send() -> None:
        for worker in list(pool._all):
            os.kill(worker.pid, number)

    timer = threading.Timer(delay_s, send)
    timer.start()
    yield
    timer.join()


def test_the_second_try_has_what_the_first_has_left() -> None:
    with ScriptPool(ScriptLimits(wall_s=2.0)) as pool, _after(1.7, pool, signal.SIGKILL):
        failure, took_s = _failure(pool, _ENDLESS)

        assert failure.message == "Timeout: the script ran longer than 2 s"
        assert 1.9 <= took_s < 3.4


def test_a_zygote_that_hangs_makes_no_script_run_longer() -> None:
    with ScriptPool(ScriptLimits(wall_s=1.0)) as pool, _after(0.3, pool, signal.SIGSTOP):
        failure, took_s = _failure(pool, _ENDLESS)

        assert (failure.error_type, took_s < 2.4) == (TIMEOUT, True)
        assert pool.run("result['n'] = 1", {}).result == {"n": 1}


@pytest.mark.long
def test_a_zygote_that_hangs_when_the_script_has_replied_costs_nothing_but_its_worker() -> None:
    with ScriptPool() as pool:
        future = pool.submit("result['n'] = sum(range(20000000)) * 0 + 1", {}, "w1")
        eventually(lambda: future.running() and not pool._idle)
        (worker,) = pool._all
        os.kill(worker.pid, signal.SIGSTOP)

        assert future.result(60).result == {"n": 1}
        assert worker not in pool._all


@pytest.mark.long
def test_a_zygote_that_hangs_while_its_processes_wait_is_replaced() -> None:
    with ScriptPool() as pool:
        pool.run("result['n'] = 1", {}, "w1")
        (worker,) = pool._idle
        os.kill(worker.pid, signal.SIGSTOP)

        assert pool.run("result['n'] = 1", {}, "w1").result == {"n": 1}
        assert worker not in pool._all


def test_a_running_script_is_run_again_when_its_zygote_is_killed() -> None:
    with ScriptPool(workers=2) as pool:
        futures = [pool.submit("result['n'] = sum(range(6000000)) * 0 + params['n']", {"n": n}) for n in range(4)]
        eventually(lambda: any(future.running() for future in futures))
        for worker in list(pool._all):
            os.kill(worker.pid, signal.SIGKILL)

        assert [future.result(60).result["n"] for future in futures] == [0, 1, 2, 3]
        assert len(pool._all) == 2


def test_zygotes_killed_again_and_again_leave_no_descriptor_behind() -> None:
    with ScriptPool() as pool:
        pool.run("result['n'] = 1", {}, "w1")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            (worker,) = pool._all
            os.kill(worker.pid, signal.SIGKILL)
            assert pool.run("result['n'] = 1", {}, "w1").result == {"n": 1}

        assert len(os.listdir("/proc/self/fd")) == before


def test_a_process_that_was_killed_while_it_waited_is_replaced() -> None:
    with ScriptPool() as pool:
        pool.run("result['n'] = 1", {}, "w1")
        (worker,) = pool._idle
        ((process, _),) = worker._idle.values()
        os.kill(process.pid, signal.SIGKILL)

        assert pool.run("result['n'] = 1", {}, "w1").result == {"n": 1}
        assert worker in pool._all


def test_a_process_that_was_killed_while_it_ran_fails_its_script_and_nothing_else() -> None:
    with ScriptPool() as pool:
        future = pool.submit("while True: pass", {}, "w1")
        eventually(lambda: future.running() and bool(pool._all) and not pool._idle)
        (worker,) = pool._all
        eventually(lambda: _busiest_child(worker.pid) > 0)
        os.kill(_busiest_child(worker.pid), signal.SIGKILL)

        with pytest.raises(ScriptFailed, match="the script's process was ended by SIGKILL"):
            future.result(60)
        assert pool.run("result['n'] = 1", {}).result == {"n": 1}


def _busiest_child(pid: int) -> int:
    """Return the child that has computed most, 0 while none has computed for a tenth of a second."""
    with open(f"/proc/{pid}/task/{pid}/children") as children:
        pids = [int(number) for number in children.read().split()]
    used = {}
    for child in pids:
        with open(f"/proc/{child}/stat") as stat:
            used[child] = int(stat.read().rpartition(")")[2].split()[11])
    busiest = max(used, key=lambda child: used[child], default=0)
    return busiest if busiest and used[busiest] >= 10 else 0


def test_a_zygote_is_a_program_of_its_own_and_no_copy_of_a_process_with_threads() -> None:
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(8)]
    for thread in threads:
        thread.start()
    secret = "canary-of-the-evaluator-" + str(os.getpid())
    try:
        with ScriptPool() as pool:
            (worker,) = pool._idle
            with open(f"/proc/{worker.pid}/cmdline") as command:
                assert "afl.scripts.zygote" in command.read()
            assert len(os.listdir(f"/proc/{worker.pid}/task")) == 1
            assert secret.encode() not in memory_of(worker.pid)
            assert pool.run("result['n'] = 1", {"secret": secret}).result == {"n": 1}
            assert secret.encode() not in memory_of(worker.pid)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
