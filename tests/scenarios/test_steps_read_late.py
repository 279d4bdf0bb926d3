"""An evaluator continues runs without their complete steps, and reads some late, also where the store is away."""

from __future__ import annotations

import pytest

from afl.core.clock import Clock
from afl.engine.errors import StoreUnavailable
from afl.engine.model.store import COMPLETED, OpenRun, StepDocument, StoredStep
from afl.stores.memory.store import MemoryStore
from afl_stream.settings.config import EvaluatorSettings, StreamConfig
from tests.worlds.desk import DESK, FIRST, SECOND, THIRD, Desk
from tests.worlds.stores import OneStore
from tests.worlds.world import embedded


class _AwayStore(MemoryStore):
    """Can be out of reach for steps that are read late, and keeps the ids of those that were read so."""

    is_away = False

    def __init__(self, prefix: str, clock: Clock) -> None:
        super().__init__(prefix=prefix, clock=clock)
        self.read_late: list[str] = []
        self.whole_runs = 0

    def load_run(self, workflow_id: str) -> list[StepDocument | StoredStep]:
        self.whole_runs += 1
        return super().load_run(workflow_id)

    def load_open(self, workflow_id: str) -> OpenRun | None:
        found = super().load_open(workflow_id)
        assert found is not None

        def read(step_id: str) -> StepDocument:
            if self.is_away:
                raise StoreUnavailable(path="of this test", reason="it is away")
            self.read_late.append(step_id)
            return found.read(step_id)

        return found._replace(read=read)


def test_an_evaluator_that_cannot_read_a_step_ends_and_the_next_one_completes_its_run() -> None:
    stores: list[_AwayStore] = []

    def make(config: StreamConfig, clock: Clock) -> _AwayStore:
        stores.append(_AwayStore(config.prefix, clock))
        return stores[-1]

    deployment = embedded(None, DESK, stores=OneStore(make), evaluator=EvaluatorSettings(hot_steps=0))
    desk = Desk(deployment)
    desk.start()
    for question, answer in ((FIRST, THIRD), (SECOND, "yes")):
        desk.answer(desk.step(question).id, answer)
    (store,) = stores
    assert (store.read_late, store.whole_runs) == ([], 0), "nobody has asked for a complete step"
    store.is_away = True

    # The yield reads the first two answers.
    with pytest.raises(StoreUnavailable, match="store of this test can't be used: it is away"):
        desk.answer(desk.step(THIRD).id, "no")
    store.is_away = False
    deployment.remove(desk.evaluator, killed=True)
    deployment.evaluator()
    deployment.settle()

    row = deployment.workflow("wf-1")
    assert (row.status, row.outputs) == (COMPLETED, {"answers": [THIRD, "yes", "no"]})
    assert sorted(store.read_late) == sorted([desk.step(FIRST).id, desk.step(SECOND).id])
    deployment.close()
