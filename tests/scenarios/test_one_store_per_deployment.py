"""A deployment has one store: another one, an empty one or a copy is refused by name, and nothing is read with it."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from afl.engine.model.store import COMPLETED
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from afl.stores.sqlite.store import SqliteStore
from afl_stream.client.client import Client
from afl_stream.embedded.transport import Crash, EmbeddedTransport, Faults
from afl_stream.evaluator.deployment_store import CLAIM_INTERVAL_S, WrongStore
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.programs.definitions import UnknownProgram
from afl_stream.transport import WrongCluster
from afl_stream.wire.messages import STORE_KEY, StoreClaim
from tests.worlds.deployment import Deployment
from tests.worlds.desk import ASK, DESK, FIRST, REPORT, Desk
from tests.worlds.parties import Interruptions
from tests.worlds.world import embedded

CLAIM_POINTS = ("claim.judged", "claim.marked", "claim.published")


class Rival:
    """An evaluator of the same deployment that was started in another folder, with the store that it finds there."""

    def __init__(
        self, deployment: Deployment, store: EngineStore, *, new_store: bool = False, faults: Faults | None = None
    ) -> None:
        self.now_s = 0.0
        self.deployment, self.store = deployment, store
        self.transport = EmbeddedTransport(deployment.broker)
        self.service = EvaluatorService(
            deployment.config,
            self.transport,
            store,
            clock=deployment.clock,
            probe=(faults or Faults()).probe,
            monotonic_s=lambda: self.now_s,
            new_store=new_store,
        )

    def turn(self) -> int:
        return self.service.loop.run_once(0.0)

    def settle(self) -> None:
        """Turn until there is nothing to do, together with the deployment's own evaluators."""
        quiet = 0
        while quiet < 3:
            moved = self.turn() + self.deployment.round()
            quiet = 0 if moved or not self.service.loop.is_idle() else quiet + 1

    def leave(self) -> None:
        self.service.close()
        self.transport.close()


def deployment_in(folder: Path) -> Deployment:
    folder.mkdir()
    return embedded(folder, DESK)


def finished(deployment: Deployment) -> Desk:
    """Return a deployment that has run a workflow to its end."""
    desk = Desk(deployment)
    desk.start()
    desk.finish()
    assert deployment.workflow("wf-1").status == COMPLETED
    return desk


def store_in(folder: Path, deployment: Deployment) -> SqliteStore:
    folder.mkdir(exist_ok=True)
    return SqliteStore(folder / "store.sqlite3", prefix=deployment.config.prefix, clock=deployment.clock)


def copy_of(deployment: Deployment, folder: Path) -> SqliteStore:
    """Return the store's file as it is now, copied to another folder while it is closed."""
    folder.mkdir()
    shutil.copy(deployment.config.store_path, folder / "store.sqlite3")
    return store_in(folder, deployment)


def claims(deployment: Deployment) -> list[StoreClaim]:
    messages = deployment.messages(deployment.topology.definitions())
    return [message for message in messages if isinstance(message, StoreClaim)]


def refusal(start: Callable[[], object]) -> str:
    with pytest.raises(WrongStore) as caught:
        start()
    return str(caught.value)


def test_an_empty_store_beside_the_deployments_own_is_refused_by_name_and_asks_nothing_again(tmp_path: Path) -> None:
    deployment = deployment_in(tmp_path / "one")
    finished(deployment)
    asked = deployment.records(deployment.topology.facet(ASK))
    empty = store_in(tmp_path / "two", deployment)

    text = refusal(lambda: Rival(deployment, empty))

    assert deployment.store.identity().id in text
    assert f"at {deployment.store.location()}, last seen 2023-11-14 22:13:20 UTC" in text
    assert empty.identity().id in text
    assert str(tmp_path / "two" / "store.sqlite3") in text
    assert "--new-store" in text
    assert empty.positions() == {}
    assert deployment.records(deployment.topology.facet(ASK)) == asked


def test_it_is_refused_while_nobody_else_runs_too(tmp_path: Path) -> None:
    deployment = deployment_in(tmp_path / "one")
    desk = finished(deployment)
    deployment.remove(desk.evaluator, killed=False)

    assert "last seen" in refusal(lambda: Rival(deployment, store_in(tmp_path / "two", deployment)))


