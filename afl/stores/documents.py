"""The stored form of steps, workflows and values: bytes that are the same in every durable store."""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Final, NamedTuple, cast

from afl.core.json_encoder import make_encoder
from afl.core.row_maker import row_maker
from afl.core.trace_context import context_in
from afl.engine.model.plan import StatementPlan
from afl.engine.model.step_rows import BlockIds, BoundStep
from afl.engine.model.store import ErrorRecord, HistoryRow, LiveStep, RetryRecord, StepDocument, WorkflowRow
from afl.engine.types import Value
from afl.engine.versions import VERSIONS, WAITS_VERSIONS, WRITTEN, Versions, check_versions
from afl.stores.damaged_rows import DAMAGE as DAMAGE

#: A step's fields in the order in which they are stored, for good.
_stored_step: Final = row_maker(
    StepDocument,
    "id", "workflow_id", "number", "revision", "object_type", "state", "statement_id", "facet_name", "container_id",
    "container_type", "block_id", "root_id", "params", "returns", "attempt", "event_state", "error",
    "foreach_index", "foreach_var", "foreach_value", "created_at_ms", "deadline_ms", "retry",
)  # fmt: skip
_STEP_FIELDS: Final = len(StepDocument._fields)
#: Where fields stand in a StepDocument, and ids in its stored form, which lacks revision and state.
_ERROR_AT: Final = StepDocument._fields.index("error")
#: Where the fields stand that a change says anew.
_RETURNS_AT, _ATTEMPT_AT, _EVENT_STATE_AT = map(StepDocument._fields.index, ("returns", "attempt", "event_state"))
#: The last fields, which are left out where they are None: the deadline, then the retry.
_DEADLINE_AT: Final = StepDocument._fields.index("deadline_ms")
_RETRY_AT: Final = StepDocument._fields.index("retry")
_IDS_AT: Final = tuple(StepDocument._fields.index(name) - 2 for name in ("container_id", "block_id", "root_id"))


def _other_kinds(value: object) -> object:
    """Return a plain form of a value that JSON lacks, for the encoder. Raises TypeError when there is none."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a value of type {type(value).__name__} can't be stored: {value!r:.100}")


_encode_text: Final = make_encoder(_other_kinds)
_decode_text: Final = json.JSONDecoder().raw_decode
#: A text as JSON.
_quote: Final[Callable[[str], str]] = json.encoder.encode_basestring


def to_bytes(text: str) -> bytes:
    """Return JSON text in UTF-8. A lone surrogate has no UTF-8 form: it is escaped, as JSON allows inside strings."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace")


def encode_value(value: object) -> bytes:
    """Return a value as compact JSON in UTF-8.

    `decode_value` gives back integers of any size, NaN, the infinities and lone surrogates unchanged. Raises TypeError
    for an object that is not an AFL value.
    """
    return to_bytes(_encode_text(value))


def decode_value(content: bytes) -> Value:
    """Return the value that `encode_value` wrote. Raises ValueError for anything else."""
    text = content.decode()
    value, end = _decode_text(text)
    if end != len(text):
        raise ValueError(f"a document ends after {end} of {len(text)} characters")
    return cast(Value, value)


def _decode_list(content: bytes) -> list[Any]:
    value = decode_value(content)
    if not isinstance(value, list):
        raise ValueError(f"a document is a list, not {content!r:.60}")
    return value


def encode_step(document: StepDocument) -> bytes:
    """Return the stored form of a step: everything except id, revision and state, which stores keep beside it.

    It is a JSON list, in one of two forms. The long one has the versions in the place of the id, then the fields of a
    StepDocument in their order. The deadline and the retry, which are the last, are left out when there are none. Most
    ids start with the id of the workflow, which is left out: null for the workflow of a step whose id names it, ":..."
    for container, block and root. A workflow id in the list means that nothing was left out.

    The short form is that of most steps, statements without rare fields. It has neither the workflow nor the fields
    that such a step leaves empty, so that the number comes second, and 0 for the root where it is the container.
    """
    return _encode_plain_step(document) or encode_long_step(document)


