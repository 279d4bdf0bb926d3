"""The stored form of steps, workflows and values: bytes that are the same in every durable store."""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast

from afl.core.row_maker import row_maker
from afl.engine.model.store import ErrorRecord, HistoryRow, RetryRecord, StepDocument, WorkflowRow
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
#: The last fields, which are left out where they are None: the deadline, then the retry.
_DEADLINE_AT: Final = StepDocument._fields.index("deadline_ms")
_RETRY_AT: Final = StepDocument._fields.index("retry")
_IDS_AT: Final = tuple(StepDocument._fields.index(name) - 2 for name in ("container_id", "block_id", "root_id"))


def _other_kinds(value: object) -> object:
    """Return a plain form of a value that JSON lacks, for the encoder. Raises TypeError when there is none."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a value of type {type(value).__name__} can't be stored: {value!r:.100}")


def make_encoder(other_kinds: Callable[[object], object]) -> Callable[[object], str]:
    """Return a function from a value to compact JSON text. `other_kinds` gives plain forms of what JSON lacks."""
    public = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False, default=other_kinds)
    compiled = getattr(json.encoder, "c_make_encoder", None)
    quote = getattr(json.encoder, "c_encode_basestring", None)
    if compiled is None or quote is None:
        return public.encode
    # JSONEncoder.encode builds this object again for each call, which costs a third of encoding a step.
    chunks = compiled(None, other_kinds, quote, None, ":", ",", False, False, True)
    return lambda value: "".join(chunks(value, 0))


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

    It is a JSON list: the versions in the place of the id, then the fields of a StepDocument in their order. The
    deadline and the retry, which are the last, are left out when there are none. Most ids start with the id of the
    workflow, which is left out: null for the workflow of a step whose id names it, ":..." for container, block and
    root. A workflow id in the list means that nothing was left out.
    """
    # Most steps are plain, and are joined from their parts, which saves a tenth of the time.
    return _encode_plain_step(document) or _encode_any_step(document)


def _encode_plain_step(document: StepDocument) -> bytes | None:
    """Return the result of `_encode_any_step`; None for a step with rare fields."""
    (
        step_id, workflow_id, number, _, object_type, _, statement_id, facet_name, container_id, container_type,
        block_id, root_id, params, returns, attempt, event_state, error, index, variable, value, created_at_ms,
        deadline_ms, retry,
    ) = document  # fmt: skip
    if not (error is None and index is None and variable is None and value is None and deadline_ms is None):
        return None
    if retry is not None:
        return None
    # Only for a step inside a block. The root, one step of many, and steps saved by hand take the slow path.
    if not (container_id and block_id and root_id and statement_id) or step_id.partition(":")[0] != workflow_id:
        return None
    start = f"{workflow_id}:"
    if not (container_id.startswith(start) and block_id.startswith(start) and root_id.startswith(start)):
        return None
    keep = len(workflow_id)
    kind = "null" if container_type is None else _quote(container_type)
    return to_bytes(
        f'["{VERSIONS}",null,{number},{_quote(object_type)},{_quote(statement_id)},{_quote(facet_name)},'
        f"{_quote(container_id[keep:])},{kind},{_quote(block_id[keep:])},{_quote(root_id[keep:])},"
        f"{_encode_values(params)},{_encode_values(returns)},"
        f"{attempt},{_quote(event_state)},null,null,null,null,{created_at_ms}]"
    )


def _encode_values(values: Mapping[str, Value]) -> str:
    fields = []
    for name, value in values.items():
        kind = type(value)
        if kind is str:
            fields.append(f"{_quote(name)}:{_quote(cast(str, value))}")
        elif kind is int:
            fields.append(f"{_quote(name)}:{value}")
        else:
            return _encode_text(values)
    return f"{{{','.join(fields)}}}"


def _encode_any_step(document: StepDocument) -> bytes:
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


def decode_step(step_id: str, revision: int, state: str, content: bytes) -> StepDocument:
    """Return the step that `encode_step` wrote.

    Raises VersionMismatchError for a step of a newer runtime, and an error of DAMAGE for bytes that are not a step.
    """
    row = _decode_list(content)
    if row[0] != VERSIONS:
        check_versions(row[0])
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
    return _stored_step(fields)


class _WorkflowContent(NamedTuple):
    """The content of a workflow's document without the columns that stores keep beside it, and without its inputs."""

    versions: str
    program: str
    outputs: Mapping[str, Value] | None
    error: ErrorRecord | None
    #: The number, and where one of them is not 0 a list of it, the executions before and the pending events: as many
    #: entries as ever, so that releases that do not know them come to the versions, and refuse by those.
    execution: int | list[int]
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
        row.runner_id,
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
        runner_id=held.runner_id,
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
    )


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
