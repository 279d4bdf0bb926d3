"""A workflow that cannot be continued ends alone, whatever brought it up and whatever happens while it is ended."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from afl.core.clock import Clock
from afl.engine.errors import WorkflowConflict
from afl.engine.model.store import ERROR, PAUSED, Batch, OpenRun, ParkedRecord, StepDocument
from afl.stores.memory.store import MemoryStore
from afl_stream.settings.config import StreamConfig
from afl_stream.wire.messages import StepContinue
from tests.record_headers import headers_of
from tests.worlds.desk import DESK, SECOND, THIRD, Desk
from tests.worlds.stores import OneStore
from tests.worlds.world import embedded

BAD, GOOD = "bad", "good"
FOREVER = 1 << 30


class ShortStore(MemoryStore):
    """A store that runs out of something while the workflow `bad` is read or written."""

    def __init__(self, config: StreamConfig, clock: Clock) -> None:
        super().__init__(prefix=config.prefix, clock=clock)
        self.error: BaseException = MemoryError()
        #: How often its steps cannot be read any more.
        self.unread = 0
        #: Whether what it is answered cannot be written, and how often its end meets another writer.
        self.is_unwritable = False
        self.conflicts = 0

    def load_open(self, workflow_id: str) -> OpenRun | None:
        self._fail_reading(workflow_id)
        return super().load_open(workflow_id)

    def load_steps(self, workflow_id: str, *, newer_than: int = 0, state: str | None = None) -> list[StepDocument]:
        self._fail_reading(workflow_id)
        return super().load_steps(workflow_id, newer_than=newer_than, state=state)

    def _fail_reading(self, workflow_id: str) -> None:
        if workflow_id == BAD and self.unread:
            self.unread -= 1
            raise self.error

    def commit_batch(self, batch: Batch) -> int:
        for change in batch.changes:
            if change.workflow_id == BAD and change.workflow.status == ERROR and self.conflicts:
                self.conflicts -= 1
                raise WorkflowConflict([BAD])
            if change.workflow_id == BAD and change.workflow.status != ERROR and self.is_unwritable:
                raise self.error
        return super().commit_batch(batch)


@pytest.fixture
def desk() -> Desk:
    """Return a desk with the workflows `bad` and `good`, of which its evaluator has nothing in memory."""
    deployment = embedded(None, DESK, stores=OneStore(ShortStore), control_partitions=1)
    first = Desk(deployment)
    first.start(BAD)
    first.start(GOOD)
    deployment.remove(first.evaluator, killed=True)
    return Desk(deployment)


def store_of(desk: Desk) -> ShortStore:
    store = desk.deployment.store
    assert isinstance(store, ShortStore)
    return store


def park_answers(desk: Desk) -> None:
    """Park an answer to a step of each workflow, as if it had come before its step."""
    rows = []
    for number, workflow_id in enumerate((BAD, GOOD)):
        step_id = desk.step(SECOND, workflow_id).id
        value = json.dumps({"step_id": step_id, "result": {"answer": THIRD}}).encode()
        rows.append(ParkedRecord(
            id=f"parked/0/{number}", workflow_id=workflow_id, step_id=step_id, topic="afl.control", partition=0,
            offset=number, key=b"k", value=value, headers=(), parked_at_ms=number, expires_at_ms=1 << 62,
        ))  # fmt: skip
    store_of(desk).commit_batch(Batch(parked=rows))
    desk.deployment.clock.advance(1_000)


def dead_letters_of_control(desk: Desk) -> list[bytes]:
    letters = desk.deployment.dead_letters(desk.deployment.topology.control())
    return [headers_of(letter)["afl.dlq.reason"] for letter in letters]


def assert_that_the_good_one_was_answered(desk: Desk) -> None:
    assert desk.step(SECOND, GOOD).returns == {"answer": THIRD}
    assert store_of(desk).parked() == []


@pytest.mark.parametrize("error", [MemoryError(), RecursionError(), OverflowError()], ids=repr)
def test_a_workflow_that_no_memory_is_left_to_read_for_its_parked_answer_holds_up_no_other(
    desk: Desk, error: BaseException
) -> None:
    park_answers(desk)
    store_of(desk).error, store_of(desk).unread = error, FOREVER

    desk.deployment.settle()

    assert_that_the_good_one_was_answered(desk)
    assert dead_letters_of_control(desk) == [b"NotEvaluable"]
    store_of(desk).unread = 0
    assert desk.deployment.workflow(BAD).status == PAUSED


def test_a_workflow_that_can_be_read_only_to_end_it_ends_for_its_parked_answer(desk: Desk) -> None:
    park_answers(desk)
    # For both answers, for this one alone, and before it is read only to end it.
    store_of(desk).unread = 3

    desk.deployment.settle()

    assert_that_the_good_one_was_answered(desk)
    assert desk.deployment.workflow(BAD).status == ERROR


def test_a_workflow_that_cannot_be_stored_with_its_parked_answer_ends(desk: Desk) -> None:
    store_of(desk).is_unwritable = True

    park_answers(desk)
    desk.deployment.settle()

    assert_that_the_good_one_was_answered(desk)
    assert desk.deployment.workflow(BAD).status == ERROR
    assert dead_letters_of_control(desk) == [b"NotStorable"]


def in_a_record(desk: Desk) -> None:
    for workflow_id in (BAD, GOOD):
        answer = StepContinue(step_id=desk.step(SECOND, workflow_id).id, result={"answer": THIRD})
        desk.deployment.send(answer)


@pytest.mark.parametrize("comes", [in_a_record, park_answers])
def test_another_writer_that_comes_between_while_a_workflow_is_ended_ends_no_evaluator(
    desk: Desk, comes: Callable[[Desk], None]
) -> None:
    store_of(desk).is_unwritable, store_of(desk).conflicts = True, 2

    comes(desk)
    for _ in range(3):
        desk.deployment.clock.advance(1_000)
        desk.deployment.settle()

    assert_that_the_good_one_was_answered(desk)
    assert desk.deployment.workflow(BAD).status == ERROR
    assert dead_letters_of_control(desk) == [b"NotStorable"]
