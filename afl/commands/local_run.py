"""Run a workflow in this process, on a store in memory, with prepared answers to its events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from afl.compiled.program import CompiledProgram, Node
from afl.core.text.near_names import did_you_mean, names_alike
from afl.engine.types import Value
from afl.errors import AFLError
from afl.evaluation.evaluator import Evaluator, ExecutionResult, ExecutionStatus
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EventDefinition

if TYPE_CHECKING:
    from afl.engine.execution.scripts import ScriptRunner

#: The only member of an answer that fails its step: a message, or an object with `message` and `type`.
ERROR_ANSWER = "$error"


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
class LocalRun:
    """The end of a run: outputs, an error, or steps that wait."""

    workflow: str
    status: str
    outputs: Mapping[str, Value] = field(default_factory=dict)
    error: Exception | None = None
    waiting: tuple[Waiting, ...] = ()
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
) -> LocalRun:
    """Run a workflow until it ends, or until a waiting step has no answer left."""
    store = MemoryStore()
    evaluator = Evaluator(store, scripts=scripts)
    result = evaluator.execute(workflow, inputs, program)
    while result.status == ExecutionStatus.PAUSED and _answer(evaluator, result, answers):
        result = evaluator.resume(result.workflow_id)
    return LocalRun(
        workflow=workflow,
        status=result.status,
        outputs=result.outputs,
        error=result.error,
        waiting=_waiting(store, program, workflow, result) if result.status == ExecutionStatus.PAUSED else (),
        unused=answers.unused(),
    )


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


def _waiting(
    store: MemoryStore, program: CompiledProgram, workflow: str, result: ExecutionResult
) -> tuple[Waiting, ...]:
    names = {node["id"]: str(node["name"]) for node in _statements(program.tree) if "id" in node}
    return tuple(
        Waiting(step=_path(store, event, names, workflow), facet=event.event_type, params=event.payload)
        for event in result.pending_events
    )


def _path(store: MemoryStore, event: EventDefinition, names: Mapping[str, str], workflow: str) -> str:
    """Return the names of the statements that lead to a step, from the workflow down."""
    parts: list[str] = []
    step = store.get_step(event.step_id)
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
