"""Run a workflow in this process, on a store in memory, with prepared answers to its events."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from afl.compiled.program import CompiledProgram, Node
from afl.core.clock import Clock, SkippingClock, SystemClock
from afl.core.ids import time_ordered_id
from afl.core.limits import MAX_PENDING_EVENTS
from afl.core.text.near_names import did_you_mean, names_alike
from afl.engine.execution.external_events import EventLimits
from afl.engine.model.store import TimerKind
from afl.engine.types import Value
from afl.errors import AFLError
from afl.evaluation.evaluator import Evaluator, ExecutionResult, ExecutionStatus
from afl.stores.memory.store import MemoryStore

if TYPE_CHECKING:
    from afl.engine.execution.scripts import ScriptRunner

#: The only member of an answer that fails its step: a message, or an object with `message` and `type`.
ERROR_ANSWER = "$error"


#: The longest pause of a wait in real time, and the shortest wait that a person is told of.
_LONGEST_PAUSE_S: Final = 60.0
_NOTICED_MS: Final = 2_000


class WrongAnswers(AFLError):
    """A document of answers that cannot be used."""


class UnclearWorkflow(AFLError):
    """A program without a workflow, or with several when none was named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A step that waits for an answer: its place in the workflow, its facet and its parameters."""

    step: str
    facet: str
    params: Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedEvent:
    """A step that waits for an external event: its place in the workflow, and the name of the event."""

    step: str
    name: str


class RaisedEvent(NamedTuple):
    """An external event for the run."""

    name: str
    data: Value


class Passing(Protocol):
    """The way in which a run lets time pass."""

    @property
    def clock(self) -> Clock: ...

    @property
    def is_skipping(self) -> bool:
        """Whether time costs nothing: then deadlines of answers that are not there are waited for as well."""

    def wait_until(self, at_ms: int) -> None:
        """Return at a time, in milliseconds since the epoch."""


class RealTime:
    """Time as it passes."""

    is_skipping = False

    def __init__(
        self,
        clock: Clock | None = None,
        pause: Callable[[float], object] = time.sleep,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`tell` gets a line about each wait that a person notices."""
        self.clock = clock or SystemClock()
        self._pause = pause
        self._tell = tell

    def wait_until(self, at_ms: int) -> None:
        """Wait in pieces, so that a clock that is set meanwhile counts."""
        if at_ms - self.clock.now_ms() > _NOTICED_MS:
            moment = datetime.fromtimestamp(at_ms / 1_000, UTC)
            self._tell(f"waits until {moment:%Y-%m-%d %H:%M:%S} UTC; --skip-time does not")
        while (left_ms := at_ms - self.clock.now_ms()) > 0:
            self._pause(min(left_ms / 1_000, _LONGEST_PAUSE_S))


