"""The work on one claimed task: call its handler, answer its step, resume its workflow, end the task."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from afl.core.handlers.calling import NO_HANDLER
from afl.core.handlers.outcomes import TIMEOUT, HandlerTimeout
from afl.core.handlers.retry import next_try_s
from afl.core.handlers.returned import BadResult, answers_later, plain_result, plain_update
from afl.core.handlers.routes import Route
from afl.core.ids import split_event_id
from afl.core.probes import Probe
from afl.core.process.crashes import Crash
from afl.core.text.exception_text import exception_class, exception_line, exception_text, exception_traceback
from afl.core.text.warning_limits import LimitedLog
from afl.core.values import ValueRefused
from afl.engine.errors import RuntimeError as EngineError
from afl.engine.errors import StoreUnavailable
from afl.engine.model.entities import TaskDefinition, TaskState
from afl.evaluation.evaluator import Evaluator
from afl.stores.public.persistence import EngineStore
from afl.workers.call_threads import Calls, LoopRunsHere
from afl.workers.task_context import TaskContext
from afl.workers.tool_registry import Handler

_log = logging.getLogger(__name__)

#: The prefix of names of tasks for runners themselves, which have no facet's handler.
BUILT_IN_PREFIX: Final = "afl:"
#: The failure of a task that something else than its handler has kept from being done, again and again.
TASK_NOT_DONE: Final = "TaskNotDone"

#: The time that a handler's check for cancellation is cached.
_LOOK_AGAIN_S: Final = 1.0
#: Waits between attempts to store an answer while the store is unavailable. After the last, the lease expires.
STORE_WAITS_S: Final = (0.1, 0.3, 1.0, 3.0, 5.0, 5.0, 5.0)
#: The longest of these waits once the server stops.
_LAST_WAITS_S: Final = 0.5


class HandlerMissing(EngineError):
    """No handler for a task that is already claimed; the text says for which facet."""


class _LeftToOthers(Exception):
    """The server stops, or has lost its claim, before the next try of a handler."""


class HandlerSource(Protocol):
    """The source of a task loop's handlers."""

    def registered_names(self) -> list[str]:
        """Return the names that have handlers, qualified and short ones."""

    def serves(self, facet_name: str) -> bool:
        """Say whether the facet of this qualified name has a handler."""

    def find(self, facet_name: str) -> Route:
        """Return the facet's route. Raises HandlerMissing."""


@dataclass(eq=False, slots=True)
class Job:
    """A task while this process works on it."""

    task: TaskDefinition
    #: The time of the claim, by the monotonic clock.
    since_s: float = field(default_factory=time.monotonic)
    #: Whether the claim is another's by now, or the task has ended without this process.
    lost: bool = False
    #: Whether this process is finished with it, done or not: nothing is written for it any more.
    abandoned: bool = False
    #: Whether its end could not be stored: then the lease expires.
    left: bool = False
    #: Whether an operator has ended it, and the time of the next check, on the monotonic clock.
    cancelled: bool = False
    look_again_s: float = 0.0

    def age_ms(self) -> int:
        """Return the time since the claim."""
        return int((time.monotonic() - self.since_s) * 1_000)


