"""The steps of a run as the file has them, to continue it: complete ones are decoded when someone asks for them."""

from __future__ import annotations

from pathlib import Path

from afl.engine.model.store import StepDocument, StoredStep
from afl.engine.states import StepState
from afl.stores.damaged_rows import damaged
from afl.stores.documents import DAMAGE, PLAIN_NEXT, PLAIN_START, decode_step
from afl.stores.sqlite.connections import Connections, text_of
from afl.stores.sqlite.rows import SELECT_DOCUMENTS_OF, steps_of


def run_of(file: Connections, path: Path, workflow_id: str) -> list[StepDocument | StoredStep]:
    """Return the steps of a workflow. Raises StoreCorrupt, now or when a step is read; see `Store.load_run`."""

    def read(step: StoredStep, state: str | bytes = StepState.STATEMENT_COMPLETE) -> StepDocument:
        try:
            return decode_step(step.id, step.revision, text_of(state), step.content, step.change)
        except DAMAGE as error:
            raise damaged(str(path), "step", step.id, error) from error

    found: list[StepDocument | StoredStep] = []
    complete, start, at = StepState.STATEMENT_COMPLETE, PLAIN_START, len(PLAIN_START)
    for step_id, revision, state, content, change, _ in file.rows(SELECT_DOCUMENTS_OF, (*steps_of(workflow_id), None)):
        # Inlined, as this runs for every row: what is of another release, or no step, is refused here and now.
        stored = StoredStep(step_id if type(step_id) is str else text_of(step_id), revision, content, change, read)
        if (
            state == complete
            and type(content) is bytes
            and content[:at] == start
            and content[at : at + 1] in PLAIN_NEXT
        ):
            found.append(stored)
            continue
        document = read(stored, state)
        if document.workflow_id == workflow_id:
            found.append(document)
    return found
