"""Many parked answers delay no workflow, their values stay unread, and expired ones are removed together."""

import json
import time
from collections.abc import Callable, Collection

import pytest

from afl.core.clock import Clock
from afl.engine.errors import WorkflowConflict
from afl.engine.model.store import Batch, ParkedRecord, WorkflowChange
from afl.stores.memory.store import MemoryStore
from afl_stream.errors import SchemaUnavailable
from afl_stream.evaluator.parked.parked_answers import ParkedAnswers
from afl_stream.evaluator.unit_of_work import UnitOfWork
from afl_stream.settings.config import EvaluatorSettings, StreamConfig
from afl_stream.wire.messages import StepContinue
from tests.record_headers import headers_of
from tests.worlds.deployment import START_MS
from tests.worlds.desk import DESK, FIRST, SECOND, THIRD, Desk, ask_again, step_id_of
from tests.worlds.stores import OneStore
from tests.worlds.world import embedded

OTHERS = 10_050
ROOM = EvaluatorSettings(max_parked_per_workflow=2 * OTHERS, parked_answer_expiry_ms=60_000)


class CountingStore(MemoryStore):
    """A store that notes whose values are read, and what happens elsewhere meanwhile."""

    def __init__(self, config: StreamConfig, clock: Clock) -> None:
        super().__init__(prefix=config.prefix, clock=clock)
        self.values_read: list[str] = []
        #: How often another writer comes first where answers are parked.
        self.conflicts = 0
        #: Happens once, before values are read.
        self.meanwhile: Callable[[], None] = lambda: None

    def commit_batch(self, batch: Batch) -> int:
        if batch.parked and self.conflicts:
            self.conflicts -= 1
            raise WorkflowConflict([record.workflow_id for record in batch.parked])
        return super().commit_batch(batch)

    def parked(
        self,
        *,
        ids: Collection[str] | None = None,
        step_id: str | None = None,
        workflow_id: str | None = None,
        limit: int = 1_000,
    ) -> list[ParkedRecord]:
        happens, self.meanwhile = self.meanwhile, lambda: None
        happens()
        found = super().parked(ids=ids, step_id=step_id, workflow_id=workflow_id, limit=limit)
        self.values_read += [record.id for record in found]
        return found


def desk_that_counts(evaluator: EvaluatorSettings | None = None) -> tuple[Desk, CountingStore]:
    """Return a desk whose parties share a store that counts."""
    settings = evaluator or EvaluatorSettings()
    stores = OneStore(CountingStore)
    desk = Desk(embedded(None, DESK, stores=stores, evaluator=settings, control_partitions=1))
    store = desk.deployment.store
    assert isinstance(store, CountingStore)
    return desk, store


def answer(step_id: str, number: int, *, expires_at_ms: int = 2**62, **entries: object) -> ParkedRecord:
    value = json.dumps({"step_id": step_id, "result": {"answer": THIRD}, **entries}).encode()
    return ParkedRecord(
        id=f"parked/0/{number}", workflow_id=step_id.partition(":")[0], step_id=step_id, topic="afl.control",
        partition=0, offset=number, key=b"k", value=value, headers=(), parked_at_ms=number, expires_at_ms=expires_at_ms,
    )  # fmt: skip


def for_runs_that_never_start(desk: Desk) -> list[ParkedRecord]:
    return [answer(f"stray-{number}:ab", number) for number in range(OTHERS)]


def for_steps_that_the_run_never_has(desk: Desk) -> list[ParkedRecord]:
    return [answer(f"wf-1:{number:x}", number) for number in range(OTHERS)]


def for_attempts_that_never_come(desk: Desk) -> list[ParkedRecord]:
    step_id = desk.step(SECOND).id
    return [answer(step_id, number, attempt=99) for number in range(OTHERS)]