def test_an_empty_store_is_refused_by_the_groups_offsets_where_no_claim_is_left() -> None:
    deployment = embedded(None, DESK)
    desk = finished(deployment)
    deployment.remove(desk.evaluator, killed=False)
    # What an older release has left: offsets, and no claim.
    deployment.recreate(deployment.topology.definitions())

    text = refusal(lambda: Rival(deployment, MemoryStore(clock=deployment.clock)))

    assert "group afl.evaluator has committed offsets (afl.commands[" in text
    assert "it is empty" in text
    Rival(deployment, deployment.store).leave()


def test_two_evaluators_on_one_store_are_as_before(tmp_path: Path) -> None:
    deployment = embedded(tmp_path, DESK)
    desk = Desk(deployment)
    second = deployment.evaluator()
    desk.start()
    desk.finish()
    deployment.settle_among_all()

    assert deployment.workflow("wf-1").status == COMPLETED
    assert second.partitions()
    assert {claim.store for claim in claims(deployment)} == {deployment.store.identity().id}


def test_new_store_takes_the_deployment_over_and_the_other_evaluator_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = deployment_in(tmp_path / "one")
    desk = finished(deployment)
    other = store_in(tmp_path / "two", deployment)

    rival = Rival(deployment, other, new_store=True)

    reported = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [line for line in reported if "gets a new store" in line and "the 4 records" in line]
    lost = refusal(deployment.settle)
    assert str(tmp_path / "two" / "store.sqlite3") in lost
    assert "claimed since" in lost
    deployment.remove(desk.evaluator, killed=True)
    rival.settle()
    assert other.load_workflow("wf-1") is not None
    refusal(deployment.evaluator)


def test_new_store_changes_nothing_where_the_store_is_the_right_one(tmp_path: Path) -> None:
    deployment = embedded(tmp_path, DESK)
    desk = finished(deployment)
    before = deployment.store.identity().id
    deployment.remove(desk.evaluator, killed=False)

    Rival(deployment, deployment.store, new_store=True).settle()

    assert deployment.store.identity().id == before


def test_a_copy_of_the_store_is_refused_once_its_original_has_worked_on(tmp_path: Path) -> None:
    deployment = deployment_in(tmp_path / "one")
    desk = Desk(deployment)
    desk.start()
    deployment.crash()
    copy = copy_of(deployment, tmp_path / "two")
    deployment.restart()
    desk = Desk(deployment)
    desk.finish()

    text = refusal(lambda: Rival(deployment, copy))

    assert "this is a copy of it, or an older state" in text
    assert deployment.store.location() in text
    assert copy.location() in text


@pytest.mark.parametrize(
    ("records", "then"),
    [
        (0, "group g then reads nothing again: this store has read all that the topics hold"),
        (1, "group g then reads the 1 record that this store has not read, and handlers do again the work of it"),
        (2500, "then reads the 2,500 records that this store has not read, and handlers do again the work of them"),
    ],
)  # fmt: skip
def test_the_refusal_says_how_many_records_a_new_store_would_read(records: int, then: str) -> None:
    assert str(WrongStore("they have another", "g", records)).endswith(then)


def test_new_store_has_a_copy_continue_from_its_own_positions_under_an_id_of_its_own(tmp_path: Path) -> None:
    deployment = deployment_in(tmp_path / "one")
    desk = Desk(deployment)
    desk.start()
    deployment.crash()
    copy = copy_of(deployment, tmp_path / "two")
    deployment.restart()
    Desk(deployment).finish()
    assert "the 3 records that this store has not read" in refusal(lambda: Rival(deployment, copy))

    rival = Rival(deployment, copy, new_store=True)

    assert copy.identity().id != deployment.store.identity().id
    assert "claimed since" in refusal(deployment.settle)
    deployment.remove(deployment.evaluators[0], killed=True)
    rival.settle()
    row = copy.load_workflow("wf-1")
    assert row is not None
    assert row.status == COMPLETED


