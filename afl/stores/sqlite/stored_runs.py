"""The steps of a run as the file has them, to continue it: complete ones are decoded when someone asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from afl.engine.errors import StoreUnavailable
from afl.engine.model.store import OpenRun, StepDocument, StoredStep
from afl.engine.states import StepState
from afl.engine.types import ObjectType
from afl.engine.versions import VERSIONS
from afl.stores.damaged_rows import damaged
from afl.stores.documents import DAMAGE, PLAIN_NEXT, decode_step
from afl.stores.sqlite.connections import Connections, key_of, text_of
from afl.stores.sqlite.rows import SELECT_DOCUMENTS_OF, steps_of

#: A stored step between its quotes: the versions, the number, the type, the id of the statement, the facet, the
#: container and the block. A quote inside one of them makes other parts, which name no block and no statement.
_PARTS: Final = 13
_VERSIONS: Final = VERSIONS.encode()
#: What stands between container and block in the short form and in the long one.
_NO_CONTAINER_TYPE: Final = frozenset({b",", b",null,"})
#: The steps that have no body, or whose statement says whether they have.
_LEAVABLE: Final = frozenset(
    each.encode()
    for each in (
        ObjectType.VARIABLE_ASSIGNMENT,
        ObjectType.SCHEMA_INSTANTIATION,
        ObjectType.SYS_LOG,
        ObjectType.SYS_ASSERT,
    )
)
#: The steps of a range of keys that are not complete, and behind them one row about those that are: their newest
#: revision, their number and their size. One statement, so both are of the same moment.
_SELECT_OPEN: Final = """
SELECT id, revision, state, document, change FROM step WHERE id >= ?1 AND id < ?2 AND state <> ?3
UNION ALL
SELECT NULL, max(revision), count(*), sum(length(document) + ifnull(length(change), 0)), NULL FROM step
WHERE id >= ?1 AND id < ?2 AND state = ?3
"""
_SELECT_STEP: Final = "SELECT revision, state, document, change FROM step WHERE id = ?"


def open_run_of(file: Connections, path: Path, workflow_id: str) -> OpenRun:
    """Return the steps of a workflow that are not complete. Raises StoreCorrupt; see `Store.load_open`."""

    def read(step_id: str) -> StepDocument:
        rows = file.rows(_SELECT_STEP, (key_of(step_id),))
        if not rows:
            # Who reads it does so again, from what there is then.
            raise StoreUnavailable(
                path=str(path), reason=f"step {step_id} was there when its run was read, and is not now"
            )
        ((revision, state, content, change),) = rows
        return _decoded(path, step_id, revision, state, content, change)

    first, end, _, _ = steps_of(workflow_id)
    *rows, (_, newest, complete, size, _) = file.rows(_SELECT_OPEN, (first, end, StepState.STATEMENT_COMPLETE))
    return OpenRun([_decoded(path, *row) for row in rows], complete, size or 0, newest or 0, read)


def run_of(file: Connections, path: Path, workflow_id: str) -> list[StepDocument | StoredStep]:
    """Return the steps of a workflow. Raises StoreCorrupt, now or when a step is read; see `Store.load_run`."""

    def read(step: StoredStep, state: str | bytes = StepState.STATEMENT_COMPLETE) -> StepDocument:
        return _decoded(path, step.id, step.revision, state, step.content, step.change)

    found: list[StepDocument | StoredStep] = []
    complete = StepState.STATEMENT_COMPLETE
    for step_id, revision, state, content, change, _ in file.rows(SELECT_DOCUMENTS_OF, (*steps_of(workflow_id), None)):
        # Inlined, as this runs for every row: what is of another release, or no step, is refused here and now.
        if state == complete and type(content) is bytes and type(step_id) is str:
            parts = content.split(b'"', 12)
            if (
                len(parts) == _PARTS
                and parts[3] in _LEAVABLE
                and parts[1] == _VERSIONS
                and parts[2][1:2] in PLAIN_NEXT
                and parts[10] in _NO_CONTAINER_TYPE
                and parts[0] == b"["
            ):
                found.append(StoredStep(step_id, revision, content, change, read, parts[5], parts[11]))
                continue
        stored = StoredStep(step_id if type(step_id) is str else text_of(step_id), revision, content, change, read)
        document = read(stored, state)
        if document.workflow_id == workflow_id:
            found.append(document)
    return found


def _decoded(
    path: Path, step_id: str | bytes, revision: int, state: str | bytes, content: bytes, change: bytes | None
) -> StepDocument:
    try:
        return decode_step(text_of(step_id), revision, text_of(state), content, change)
    except DAMAGE as error:
        raise damaged(str(path), "step", step_id, error) from error
