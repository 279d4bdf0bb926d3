"""One run in detail: its steps as a tree, with states, times, attempts, values, failures, and who answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

from afl.compiled.program import CompiledProgram
from afl.core.clock import epoch_ms
from afl.core.errors import AFLError
from afl.engine.execution.generations import current_steps
from afl.engine.model.plan import WorkflowPlan
from afl.engine.model.store import ErrorRecord, StepDocument, WorkflowRow
from afl.engine.planning.planner import plan_workflow
from afl.engine.planning.programs import stored_program
from afl.engine.states import StepState
from afl.engine.types import Value
from afl.stores.public.persistence import EngineStore
from afl_stream.visibility.records import Answer, RunRecordReader, RunRecords
from afl_stream.visibility.step_tree import CaughtFailure, TreeNode, statement_names, step_status, step_tree
from afl_stream.visibility.workflows import WorkflowSummary, find_workflow, summary_of


@dataclass(slots=True, kw_only=True)
class StepDetail:
    """One step of a run. Times are milliseconds since the epoch.

    The store keeps when a step was created, and not when it ended. That is known of a step that only binds, from the
    record of an answer, and of a step around others from those; else `ended_at_ms` is None.
    """

    step_id: str
    #: As it stands in its body: `paid = Charge`, `[0] p = Ping`, `yield Checkout`.
    label: str
    facet: str
    #: In words: complete, failed, waits for an answer, ...
    status: str
    state: str
    event_state: str | None
    attempt: int
    #: The failure that a catch of this step has run for.
    caught: CaughtFailure | None
    #: It failed, and a step around it has caught that.
    is_caught: bool
    inputs: dict[str, Value]
    results: dict[str, Value]
    error: ErrorRecord | None
    #: The failure of the attempt before, while a `Retry` goes on.
    last_failure: ErrorRecord | None
    created_at_ms: int
    ended_at_ms: int | None
    #: Until when it waits, or may be answered.
    deadline_ms: int | None
    answers: tuple[Answer, ...]
    children: list[StepDetail] = field(default_factory=list)

    @property
    def duration_ms(self) -> int | None:
        """Return how long it took; None where its end is not known."""
        return None if self.ended_at_ms is None else max(self.ended_at_ms - self.created_at_ms, 0)

    def walk(self, depth: int = 0) -> Iterator[tuple[int, StepDetail]]:
        """Return the step and all below it, in order of creation, each with its depth."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)

    def to_dict(self) -> dict[str, object]:
        """Return it, and the steps below it, as JSON has them."""
        return {
            "step_id": self.step_id,
            "label": self.label,
            "facet": self.facet,
            "status": self.status,
            "state": self.state,
            "event_state": self.event_state,
            "attempt": self.attempt,
            "caught": None if self.caught is None else asdict(self.caught),
            "is_caught": self.is_caught,
            "inputs": self.inputs,
            "results": self.results,
            "error": None if self.error is None else self.error._asdict(),
            "last_failure": None if self.last_failure is None else self.last_failure._asdict(),
            "created_at_ms": self.created_at_ms,
            "ended_at_ms": self.ended_at_ms,
            "duration_ms": self.duration_ms,
            "deadline_ms": self.deadline_ms,
            "answers": [answer.to_dict() for answer in self.answers],
            "children": [child.to_dict() for child in self.children],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    """One run: its line in a list, its inputs and outputs, and its steps.

    `records` is what the topics hold of it, None where they were not read. `row`, `program` and `plan` are what it was
    made of; program and plan are None where they are missing or cannot be read.
    """

    summary: WorkflowSummary
    inputs: dict[str, Value]
    outputs: dict[str, Value] | None
    root: StepDetail | None
    records: RunRecords | None
    row: WorkflowRow
    program: CompiledProgram | None
    plan: WorkflowPlan | None
    documents: tuple[StepDocument, ...]

    def steps(self) -> list[tuple[int, StepDetail]]:
        """Return all steps in the tree's order, each with its depth."""
        return [] if self.root is None else [*self.root.walk()]

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            **self.summary.to_dict(),
            "inputs": self.inputs,
            "outputs": self.outputs,
            "root": None if self.root is None else self.root.to_dict(),
            "gaps": None if self.records is None else list(self.records.gaps),
        }


def show_workflow(
    store: EngineStore, workflow_id: str, records: RunRecordReader | None = None, *, now_ms: int | None = None
) -> RunDetail:
    """Return a run in detail, by its id or the beginning of one; with `records` also who answered its steps.

    Raises NoSuchWorkflow and the store's own errors. A broker that cannot be reached is told in `records.gaps`.
    """
    row = find_workflow(store, workflow_id)
    documents = current_steps(store.load_steps(row.id), row.execution)
    found = None if records is None else records.read(row, documents)
    program = _program_of(store, row)
    plan = _plan_of(program, row)
    tree = step_tree(documents, statement_names(plan))
    return RunDetail(
        summary=summary_of(row, epoch_ms() if now_ms is None else now_ms),
        inputs=dict(row.inputs),
        outputs=None if row.outputs is None else dict(row.outputs),
        root=None if tree is None else _detail(tree, row, found or RunRecords()),
        records=found,
        row=row,
        program=program,
        plan=plan,
        documents=tuple(documents),
    )


def _detail(node: TreeNode, row: WorkflowRow, records: RunRecords) -> StepDetail:
    step = node.step
    children = [_detail(child, row, records) for child in node.children]
    answers = tuple(records.answers_of(step.id))
    return StepDetail(
        step_id=step.id,
        label=node.label,
        facet=step.facet_name,
        status=step_status(node, row),
        state=step.state,
        event_state=step.event_state or None,
        attempt=step.attempt,
        caught=node.caught,
        is_caught=node.is_caught,
        inputs=dict(step.params),
        results=dict(step.returns),
        error=step.error,
        last_failure=None if step.retry is None else step.retry.error,
        created_at_ms=step.created_at_ms,
        ended_at_ms=_end_of(step, row, children, answers),
        deadline_ms=step.deadline_ms,
        answers=answers,
        children=children,
    )


def _end_of(
    step: StepDocument, row: WorkflowRow, children: Sequence[StepDetail], answers: Sequence[Answer]
) -> int | None:
    """Return when a step ended, as far as that can be told."""
    if step.container_id is None and step.block_id is None:
        return row.ended_at_ms or None
    if step.state not in (StepState.STATEMENT_COMPLETE, StepState.STATEMENT_ERROR):
        return None
    ends: list[int | None] = [child.ended_at_ms for child in children]
    if step.attempt:
        ends.append(_answered_at(step, answers))
    if None in ends:
        return None
    return max((end for end in ends if end is not None), default=step.created_at_ms)


def _answered_at(step: StepDocument, answers: Sequence[Answer]) -> int | None:
    """Return the time of the answer that ended a step's last attempt: the first that is not refused."""
    for answer in answers:
        if answer.answer != "update" and not answer.refused and answer.attempt in (None, step.attempt):
            return answer.at_ms
    return None


def _program_of(store: EngineStore, row: WorkflowRow) -> CompiledProgram | None:
    try:
        return stored_program(store, row.program)
    except AFLError:
        return None


def _plan_of(program: CompiledProgram | None, row: WorkflowRow) -> WorkflowPlan | None:
    try:
        return None if program is None else plan_workflow(program, row.name)
    except AFLError:
        return None
