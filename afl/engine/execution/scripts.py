"""Scripts of a running workflow: the ones to run, and the effect on a step when its script has ended.

A step that has reached a script stays where it is, in its stored state, until the script has ended elsewhere. The end
is handled like an agent's answer: one write moves the step on. So a script may run twice (its process died, another
evaluator took over), but it takes effect once: the first committed end counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from afl.core.clock import WallClock
from afl.core.text.exception_text import exception_class, exception_line
from afl.engine.errors import LimitReached, RunLimitReached, ScriptsNotAllowed, ValueRefused
from afl.engine.execution.execution import Execution
from afl.engine.execution.making import make_statement
from afl.engine.execution.step_log import log_fields, note
from afl.engine.execution.waits import InnerFailure, notify_waiters
from afl.engine.expressions.exact_doubles import refuse_inexact_doubles
from afl.engine.model.entities import NoteType
from afl.engine.model.plan import ScriptPlan
from afl.engine.model.records import StepRecord
from afl.engine.model.store import ErrorRecord
from afl.engine.states import StepState
from afl.engine.types import Value
from afl.engine.values.declared import Look
from afl.scripts.errors import ScriptFailed

if TYPE_CHECKING:
    from afl.scripts.pool import ScriptResult


class ScriptRunner(Protocol):
    """A runner of scripts elsewhere, several at a time, such as `afl.scripts.pool.ScriptPool`."""

    def submit(self, code: str, params: Mapping[str, object], workflow_id: str) -> Future[ScriptResult]:
        """Run a script of a workflow; no data of it stays for another text or workflow.

        The future raises ScriptFailed when the script gave no result, any other exception when it could not run.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptJob:
    """A script to run, for one step."""

    workflow_id: str
    step_id: str
    code: str
    params: Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEnding:
    """The end of a script: a result, or the error that fails its step."""

    result: Mapping[str, Value] | None = None
    printed: str = field(default="", repr=False)
    error_type: str = ""
    message: str = ""


def wait_for_script(execution: Execution, step: StepRecord) -> None:
    """Leave a step where it is until its script has ended. Raises ScriptsNotAllowed where none is run."""
    if not execution.runs_scripts:
        script = step.plan.script if step.plan is not None else step.facet.pre_script if step.facet else None
        raise ScriptsNotAllowed(declaration=script.declaration if script is not None else execution.plan.name)
    execution.scripts[step.id] = step
    execution.new_scripts.append(step)


def take_jobs(execution: Execution) -> list[ScriptJob]:
    """Return the scripts that have become due since the last call."""
    due, execution.new_scripts = execution.new_scripts, []
    return [_job(execution, step) for step in due if step.id in execution.scripts]


def offer_again(execution: Execution) -> None:
    """Let `take_jobs` return every unfinished script again: the process that got them may be gone."""
    execution.new_scripts = list(execution.scripts.values())


def ending_of(future: Future[ScriptResult]) -> ScriptEnding:
    """Return the end of a script. Raises the error that kept it from running: that is not a failure of its step."""
    try:
        ran = future.result()
    except ScriptFailed as failed:
        return ScriptEnding(printed=failed.printed, error_type=failed.error_type, message=failed.message)
    return ScriptEnding(result=ran.result, printed=ran.printed)


def finish_script(execution: Execution, step_id: str, ending: ScriptEnding) -> bool:
    """Take the end of a step's script; do nothing and return False when the step does not wait for it, or no longer."""
    step = execution.scripts.pop(step_id, None)
    if step is None or execution.is_ended:
        return False
    ending = _within_bounds(execution, step, ending)
    if ending.printed:
        fields: dict[str, object] = {**log_fields(execution, step), "position": _script_of(step).line}
        note(execution, step, "printed", NoteType.INFO, ending.printed, fields)
    if ending.result is None:
        execution.fail(step, InnerFailure(_failure(execution, step, ending)))
        notify_waiters(execution)
        return True
    try:
        execution.bounds.check_given("the script's result", ending.result, "result")
        refuse_inexact_doubles(ending.result, _looks_of_result(step), "result")
        if step.plan is not None:
            _end_block(execution, step, ending.result)
        else:
            _end_pre_script(execution, step, ending.result)
    except RunLimitReached as error:
        execution.exceed(error)
    except (LimitReached, ValueRefused) as error:
        execution.fail(step, error)
        notify_waiters(execution)
    return True


def _looks_of_result(step: StepRecord) -> Mapping[str, Look]:
    """Return the checks for Doubles in the result of a step's script.

    They are those of parameters and returns of its facet, or for a block those of the returns of its owner.
    """
    if step.plan is not None:
        container = step.container
        return container.facet.return_looks if container is not None and container.facet is not None else {}
    return {} if step.facet is None else {**step.facet.param_looks, **step.facet.return_looks}