def _encode_plain_step(document: StepDocument) -> bytes | None:
    """Return the short form of a step; None for a step with rare fields."""
    (
        step_id, workflow_id, number, _, object_type, _, statement_id, facet_name, container_id, container_type,
        block_id, root_id, params, returns, attempt, event_state, error, index, variable, value, created_at_ms,
        deadline_ms, retry,
    ) = document  # fmt: skip
    if not (error is None and index is None and variable is None and value is None and deadline_ms is None):
        return None
    if retry is not None or container_type is not None:
        return None
    # Only for a step inside a block. The root, one step of many, and steps saved by hand take the slow path.
    if not (container_id and block_id and root_id and statement_id) or step_id.partition(":")[0] != workflow_id:
        return None
    start = f"{workflow_id}:"
    if not (container_id.startswith(start) and block_id.startswith(start) and root_id.startswith(start)):
        return None
    keep = len(workflow_id)
    root = "0" if root_id == container_id else _quote(root_id[keep:])
    return to_bytes(
        f'["{VERSIONS}",{number},{_quote(object_type)},{_quote(statement_id)},{_quote(facet_name)},'
        f"{_quote(container_id[keep:])},{_quote(block_id[keep:])},{root},"
        f"{_encode_values(params)},{_encode_values(returns)},{attempt},{_quote(event_state)},{created_at_ms}]"
    )


def _encode_values(values: Mapping[str, Value]) -> str:
    if not values:
        return "{}"
    fields = []
    for name, value in values.items():
        kind = type(value)
        if kind is str:
            fields.append(f"{_quote(name)}:{_quote(cast(str, value))}")
        elif kind is int or (kind is float and isfinite(cast(float, value))):
            fields.append(f"{_quote(name)}:{value!r}")
        else:
            return _encode_text(values)
    return f"{{{','.join(fields)}}}"


def encode_live(step: LiveStep) -> bytes:
    """Return the stored form of a live step, as `encode_step` gives it for its document.

    What all steps of a statement and of a running block have in common is encoded once for each.
    """
    common = _common_of(step)
    if not common:
        return encode_step(step.document())
    return to_bytes(
        f'["{VERSIONS}",{step.number},{common},{_encode_values(step.params)},{_encode_values(step.returns)},'
        f'{step.attempt},"{step.event_state}",{step.created_at_ms}]'
    )


def encode_bound(step: BoundStep) -> bytes:
    """Return the stored form of a bound step, as `encode_step` gives it for its document."""
    common = _common_of(step)
    if not common:
        return encode_step(step.document())
    return to_bytes(
        f'["{VERSIONS}",{step.number},{common},{_encode_values(step.params)},{_encode_values(step.returns)},'
        f'0,"",{step.created_at_ms}]'
    )


def _common_of(step: LiveStep | BoundStep) -> str:
    """Return what the short form says of a step's statement and block; "" where the step has no short form."""
    statement, block_ids = step.statement, step.block_ids
    place = block_ids.stored
    if place is None:
        place = block_ids.stored = _stored_place(block_ids)
    if not place:
        return ""
    head = statement.stored
    if head is None:
        head = statement.stored = _stored_statement(statement)
    return f"{head},{place}"


def encode_change(step: LiveStep) -> bytes:
    """Return what has changed of a live step that the store has: attempt, event state and returns.

    Revision and state stand beside it, as they stand beside the document, which stays.
    """
    return to_bytes(f'[{step.attempt},"{step.event_state}",{_encode_values(step.returns)}]')


def _stored_place(block_ids: BlockIds) -> str:
    """Return the ids of container, block and root as the short form has them; "" where it leaves the step."""
    keep, start = len(block_ids.workflow_id), f"{block_ids.workflow_id}:"
    ids = (block_ids.owner_id, block_ids.block_id, block_ids.root_id)
    if ":" in block_ids.workflow_id or not all(named.startswith(start) for named in ids):
        return ""
    owner, block, root = (_quote(named[keep:]) for named in ids)
    return f"{owner},{block},{'0' if root == owner else root}"


def _stored_statement(statement: StatementPlan) -> str:
    return f"{_quote(statement.object_type)},{_quote(statement.id)},{_quote(statement.facet_name)}"