class TaskWork:
    """Worker on claimed tasks. Any number of threads may use it.

    For each task, in this order:
      1. call the handler,
      2. store the answer: the step's result and the task's end are one commit,
      3. resume the workflow.

    A crash before 2 leaves the task claimed: the lease expires, and another process does it again. A crash between 2
    and 3 leaves the workflow runnable in the store; a sweep resumes it. A task and step that the engine did not make
    are different: their task ends in a write of its own after 3.

    A task without a step, and one for runners themselves, is done when its handler returns: it has no 2 and no 3, and
    ends in a write of its own. After a crash before that it is done again.
    """

    def __init__(  # noqa: PLR0913 - all that one task is worked on with
        self,
        store: EngineStore,
        evaluator: Evaluator,
        source: HandlerSource,
        owner: str,
        *,
        resume: Callable[[str], object],
        count: Callable[[str, bool], None],
        stopping: threading.Event,
        probe: Probe,
        store_waits_s: Sequence[float] = STORE_WAITS_S,
    ) -> None:
        self._store = store
        self._evaluator = evaluator
        self._source = source
        self._owner = owner
        self._resume = resume
        self._count = count
        self._stopping = stopping
        self._probe = probe
        self._store_waits_s = store_waits_s
        self._warnings = LimitedLog(_log)

    def do(self, job: Job, calls: Calls) -> bool:
        """Do a task, whatever its outcome; False: its end could not be stored, and its lease expires.

        Raises the errors of the probe, LoopRunsHere, KeyboardInterrupt in the caller's thread, and unexpected errors:
        defects of the engine.
        """
        self._do(job, calls)
        return not job.left

    def give_up(self, job: Job, error: Exception, tries: int) -> None:
        """Fail the step of a task that cannot be done, without its handler. Raises the errors of the writing."""
        self._fail(job, TASK_NOT_DONE, f"the task was tried {tries} times, and each time {exception_line(error)}")

    def _do(self, job: Job, calls: Calls) -> None:
        task = job.task
        try:
            route = self._source.find(task.name)
            function = route.find()
        except HandlerMissing as error:
            self._fail(job, NO_HANDLER, str(error))
            return
        except StoreUnavailable as error:
            job.left = True
            _log.warning("task %s is left to the next process that claims it: %s", task.uuid, error)
            return
        except Exception as error:  # noqa: BLE001 - what can't be had fails the step that asks for it
            _log.error("the handler of %s could not be loaded\n%s", task.name, exception_traceback(error))
            self._fail(job, exception_class(error), exception_text(error))
            return
        try:
            value = self._call(job, route, function, calls)
        except _LeftToOthers:
            self._give_back(job)
        except LoopRunsHere:
            # The caller's mistake, not the handler's.
            self._give_back(job)
            raise
        except HandlerTimeout as error:
            self._fail(job, TIMEOUT, str(error))
        except BaseException as error:
            if _is_ours(error, calls):
                raise
            # By their types: a handler's exception may fake its class, or raise when it is read.
            if issubclass(type(error), StoreUnavailable) and task.name.startswith(BUILT_IN_PREFIX):
                job.left = True
                _log.warning("task %s is left to the next process that claims it: %s", task.uuid, error)
                return
            # The step keeps the text of the exception; only this line has its place.
            where = exception_traceback(error)
            text = "the handler of %s failed for step %s\n%s"
            self._warnings.warning(f"failures of the handler of {task.name}", text, task.name, task.step_id, where)
            self._fail(job, exception_class(error), exception_text(error))
        else:
            self._answer(job, value)

    def _call(self, job: Job, route: Route, function: Handler, calls: Calls) -> Any:
        tries = 0
        while True:
            is_over = threading.Event()
            context = TaskContext(
                job.task,
                lambda partial: self._update(job, partial),
                lambda: job.lost or job.abandoned or self._stopping.is_set(),
                is_over.is_set,
                lambda: self._is_cancelled(job),
            )
            context.tries = tries + 1
            try:
                payload = route.payload(job.task.name, job.task.data or {})
                return calls.call(function, payload, context, route.timeout_s)
            except LoopRunsHere:
                raise
            except BaseException as error:
                if _is_ours(error, calls):
                    raise
                tries += 1
                wait_s = next_try_s(route.retry, tries, error)
                if wait_s is None:
                    raise
                if job.lost or self._stopping.wait(wait_s) or job.lost or job.abandoned:
                    # It has not failed for good: the next process that claims the task tries again.
                    raise _LeftToOthers from error
            finally:
                is_over.set()

    def _answer(self, job: Job, value: Any) -> None:
        task = job.task
        if answers_later(value):
            self._patiently(job, lambda: self._store.renew_leases([task.uuid], self._owner, 0))
            return
        try:
            result = plain_result(value)
        except (BadResult, ValueRefused) as error:
            self._fail(job, exception_class(error), exception_text(error))
            return
        self._probe("task.handled")
        if not _is_for_step(task):
            self._end_and_resume(job, TaskState.COMPLETED, None)
            return
        try:
            stored = self._patiently(job, lambda: self._continue(task, result))
        except Exception as error:  # noqa: BLE001 - a result that does not fit fails its step
            self._fail(job, exception_class(error), exception_text(error))
            return
        if stored:
            self._probe("task.answered")
            self._end_and_resume(job, TaskState.COMPLETED, None)

    def _continue(self, task: TaskDefinition, result: Mapping[str, Any]) -> None:
        event = _event_of(task)
        if event:
            self._evaluator.continue_step(task.step_id, result, is_checked=True, **event)
        else:
            # A task that another program has saved only has the facts that every evaluator accepts.
            self._evaluator.continue_step(task.step_id, result)

    def _fail(self, job: Job, error_type: str, message: str) -> None:
        task = job.task
        if not _is_for_step(task):
            self._end_and_resume(job, TaskState.FAILED, message)
            return
        event = _event_of(task)

        def fail() -> None:
            if event:
                self._evaluator.fail_step(task.step_id, message, error_type, **event)
            else:
                self._evaluator.fail_step(task.step_id, message)

        try:
            stored = self._patiently(job, fail)
        except Exception as error:  # noqa: BLE001 - the task ends all the same
            # The step is unknown, or cannot be failed: the task still records the error.
            _log.error("step %s could not be failed\n%s", task.step_id, exception_traceback(error))
            stored = not (job.lost or job.abandoned)
        if stored:
            self._end_and_resume(job, TaskState.FAILED, message)

    def _end_and_resume(self, job: Job, state: str, message: str | None) -> None:
        task = job.task
        self._count(task.name, state == TaskState.COMPLETED)
        if task.workflow_id and _is_for_step(task):
            self._resume(task.workflow_id)
        error: dict[str, object] | None = None if message is None else {"message": message}
        self._patiently(job, lambda: self._store.end_task(task.uuid, self._owner, state, error))

    def _give_back(self, job: Job) -> None:
        self._patiently(job, lambda: self._store.give_task_back(job.task.uuid, self._owner))

    def _patiently(self, job: Job, write: Callable[[], object]) -> bool:
        """Write; again while the store is away. False when that took too long: the lease is let run out.

        The word to stop cuts a wait short: the work is done, and its answer may be stored at once.
        """
        for wait_s in (*self._store_waits_s, None):
            if job.abandoned:
                return False
            try:
                write()
                return True
            except StoreUnavailable as error:
                _log.warning("task %s: %s", job.task.uuid, error)
                if wait_s is None:
                    break
                if self._stopping.is_set():
                    time.sleep(min(wait_s, _LAST_WAITS_S))
                else:
                    self._stopping.wait(wait_s)
        job.left = True
        _log.error("task %s is left to the next process that claims it: its answer could not be stored", job.task.uuid)
        return False

    def _is_cancelled(self, job: Job) -> bool:
        """Say whether an operator has ended the task; False while the store is unavailable."""
        now_s = time.monotonic()
        if not job.cancelled and now_s >= job.look_again_s:
            job.look_again_s = now_s + _LOOK_AGAIN_S
            try:
                task = self._store.get_task(job.task.uuid)
            except StoreUnavailable:
                return False
            job.cancelled = task is not None and task.state in (TaskState.CANCELED, TaskState.IGNORED)
        return job.cancelled

    def _update(self, job: Job, partial: Mapping[str, Any]) -> None:
        reported = plain_update(partial)
        self._evaluator.update_step(job.task.step_id, reported, is_checked=True, **_event_of(job.task))


def _is_ours(error: BaseException, calls: Calls) -> bool:
    """Say whether an exception is not the handler's: Ctrl-C in the thread that polls, or the process's death."""
    kind = type(error)
    return issubclass(kind, Crash) or (issubclass(kind, KeyboardInterrupt) and calls.in_callers_thread)


def _is_for_step(task: TaskDefinition) -> bool:
    """Say whether the result of a task is the answer to its step's event."""
    return bool(task.step_id) and not task.name.startswith(BUILT_IN_PREFIX)


def _event_of(task: TaskDefinition) -> dict[str, str]:
    """Return the attempt of a task of the engine: an answer to an older one changes nothing."""
    event = split_event_id(task.uuid)
    return {"event_id": task.uuid} if event is not None and event[0] == task.step_id else {}