def for_attempts_of_many_runs_that_never_come(desk: Desk) -> list[ParkedRecord]:
    step_ids = [desk.step(FIRST, desk.start(f"other-{number}")).id for number in range(30)]
    return [answer(step_ids[number % 30], number, attempt=99) for number in range(OTHERS)]


@pytest.mark.parametrize(
    "others",
    [
        for_runs_that_never_start,
        for_steps_that_the_run_never_has,
        for_attempts_that_never_come,
        for_attempts_of_many_runs_that_never_come,
    ],
)
def test_an_early_answer_behind_ten_thousand_others_is_judged_within_a_second(
    others: Callable[[Desk], list[ParkedRecord]],
) -> None:
    desk = Desk(embedded(None, DESK, evaluator=ROOM, control_partitions=1))
    deployment = desk.deployment
    desk.start()
    deployment.store.commit_batch(Batch(parked=others(desk)))
    desk.answer(step_id_of(THIRD, "wf-1"), "known before it was asked")
    assert len(deployment.store.parked(limit=2 * OTHERS)) == OTHERS + 1

    desk.answer(desk.step(FIRST).id, THIRD)
    asked_ms, asked_s = deployment.clock.now_ms(), time.monotonic()
    while desk.step(THIRD).returns != {"answer": "known before it was asked"}:
        deployment.round()
        assert deployment.clock.now_ms() - asked_ms <= 1_000
    # Generous, for machines that are busy.
    assert time.monotonic() - asked_s < 5


def test_values_are_read_only_of_answers_whose_step_is_there() -> None:
    desk, store = desk_that_counts(ROOM)
    desk.start()
    rows = [*for_steps_that_the_run_never_has(desk), answer(desk.step(SECOND).id, OTHERS)]
    store.commit_batch(Batch(parked=rows))
    desk.deployment.clock.advance(1_000)
    desk.deployment.settle()

    assert store.values_read == [f"parked/0/{OTHERS}"]
    assert desk.step(SECOND).returns == {"answer": THIRD}


def test_an_answer_to_a_later_attempt_is_read_once_until_its_step_changes() -> None:
    desk, store = desk_that_counts()
    desk.start()
    store.commit_batch(Batch(parked=[answer(desk.step(SECOND).id, 1, attempt=2)]))
    for _ in range(3):
        desk.deployment.clock.advance(1_000)
        desk.deployment.settle()
    # The run changes, the step does not.
    desk.answer(desk.step(FIRST).id, THIRD)
    desk.deployment.clock.advance(1_000)
    desk.deployment.settle()
    assert store.values_read == ["parked/0/1"]

    ask_again(desk.deployment, desk.step(SECOND))
    desk.deployment.clock.advance(1_000)
    desk.deployment.settle()
    assert desk.step(SECOND).returns == {"answer": THIRD}
    assert store.values_read == ["parked/0/1"] * 2


def test_answers_whose_time_is_over_go_together_whatever_runs_they_are_for() -> None:
    desk = Desk(embedded(None, DESK, evaluator=ROOM, control_partitions=1))
    count = 400
    expired = [answer(f"stray-{number}:ab", number, expires_at_ms=START_MS) for number in range(count)]
    desk.deployment.store.commit_batch(Batch(parked=[*expired, answer("later:ab", count)]))
    before = desk.evaluator.stats.batches

    desk.deployment.clock.advance(1_000)
    desk.deployment.round()

    letters = desk.deployment.dead_letters(desk.deployment.topology.control())
    assert {headers_of(letter)["afl.dlq.reason"] for letter in letters} == {b"AnswerExpired"}
    assert len(letters) == count
    assert desk.evaluator.stats.batches == before + 1
    assert [record.id for record in desk.deployment.store.parked()] == [f"parked/0/{count}"]


