"""Waits for other writers of a store have an end, and one that comes soon where the process is to end."""

from collections.abc import Sequence
from typing import Any

import pytest

from afl.core.process.stopping import StopFlag
from afl.engine.errors import StoreUnavailable
from afl.engine.model.store import Batch, StepDocument, WorkflowRow
from afl.engine.workflow_cache import read_whole
from afl.stores.memory.store import MemoryStore
from afl.stores.mongo.lock import Deadline
from tests.contract.store_rows import change, step_document, workflow_row


def _stopping() -> StopFlag:
    stop = StopFlag()
    stop.set()
    return stop


def test_a_process_that_is_to_end_waits_for_other_writers_no_longer_than_its_last_wait() -> None:
    Deadline("store", 600, StopFlag(), last_wait_s=0).pause("others write")

    with pytest.raises(StoreUnavailable, match="others write"):
        Deadline("store", 600, _stopping(), last_wait_s=0).pause("others write")
    with pytest.raises(StoreUnavailable, match="others write"):
        Deadline("store", 0, StopFlag()).pause("others write")


class _TornStore(MemoryStore):
    """Shows the steps of a workflow a revision ahead of it, the first times that they are read."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._left = times
        self.commit_batch(Batch(changes=[change(workflow_row("w"), step_document("w:a"))]))

    def load_steps(self, workflow_id: str, *, newer_than: int = 0, state: str | None = None) -> list[StepDocument]:
        found = super().load_steps(workflow_id, newer_than=newer_than, state=state)
        self._left -= 1
        return found if self._left < 0 else [step._replace(revision=step.revision + 1) for step in found]


def _read_torn(times: int, **given: Any) -> tuple[WorkflowRow, Sequence[StepDocument]] | None:
    store = _TornStore(times)
    return read_whole(store, "w", store.load_steps, **given)


def test_a_workflow_is_read_again_until_it_and_its_steps_are_of_one_commit() -> None:
    found = _read_torn(3, stop=StopFlag())

    assert found is not None
    assert [step.revision for step in found[1]] == [found[0].revision]


def test_a_workflow_that_stays_in_parts_is_an_error_that_says_so() -> None:
    with pytest.raises(StoreUnavailable, match=r"of workflow w can't be used: some of its steps have been newer"):
        _read_torn(1_000_000, timeout_s=0, stop=StopFlag())


def test_a_process_that_is_to_end_does_not_wait_long_for_a_workflow_in_parts() -> None:
    with pytest.raises(StoreUnavailable, match="of workflow w"):
        _read_torn(1_000_000, timeout_s=600, stop=_stopping())
