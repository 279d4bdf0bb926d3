"""Run scripts in warm worker processes: `ScriptPool.run` waits for the result, `submit` does not."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Condition
from types import TracebackType
from typing import Any

from afl.core.text.exception_text import exception_class
from afl.core.values import ValueRefused, plain_values
from afl.scripts.errors import (
    MEMORY_ERROR,
    SCRIPT_ERROR,
    TIMEOUT,
    ScriptFailed,
    ScriptPoolClosed,
    ScriptWorkerUnavailable,
)
from afl.scripts.isolation import Isolation, require_posix
from afl.scripts.limits import ScriptLimits
from afl.scripts.outcomes import EXIT_OUT_OF_MEMORY, EXITED, REPLIED, SIGNALLED, TIMED_OUT, TOO_LARGE
from afl.scripts.replies import read_reply
from afl.scripts.worker import ScriptKey, Worker
from afl.scripts.zygote_process import ZygoteLost


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResult:
    """The names that a script put into `result`, its printed text, and its caller's wait for a worker's answer."""

    result: Mapping[str, Any]
    printed: str
    duration_s: float


class ScriptPool:
    """Worker processes that run scripts.

    Scripts run in processes without files, network, other processes and privileges, within `limits`. Where this
    platform cannot isolate them so, making the pool raises ScriptsNotIsolated; `accept_missing` names the aspects whose
    risk the operator accepts (`isolation.ASPECTS`). Any number of threads may use a pool; each worker runs one script
    at a time.
    """

    def __init__(
        self, limits: ScriptLimits | None = None, workers: int = 1, *, accept_missing: Collection[str] = ()
    ) -> None:
        """Start the workers. Raises ScriptsNotIsolated, ScriptWorkerUnavailable."""
        if workers < 1:
            raise ValueError(f"a pool needs 1 worker or more, not {workers}")
        require_posix()
        self._limits = limits or ScriptLimits()
        self._accept_missing = frozenset(accept_missing)
        self._changed = Condition()
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._to_start = workers
        self._closed = False
        self._executor = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="afl-script")
        try:
            for worker in [self._take(None) for _ in range(workers)]:
                self._give_back(worker)
        except BaseException:
            self.close()
            raise
        self.isolation: Isolation = self._idle[0].isolation

    def run(self, code: str, params: Mapping[str, object], workflow_id: str = "") -> ScriptResult:
        """Run a script and wait for its result; this includes waiting for a free worker.

        `params` must be JSON data; the script gets a copy. A process that ran the text for this workflow may run it
        again; without a `workflow_id` every run has a process of its own. Raises ScriptFailed, ScriptPoolClosed,
        ScriptWorkerUnavailable.
        """
        text = _encode_code(code, self._limits)
        encoded = _encode_params(params)
        began_s = time.monotonic()
        outcome, reply = self._run_on_worker(text, encoded, ScriptKey(workflow_id, text) if workflow_id else None)
        duration_s = time.monotonic() - began_s
        if outcome != REPLIED:
            raise self._failure(outcome)
        answer = read_reply(reply, self._limits)
        return ScriptResult(result=answer.result, printed=answer.printed, duration_s=duration_s)

    def submit(self, code: str, params: Mapping[str, object], workflow_id: str = "") -> Future[ScriptResult]:
        """Run a script as soon as a worker is free; the future holds what `run` returns or raises."""
        try:
            return self._executor.submit(self.run, code, params, workflow_id)
        except RuntimeError as error:
            raise ScriptPoolClosed from error

    def close(self) -> None:
        """End all workers: running scripts fail, and waiting ones are given up."""
        with self._changed:
            self._closed = True
            workers, self._all = self._all, set()
            idle, self._idle = self._idle, []
            self._changed.notify_all()
        for worker in workers.difference(idle):
            # The thread of a running script owns the pipes of its worker: only the process is ended here.
            worker.terminate()
        self._executor.shutdown(cancel_futures=True)
        for worker in idle:
            worker.end()

    def __enter__(self) -> ScriptPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run_on_worker(self, text: bytes, params: bytes, key: ScriptKey | None) -> tuple[str, bytes]:
        """Run on a worker, and on another one if the first is lost: a script changes nothing but its result.

        Both tries share one deadline, which is set when the first worker has the script.
        """
        worker = self._take(key)
        deadline_s = time.monotonic() + self._limits.wall_s
        try:
            return self._run_on(worker, text, params, key, deadline_s)
        except ZygoteLost as error:
            lost = error
        try:
            return self._run_on(self._take(key, deadline_s), text, params, key, deadline_s)
        except (ZygoteLost, ScriptWorkerUnavailable) as error:
            if time.monotonic() >= deadline_s:
                return TIMED_OUT, b""
            if isinstance(error, ScriptWorkerUnavailable):
                raise
            raise ScriptFailed(SCRIPT_ERROR, f"the script's worker was lost twice: {lost}; {error}") from error

    def _run_on(
        self, worker: Worker, text: bytes, params: bytes, key: ScriptKey | None, deadline_s: float
    ) -> tuple[str, bytes]:
        try:
            ended = worker.run(text, params, key, deadline_s)
        except BaseException:
            self._discard(worker)
            raise
        if worker.is_lost:
            self._discard(worker)
        else:
            self._give_back(worker)
        return ended

    def _take(self, key: ScriptKey | None, deadline_s: float | None = None) -> Worker:
        """Wait for an idle worker, or start one in place of a lost one.

        A worker that has a process for this key is preferred.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._idle or self._to_start, _left_s(deadline_s))
            if self._closed:
                raise ScriptPoolClosed
            if self._idle:
                index = next((i for i, worker in enumerate(self._idle) if worker.knows(key)), -1)
                return self._idle.pop(index)
            if not self._to_start:
                raise ScriptWorkerUnavailable("all are busy")
            self._to_start -= 1
        try:
            worker = Worker(self._limits, _left_s(deadline_s))
        except BaseException:
            self._free_place()
            raise
        try:
            worker.isolation.require(self._accept_missing)
        except BaseException:
            worker.kill()
            self._free_place()
            raise
        with self._changed:
            if not self._closed:
                self._all.add(worker)
                return worker
        worker.kill()
        raise ScriptPoolClosed

    def _free_place(self) -> None:
        with self._changed:
            self._to_start += 1
            self._changed.notify()

    def _give_back(self, worker: Worker) -> None:
        with self._changed:
            if not self._closed:
                self._idle.append(worker)
                self._changed.notify()
                return
        worker.kill()

    def _discard(self, worker: Worker) -> None:
        worker.kill()
        with self._changed:
            self._all.discard(worker)
        self._free_place()

    def _failure(self, outcome: str) -> ScriptFailed:
        """Describe the end of a run without a reply, as its worker saw it."""
        limits = self._limits
        ending, _, number = outcome.rpartition(" ")
        if outcome == TIMED_OUT:
            return ScriptFailed(TIMEOUT, f"the script ran longer than {limits.wall_s:g} s")
        if outcome == TOO_LARGE:
            return ScriptFailed(SCRIPT_ERROR, f"the result takes more than the {limits.output_bytes} bytes allowed")
        if ending == SIGNALLED and int(number) == signal.SIGXCPU:
            return ScriptFailed(TIMEOUT, f"the script used more than {limits.cpu_s} s of processor time")
        if ending == SIGNALLED:
            return ScriptFailed(SCRIPT_ERROR, f"the script's process was ended by {_signal_name(int(number))}")
        if ending == EXITED and int(number) == EXIT_OUT_OF_MEMORY:
            return ScriptFailed(MEMORY_ERROR, "the script needs more memory than it may have")
        return ScriptFailed(SCRIPT_ERROR, f"the script's process ended without a result ({outcome})")


def _left_s(deadline_s: float | None) -> float | None:
    return None if deadline_s is None else max(0.0, deadline_s - time.monotonic())


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _encode_code(code: str, limits: ScriptLimits) -> bytes:
    try:
        text = code.encode()
    except UnicodeEncodeError as error:
        raise ScriptFailed("SyntaxError", f"the code is not text: {error}") from error
    if len(text) > limits.code_bytes:
        raise ScriptFailed(SCRIPT_ERROR, f"the code has {len(text)} bytes, more than the {limits.code_bytes} allowed")
    return text


def _encode_params(params: Mapping[str, object]) -> bytes:
    try:
        return json.dumps(dict(params), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        # Checked only here: values from the engine were checked when they came in.
        pass
    try:
        return json.dumps(plain_values(params, "params"), ensure_ascii=False).encode()
    except ValueRefused as error:
        raise ScriptFailed(exception_class(error), f"the script's {error}") from None