def test_a_run_that_starts_while_its_answer_expires_gets_it() -> None:
    desk, store = desk_that_counts(ROOM)
    twin, other = desk_that_counts()
    twin.start()
    answers = [answer(f"stray-{number}:ab", number, expires_at_ms=START_MS) for number in range(3)]
    answers.append(answer(twin.step(SECOND).id, 3, expires_at_ms=START_MS))
    store.commit_batch(Batch(parked=answers))

    def start_elsewhere() -> None:
        row = twin.deployment.workflow("wf-1")
        steps = [step._replace(revision=1) for step in twin.deployment.steps("wf-1")]
        change = WorkflowChange(row._replace(revision=1), 0, steps)
        program = other.load_program(row.program)
        assert program is not None
        store.commit_batch(Batch(changes=[change], programs={row.program: program}))

    store.meanwhile = start_elsewhere
    desk.deployment.clock.advance(1_000)
    desk.deployment.settle()

    assert desk.step(SECOND).returns == {"answer": THIRD}
    assert len(desk.deployment.dead_letters(desk.deployment.topology.control())) == 3
    assert store.parked() == []


def test_a_batch_that_is_computed_again_takes_room_for_its_early_answers_once() -> None:
    desk, store = desk_that_counts(EvaluatorSettings(max_parked_answers=4))
    # Each alone, after the attempts at all of them.
    store.conflicts = 3
    for number in range(3):
        desk.deployment.send(StepContinue(step_id=f"early-{number}:ab", result={"answer": THIRD}))
    desk.deployment.settle()
    assert store.conflicts == 0

    desk.send(StepContinue(step_id="early-3:ab", result={"answer": THIRD}))
    assert len(store.parked()) == 4
    desk.send(StepContinue(step_id="early-4:ab", result={"answer": THIRD}))

    (letter,) = desk.deployment.dead_letters(desk.deployment.topology.control())
    assert headers_of(letter)["afl.dlq.reason"] == b"TooManyParked"


class SlowSchemas:
    """Judges the parked answers of a desk's workflows, where the schemas of some are away and each look takes 0.1 s."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.away: set[str] = set()
        #: The workflows of each commit that was tried.
        self.tried: list[set[str]] = []
        self._now_s = 0.0
        deployment = desk.evaluator.service.loop._context
        self.answers = ParkedAnswers(deployment, self._commit, monotonic_s=lambda: self._now_s)

    def _commit(self, unit: UnitOfWork) -> None:
        self._now_s += 0.1
        held = self._desk.deployment.store.parked(ids=unit.batch.unparked)
        self.tried.append({record.workflow_id for record in held})
        if self.tried[-1] & self.away:
            raise SchemaUnavailable("the schema of an answer", "it is away")
        self._desk.deployment.store.commit_batch(unit.finish())
        unit.keep()

    def turn(self) -> list[set[str]]:
        """Take a turn, and return the workflows of each of its commits."""
        self.tried = []
        self.answers.turn(self._desk.deployment.clock.now_ms())
        return self.tried


def test_many_answers_whose_schemas_are_away_take_no_more_than_a_turn_and_each_is_tried_in_turn() -> None:
    desk = Desk(embedded(None, DESK, control_partitions=1))
    names = [desk.start(f"away-{number}") for number in range(10)]
    steps = [desk.step(SECOND, name).id for name in names]
    good = desk.step(SECOND, desk.start("good")).id
    schemas = SlowSchemas(desk)
    schemas.away.update(names)
    desk.deployment.store.commit_batch(Batch(parked=[answer(step_id, n) for n, step_id in enumerate(steps)]))

    tried: set[str] = set()
    for _ in range(10):
        commits = schemas.turn()
        assert len(commits) <= 4
        tried.update(*(names for names in commits if len(names) == 1))
    assert tried == set(names)

    # What comes behind them is judged before them.
    desk.deployment.store.commit_batch(Batch(parked=[answer(good, 99)]))
    assert schemas.turn()[0] == {"good"}
    schemas.away.clear()
    schemas.turn()
    assert desk.deployment.store.parked() == []