def encode_long_step(document: StepDocument) -> bytes:
    """Return the long form of a step, which every step has in earlier formats."""
    step_id, workflow_id = document[0], document[1]
    end = None if document.retry is not None else _RETRY_AT if document.deadline_ms is not None else _DEADLINE_AT
    versions = VERSIONS if document.retry is None else WAITS_VERSIONS
    row: list[object] = [versions, None, document[2], document[4], *document[6:end]]
    if step_id.partition(":")[0] != workflow_id:
        row[1] = workflow_id
    start = f"{workflow_id}:"
    keep = len(workflow_id)
    for at in _IDS_AT:
        named = row[at]
        if named is not None:
            if named.startswith(start):  # type: ignore[attr-defined]  # ids are text
                row[at] = named[keep:]  # type: ignore[index]
            elif named.startswith(":"):  # type: ignore[attr-defined]
                row = [versions, [workflow_id], document[2], document[4], *document[6:end]]
                break
    return to_bytes(_encode_text(row))


#: The beginning of a step of this release, and what follows it where the step's id names its workflow: no id of another
#: one. It may be decoded later.
PLAIN_START: Final = to_bytes(f'["{VERSIONS}",')
PLAIN_NEXT: Final = b"n0123456789"


def decode_step(step_id: str, revision: int, state: str, content: bytes, change: bytes | None = None) -> StepDocument:
    """Return the step that `encode_step` wrote, with what `encode_change` wrote of it since.

    Raises VersionMismatchError for a step of a newer runtime, and an error of DAMAGE for bytes that are not a step.
    """
    row = _decode_list(content)
    if row[0] != VERSIONS:
        check_versions(row[0])
    if type(row[1]) is int:
        row = _in_long_form(row)
    workflow_id = row[1]
    if workflow_id is None:
        workflow_id = step_id.partition(":")[0]
    if type(workflow_id) is list:
        (workflow_id,) = workflow_id
    else:
        for at in _IDS_AT:
            named = row[at]
            if named is not None and named.startswith(":"):
                row[at] = workflow_id + named
    fields = [step_id, workflow_id, row[2], revision, row[3], state, *row[4:]]
    if len(fields) in (_DEADLINE_AT, _RETRY_AT):
        fields += (None,) * (_STEP_FIELDS - len(fields))
    elif len(fields) == _STEP_FIELDS:
        first_attempt, last_error = fields[_RETRY_AT]
        fields[_RETRY_AT] = RetryRecord(first_attempt, ErrorRecord._make(last_error))
    error = fields[_ERROR_AT]
    if error is not None:
        fields[_ERROR_AT] = ErrorRecord._make(error)
    if len(fields) != _STEP_FIELDS:
        raise TypeError(f"a step has {_STEP_FIELDS} fields, and its document gives {len(fields)}")
    if change is not None:
        fields[_ATTEMPT_AT], fields[_EVENT_STATE_AT], fields[_RETURNS_AT] = _decode_list(change)
    return _stored_step(fields)


def _in_long_form(row: list[Any]) -> list[Any]:
    versions, number, kind, statement, facet, container, block, root, params, returns, attempt, state, at_ms = row
    root = container if root == 0 else root
    return [
        versions, None, number, kind, statement, facet, container, None, block, root, params, returns, attempt, state,
        None, None, None, None, at_ms,
    ]  # fmt: skip


#: Between the name of who started a run and its trace. Never change it.
_TRACE_MARK: Final = "\x1e"


def _runner_and_trace(held: str) -> tuple[str, str]:
    if _TRACE_MARK not in held:
        return held, ""
    runner_id, _, trace_context = held.rpartition(_TRACE_MARK)
    # A name is any text.
    return (held, "") if context_in(trace_context) is None else (runner_id, trace_context)


class _WorkflowContent(NamedTuple):
    """The content of a workflow's document without the columns that stores keep beside it, and without its inputs."""

    versions: str
    program: str
    outputs: Mapping[str, Value] | None
    error: ErrorRecord | list[Any] | None
    #: The number, and where one of them is not 0 a list of it, the executions before and the pending events: as many
    #: entries as ever, so that releases that do not know them come to the versions, and refuse by those.
    execution: int | list[int]
    #: Behind a mark also the trace that the run is part of: releases that do not know it keep it where it stands.
    runner_id: str
    lane: str
    steps: int
    iterations: int
    updated_at_ms: int
    ended_at_ms: int