def test_a_copy_of_the_store_is_refused_once_its_original_has_lived_on_without_work(tmp_path: Path) -> None:
    deployment = deployment_in(tmp_path / "one")
    finished(deployment)
    deployment.crash()
    copy = copy_of(deployment, tmp_path / "two")
    deployment.restart()
    deployment.evaluator()

    assert "this is a copy of it" in refusal(lambda: Rival(deployment, copy))


def test_of_an_original_and_a_fresh_copy_one_ends_as_soon_as_both_run(tmp_path: Path) -> None:
    deployment = deployment_in(tmp_path / "one")
    finished(deployment)
    deployment.crash()
    copy = copy_of(deployment, tmp_path / "two")
    deployment.restart()
    # Nothing has happened since the copy: it is as good as the original.
    rival = Rival(deployment, copy)

    assert "this is a copy of it" in refusal(deployment.evaluator)
    rival.settle()


def test_a_running_evaluator_sees_that_a_copy_was_claimed_when_the_copy_joins(tmp_path: Path) -> None:
    deployment = deployment_in(tmp_path / "one")
    finished(deployment)
    folder = tmp_path / "two"
    folder.mkdir()
    with deployment.store._file.writing() as db:  # type: ignore[attr-defined]  # a copy beside the running evaluator
        db.execute("SELECT 1")
        for name in deployment.config.data_dir.glob("store.sqlite3*"):
            shutil.copy(name, folder / name.name)
    Rival(deployment, store_in(folder, deployment))

    assert "a copy of it was claimed since" in refusal(deployment.settle)


def test_a_store_that_was_moved_continues_where_it_is_now(tmp_path: Path) -> None:
    deployment = deployment_in(tmp_path / "one")
    desk = Desk(deployment)
    desk.start()
    deployment.crash()
    moved = copy_of(deployment, tmp_path / "two")
    deployment.config.store_path.unlink()
    deployment.restart()

    rival = Rival(deployment, moved)
    rival.settle()

    assert moved.load_workflow("wf-1") is not None
    assert claims(deployment)[-1].location == moved.location()