class SkippedTime:
    """Time that is jumped over: nothing is waited for."""

    is_skipping = True

    def __init__(self, clock: SkippingClock | None = None) -> None:
        self.clock = clock or SkippingClock()

    def wait_until(self, at_ms: int) -> None:
        self.clock.skip_to(at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRun:
    """The end of a run: outputs, an error, or steps that wait."""

    workflow: str
    status: str
    outputs: Mapping[str, Value] = field(default_factory=dict)
    error: Exception | None = None
    waiting: tuple[Waiting, ...] = ()
    #: Steps that wait for external events that nobody has raised.
    awaited: tuple[AwaitedEvent, ...] = ()
    #: The names of events that no step has taken, each as often as it is left.
    untaken: tuple[str, ...] = ()
    #: Facets that had more answers than events.
    unused: tuple[str, ...] = ()


class Answers:
    """The answers of agents by facet: one result for every event, or a list of results, one event after another."""

    def __init__(self, document: Mapping[str, object], program: CompiledProgram) -> None:
        """Take answers by facet names that are qualified, or short when only one facet has that name.

        Raises WrongAnswers.
        """
        events = {declaration.qualified_name for declaration in program.event_facets()}
        self._same: dict[str, Mapping[str, Value]] = {}
        self._listed: dict[str, deque[Mapping[str, Value]]] = {}
        self._used: set[str] = set()
        for name, answer in document.items():
            facet = program.facet(name)
            if facet is None or facet.qualified_name not in events:
                near = did_you_mean(names_alike(name, sorted(events)))
                meant = f"; {near}" if near else ""
                raise WrongAnswers(f"the answers name {name!r}, which is not an event facet of the program{meant}")
            if facet.qualified_name in self._same or facet.qualified_name in self._listed:
                raise WrongAnswers(f"the answers name {facet.qualified_name} twice")
            if isinstance(answer, list):
                self._listed[facet.qualified_name] = deque(_result(name, item) for item in answer)
            else:
                self._same[facet.qualified_name] = _result(name, answer)

    def take(self, facet: str) -> Mapping[str, Value] | None:
        """Return the next answer for a facet, or None when none is left."""
        if facet in self._same:
            self._used.add(facet)
            return self._same[facet]
        listed = self._listed.get(facet)
        return listed.popleft() if listed else None

    def unused(self) -> tuple[str, ...]:
        left = [facet for facet, listed in self._listed.items() if listed]
        return tuple(sorted([*left, *(facet for facet in self._same if facet not in self._used)]))


def workflow_name(program: CompiledProgram, asked_for: str | None) -> str:
    """Return the qualified name of the workflow to run. Raises UnclearWorkflow; ProgramError for an unknown name."""
    if asked_for is not None:
        return program.workflow(asked_for).qualified_name
    names = sorted(declaration.qualified_name for declaration in program.workflows())
    if not names:
        raise UnclearWorkflow("the program has no workflow to run")
    if len(names) > 1:
        raise UnclearWorkflow(f"the program has several workflows; choose one by --workflow: {', '.join(names)}")
    return names[0]


def run_locally(
    program: CompiledProgram,
    workflow: str,
    inputs: Mapping[str, Value],
    answers: Answers,
    scripts: ScriptRunner | None = None,
    events: Sequence[RaisedEvent] = (),
    passing: Passing | None = None,
) -> LocalRun:
    """Run a workflow until it ends, or until it waits for answers or events that are not there.

    The events are raised before it starts, in this order. `passing` lets the time pass that the run waits for; without
    it, real time does.
    """
    store, passing = MemoryStore(), passing or RealTime()
    limits = EventLimits(max_pending=max(len(events), MAX_PENDING_EVENTS))
    evaluator = Evaluator(store, clock=passing.clock, scripts=scripts, event_limits=limits)
    workflow_id = time_ordered_id(passing.clock.now_ms())
    for event in events:
        evaluator.raise_event(workflow_id, event.name, event.data)
    result = evaluator.execute(workflow, inputs, program, workflow_id=workflow_id)
    while result.status == ExecutionStatus.PAUSED:
        if not _answer(evaluator, result, answers):
            due_at_ms = _next_time(store, workflow_id, passing)
            if due_at_ms is None:
                break
            passing.wait_until(due_at_ms)
        result = evaluator.resume(workflow_id)
    is_paused = result.status == ExecutionStatus.PAUSED
    names = _statement_names(program) if is_paused else {}
    return LocalRun(
        workflow=workflow,
        status=result.status,
        outputs=result.outputs,
        error=result.error,
        waiting=_waiting(store, names, workflow, result) if is_paused else (),
        awaited=_awaited(store, names, workflow, result) if is_paused else (),
        untaken=tuple(row.name for row in store.pending_events((workflow_id,)).get(workflow_id, ())),
        unused=answers.unused(),
    )


def _next_time(store: MemoryStore, workflow_id: str, passing: Passing) -> int | None:
    """Return the next time that a run waits for, ms since the epoch.

    A deadline is not one that anybody sits through: an answer that is not there now does not come.
    """
    timers = store.timers_of(workflow_id)
    return next((item.due_at_ms for item in timers if passing.is_skipping or item.kind != TimerKind.DEADLINE), None)


def _answer(evaluator: Evaluator, result: ExecutionResult, answers: Answers) -> bool:
    """Answer the events that have an answer, in the order in which they were sent; say whether there was one."""
    answered = False
    for event in list(result.pending_events):
        answer = answers.take(event.event_type)
        if answer is None:
            continue
        answered = True
        failure = answer.get(ERROR_ANSWER)
        if failure is None:
            evaluator.continue_step(event.step_id, answer, is_checked=True)
        elif isinstance(failure, Mapping):
            evaluator.fail_step(
                event.step_id, str(failure.get("message", "")), str(failure.get("type", "RuntimeError"))
            )
        else:
            evaluator.fail_step(event.step_id, str(failure))
    return answered


def _result(name: str, answer: object) -> Mapping[str, Value]:
    if not isinstance(answer, dict):
        raise WrongAnswers(f"an answer for {name} is {answer!r:.60}, wanted an object with the facet's returns")
    return cast(dict[str, Value], answer)


def _statement_names(program: CompiledProgram) -> Mapping[str, str]:
    return {node["id"]: str(node["name"]) for node in _statements(program.tree) if "id" in node}


def _waiting(
    store: MemoryStore, names: Mapping[str, str], workflow: str, result: ExecutionResult
) -> tuple[Waiting, ...]:
    return tuple(
        Waiting(step=_path(store, event.step_id, names, workflow), facet=event.event_type, params=event.payload)
        for event in result.pending_events
    )


def _awaited(
    store: MemoryStore, names: Mapping[str, str], workflow: str, result: ExecutionResult
) -> tuple[AwaitedEvent, ...]:
    return tuple(
        AwaitedEvent(step=_path(store, step.step_id, names, workflow), name=step.event_name)
        for step in result.waits
        if step.event_name is not None
    )


def _path(store: MemoryStore, step_id: str, names: Mapping[str, str], workflow: str) -> str:
    """Return the names of the statements that lead to a step, from the workflow down."""
    parts: list[str] = []
    step = store.get_step(step_id)
    while step is not None:
        if step.statement_id is not None and step.statement_id in names:
            parts.append(names[step.statement_id])
        step = store.get_step(step.container_id) if step.container_id else None
    return ".".join([workflow, *reversed(parts)])


def _statements(node: Any) -> Iterator[Node]:
    if isinstance(node, Mapping):
        if node.get("type") == "StepStmt":
            yield node
        for value in node.values():
            yield from _statements(value)
    elif isinstance(node, list):
        for item in node:
            yield from _statements(item)