def versions_of(row: WorkflowRow) -> Versions:
    """Return the versions that last wrote a workflow."""
    return Versions(row.workflow_version, row.step_schema_version, row.runtime_version)


def encode_workflow(row: WorkflowRow) -> bytes:
    """Return the stored form of a workflow, without id, revision, name, status, runnable, creation time and inputs."""
    before, pending = row.executions_before, row.pending_events
    held = (
        VERSIONS if (written := versions_of(row)) == WRITTEN else written.text,
        row.program,
        row.outputs,
        row.error,
        (row.execution, before, pending) if before or pending else row.execution,
        f"{row.runner_id}{_TRACE_MARK}{row.trace_context}" if row.trace_context else row.runner_id,
        row.lane,
        row.steps,
        row.iterations,
        row.updated_at_ms,
        row.ended_at_ms,
    )
    return to_bytes(_encode_text(held))


def decode_workflow(
    *,
    workflow_id: str,
    revision: int,
    name: str,
    status: str,
    runnable: bool,
    created_at_ms: int,
    content: bytes,
    inputs: bytes,
) -> WorkflowRow:
    """Return the workflow that `encode_workflow` wrote. Raises as `decode_step`."""
    row = _decode_list(content)
    # First: a newer release may have written more, or fewer entries.
    check_versions(row[0])
    held = _WorkflowContent._make(row)
    execution, before, pending = held.execution if isinstance(held.execution, list) else (held.execution, 0, 0)
    workflow_version, step_schema_version, runtime_version = held.versions.split(" ")
    runner_id, trace_context = _runner_and_trace(held.runner_id)
    return WorkflowRow(
        id=workflow_id,
        revision=revision,
        program=held.program,
        name=name,
        status=status,
        runnable=runnable,
        inputs=cast(dict[str, Value], decode_value(inputs)),
        outputs=held.outputs,
        error=None if held.error is None else ErrorRecord._make(held.error),
        execution=execution,
        runner_id=runner_id,
        lane=held.lane,
        steps=held.steps,
        iterations=held.iterations,
        created_at_ms=created_at_ms,
        updated_at_ms=held.updated_at_ms,
        ended_at_ms=held.ended_at_ms,
        workflow_version=workflow_version,
        step_schema_version=step_schema_version,
        runtime_version=runtime_version,
        executions_before=before,
        pending_events=pending,
        trace_context=trace_context,
    )


def with_counters(row: WorkflowRow, moved: Sequence[int | None]) -> WorkflowRow:
    """Return a workflow with what stores keep beside its document when it goes on: the number of steps, of iterations,
    and the time of the change. None stands for what the document says. Raises TypeError for anything else.
    """
    steps, iterations, updated_at_ms = moved
    if steps is None:
        return row
    for number in moved:
        if not isinstance(number, int) or isinstance(number, bool):
            # A SQLite column may hold any type.
            raise TypeError(f"{number!r} is not a whole number")
    return row._replace(steps=steps, iterations=cast(int, iterations), updated_at_ms=cast(int, updated_at_ms))


def encode_history(row: HistoryRow) -> bytes:
    """Return the stored form of a history's row: what stores do not keep beside it."""
    return encode_value([VERSIONS, row.name, row.value, row.step_id, row.dropped])


def decode_history(beside: HistoryRow, content: bytes) -> HistoryRow:
    """Return the row that `encode_history` wrote; `beside` has the other fields. Raises as `decode_step`."""
    row = _decode_list(content)
    check_versions(row[0])
    _, name, value, step_id, dropped = row
    return beside._replace(name=name, value=value, step_id=step_id, dropped=dropped)


def encode_schedule(document: Mapping[str, Value]) -> bytes:
    """Return the stored form of what a schedule says."""
    return encode_value([VERSIONS, document])


def decode_schedule(content: bytes) -> dict[str, Value]:
    """Return what `encode_schedule` wrote. Raises as `decode_step`."""
    row = _decode_list(content)
    check_versions(row[0])
    _, document = row
    if not isinstance(document, dict):
        raise ValueError(f"a schedule is a map, not {document!r:.60}")
    return document