@pytest.mark.parametrize("claimed_since", [True, False])
def test_a_store_put_back_in_its_place_continues_and_says_that_it_is_older(
    claimed_since: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = deployment_in(tmp_path / "one")
    desk = Desk(deployment)
    desk.start()
    with (
        closing(sqlite3.connect(deployment.config.store_path)) as source,
        closing(sqlite3.connect(tmp_path / "backup")) as copy,
    ):
        source.backup(copy)
    if claimed_since:
        deployment.crash()
        deployment.restart()
        desk = Desk(deployment)
    desk.finish()
    deployment.crash()
    for file in deployment.config.data_dir.glob("store.sqlite3*"):
        file.unlink()
    shutil.copy(tmp_path / "backup", deployment.config.store_path)
    deployment.restart()

    deployment.evaluator()
    deployment.settle()

    assert "it was restored from a copy" in caplog.text
    assert deployment.workflow("wf-1").status == COMPLETED


def test_of_two_stores_that_are_claimed_at_once_one_loses(tmp_path: Path) -> None:
    deployment = embedded(None, DESK)
    together = threading.Barrier(2)
    outcomes: dict[int, object] = {}

    class Together(Faults):
        def probe(self, point: str) -> None:
            # Both have seen that the deployment has no claim.
            if point == "claim.judged":
                together.wait(30)

    def start(number: int) -> None:
        try:
            outcomes[number] = Rival(deployment, MemoryStore(clock=deployment.clock), faults=Together())
        except WrongStore as error:
            outcomes[number] = error

    threads = [threading.Thread(target=start, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(type(outcome).__name__ for outcome in outcomes.values()) == ["Rival", "WrongStore"]
    (winner,) = [outcome for outcome in outcomes.values() if isinstance(outcome, Rival)]
    # What compaction leaves is the winner's.
    winner.settle()
    assert claims(deployment)[-1].store == winner.store.identity().id


def test_a_claim_that_came_too_late_is_written_over(tmp_path: Path) -> None:
    deployment = embedded(None, DESK)
    Desk(deployment)
    first = claims(deployment)[0]
    late = StoreClaim(store="other", mark="m", number=first.number, location="l", host="h", at=1)
    value = deployment.codec.encode(late, deployment.topology.definitions())
    deployment.put(deployment.topology.definitions(), value, key=STORE_KEY.encode())

    Rival(deployment, deployment.store)

    assert claims(deployment)[-1].store == deployment.store.identity().id


@pytest.mark.parametrize("number", [2**63 - 1, 2**53 + 1, 0, -(2**63)])
def test_a_claim_with_a_number_that_nobody_counts_up_to_shuts_nobody_out(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = embedded(None, DESK)
    desk = Desk(deployment)
    running = Rival(deployment, deployment.store)
    put_claim(deployment, number)

    Rival(deployment, deployment.store).leave()
    running.now_s += CLAIM_INTERVAL_S
    running.settle()
    running.leave()
    desk.start()
    desk.finish()

    assert deployment.workflow("wf-1").status == COMPLETED
    # Compaction leaves the last claim.
    assert claims(deployment)[-1].store == deployment.store.identity().id
    assert f"the claim of a store has the number {number}, which is not among 1 to {2**53}" in caplog.text


def test_a_claim_with_the_highest_number_leaves_a_way_back() -> None:
    deployment = embedded(None, DESK)
    Desk(deployment)
    put_claim(deployment, 2**53)

    with pytest.raises(WrongStore, match="have store strange at l"):
        Rival(deployment, deployment.store)
    rival = Rival(deployment, deployment.store, new_store=True)
    assert claims(deployment)[-1].store == deployment.store.identity().id
    another = Rival(deployment, MemoryStore(clock=deployment.clock), new_store=True)
    rival.now_s += CLAIM_INTERVAL_S
    with pytest.raises(WrongStore, match=another.store.identity().id):
        rival.turn()
    another.leave()
    with pytest.raises(WrongStore, match=another.store.identity().id):
        Rival(deployment, deployment.store)


def put_claim(deployment: Deployment, number: int) -> None:
    """Put a claim that no evaluator has written."""
    claim = StoreClaim(store="strange", mark="m", number=number, location="l", host="h", at=1)
    topic = deployment.topology.definitions()
    deployment.put(topic, deployment.codec.encode(claim, topic), key=STORE_KEY.encode())


def test_an_evaluator_says_now_and_then_which_store_it_has(tmp_path: Path) -> None:
    deployment = embedded(None, DESK)
    rival = Rival(deployment, deployment.store)
    rival.settle()
    before = len(claims(deployment))

    rival.now_s += CLAIM_INTERVAL_S
    rival.settle()
    rival.settle()

    assert len(claims(deployment)) == before + 1


def test_a_store_of_another_cluster_claims_nothing(tmp_path: Path) -> None:
    deployment, elsewhere = deployment_in(tmp_path / "one"), deployment_in(tmp_path / "two")
    finished(deployment)

    with pytest.raises(WrongCluster):
        Rival(elsewhere, deployment.store)

    assert claims(elsewhere) == []


@pytest.mark.parametrize("point", CLAIM_POINTS)
def test_a_crash_while_the_deployment_is_claimed_leaves_it_to_the_next(point: str, tmp_path: Path) -> None:
    deployment, faults = embedded(tmp_path, DESK), Interruptions()
    faults.fail_at(point)

    with pytest.raises(Crash):
        deployment.evaluator(faults)
    deployment.crash_and_restart()
    desk = finished(deployment)

    assert desk.evaluator.partitions()
    assert claims(deployment)[-1].store == deployment.store.identity().id


def test_definitions_that_are_gone_are_published_again_from_the_store(tmp_path: Path) -> None:
    deployment = embedded(tmp_path, DESK)
    desk = finished(deployment)
    deployment.remove(desk.evaluator, killed=False)
    deployment.recreate(deployment.topology.definitions())
    client = Client(deployment.config, deployment.transport)
    with pytest.raises(UnknownProgram):
        client.start(REPORT, {"subject": FIRST}, workflow_id="wf-2")

    deployment.evaluator()
    client.start(REPORT, {"subject": FIRST}, workflow_id="wf-2")
    deployment.settle()

    assert deployment.store.load_workflow("wf-2") is not None