def _within_bounds(execution: Execution, step: StepRecord, ending: ScriptEnding) -> ScriptEnding:
    """Return the same end, or a failure by name for a result that would be refused from an agent too."""
    if ending.result is None:
        return ending
    what = f"the result of the script at line {_script_of(step).line}"
    try:
        execution.bounds.check_values(execution, what, ending.result)
    except LimitReached as error:
        return ScriptEnding(printed=ending.printed, error_type=exception_class(error), message=exception_line(error))
    return ending


def _job(execution: Execution, step: StepRecord) -> ScriptJob:
    if step.plan is None:
        params = step.params
    else:
        container = step.container
        assert container is not None
        params = {**container.params, **container.returns}
    return ScriptJob(workflow_id=execution.id, step_id=step.id, code=_script_of(step).code, params=params)


def _script_of(step: StepRecord) -> ScriptPlan:
    script = step.plan.script if step.plan is not None else step.facet.pre_script if step.facet is not None else None
    assert script is not None, "only steps with a script wait for one"
    return script


def _end_pre_script(execution: Execution, step: StepRecord, result: Mapping[str, Value]) -> None:
    """Make every entry of the result a param of the step.

    A declared return has its value from now on too: a later one (an event's result, a yield, the script of a block)
    replaces it there, and a return default comes too late.
    """
    facet = step.facet
    assert facet is not None
    returned = {name: value for name, value in result.items() if name in facet.return_types}
    execution.give(step, {**step.params, **result}, {**step.returns, **returned} if returned else step.returns)
    if execution.trace is not None:
        execution.trace.moved(execution, step, StepState.FACET_SCRIPTS_BEGIN, StepState.FACET_SCRIPTS_END)
    step.state = StepState.FACET_SCRIPTS_END
    execution.touch(step)
    execution.wake(step)


def _end_block(execution: Execution, block: StepRecord, result: Mapping[str, Value]) -> None:
    """Use the result in place of the block's own yield: it is merged by the same rules, in the same position."""
    assert block.plan is not None
    if execution.trace is not None:
        execution.trace.moved(execution, block, StepState.BLOCK_EXECUTION_BEGIN, StepState.BLOCK_EXECUTION_CONTINUE)
    block.state = StepState.BLOCK_EXECUTION_CONTINUE
    execution.touch(block)
    frame = execution.open_frame(block)
    frame.yields_made = True
    given = make_statement(execution, block, frame, block.plan.yields[0])
    # Nothing is left to do for it in an iteration: it has no arguments to evaluate.
    execution.made.pop()
    execution.give(given, result, given.returns)
    if execution.trace is not None:
        execution.trace.moved(execution, given, given.state, StepState.STATEMENT_COMPLETE)
    given.state = StepState.STATEMENT_COMPLETE
    execution.complete(given)
    notify_waiters(execution)


def _failure(execution: Execution, step: StepRecord, ending: ScriptEnding) -> ErrorRecord:
    calling = step if step.plan is None else step.container
    assert calling is not None
    statement = calling.statement
    return ErrorRecord(
        type=ending.error_type,
        message=execution.kept_text(step, ending.message),
        step_id=step.id,
        path=execution.step_path(step),
        facet=statement.facet_name if statement is not None else calling.facet.name if calling.facet else "",
        line=_script_of(step).line,
    )


class ScriptRuns:
    """The scripts of one workflow that one call runs, all at once as far as the runner has room.

    They belong to the call, not to its copy of the workflow: a copy that conflicted with another writer is loaded
    again, and the finished scripts stay useful, because the params of a due script never change.
    """

    def __init__(self, runner: ScriptRunner | None) -> None:
        """Take a runner; None: the executions in this call run no scripts."""
        self._runner = runner
        self._running: dict[str, Future[ScriptResult]] = {}
        self._ended: SimpleQueue[str] = SimpleQueue()

    def continue_run(self, execution: Execution, now_ms: WallClock) -> None:
        """Run due scripts, wait until at least one has ended, and handle all ended ones.

        Raises the errors that keep a script from running.
        """
        for job in take_jobs(execution):
            self._run(job)
        taken = False
        while (execution.scripts and not taken) or not self._ended.empty():
            step_id = self._ended.get()
            execution.now_ms = now_ms()
            taken = finish_script(execution, step_id, ending_of(self._running[step_id])) or taken

    def _run(self, job: ScriptJob) -> None:
        future = self._running.get(job.step_id)
        if future is None:
            assert self._runner is not None
            future = self._running[job.step_id] = self._runner.submit(job.code, job.params, job.workflow_id)
            future.add_done_callback(lambda _: self._ended.put(job.step_id))
        elif future.done():
            # Its end was handled by a copy of the workflow that conflicted.
            self._ended.put(job.step_id)

    def __enter__(self) -> ScriptRuns:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel scripts that have not begun to run."""
        for future in self._running.values():
            future.cancel()
