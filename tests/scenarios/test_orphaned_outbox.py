"""Records whose writer died between commit and publishing: another evaluator publishes them in time, once."""

from afl.engine.model.store import COMPLETED
from afl_stream.embedded.transport import Crash, Faults
from afl_stream.settings.config import EvaluatorSettings
from afl_stream.wire.messages import StepContinue
from tests.eventually import eventually
from tests.worlds.chain import CHAIN, LINKS, start_chain
from tests.worlds.deployment import Deployment, unique_ids
from tests.worlds.desk import ASK, DESK, FIRST, REPORT, THIRD, Desk
from tests.worlds.parties import Evaluator, Interruptions
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED_DURABLE, EMBEDDED_EVERY_STORE, EVERYWHERE, in_worlds

WORLDS = EVERYWHERE


def run_until_it_crashes(evaluator: Evaluator) -> None:
    """Run turns until one crashes: how many that takes is the broker's matter."""

    def crashes() -> bool:
        try:
            evaluator.turn()
        except Crash:
            return True
        return False

    eventually(crashes, interval_s=0)


def two_evaluators(deployment: Deployment) -> tuple[Evaluator, Evaluator]:
    """Return the owners of control partition 0 and of partition 1."""
    for _ in range(2):
        deployment.evaluator(Interruptions())
    deployment.settle_among_all()
    first, second = sorted(deployment.evaluators, key=lambda evaluator: min(evaluator.partitions()))
    assert (first.partitions(), second.partitions()) == ({0}, {1})
    return first, second


def test_the_next_owner_publishes_what_a_dead_writer_left_before_it_reads(world: World) -> None:
    deployment, faults = world.deployment(DESK), Faults()
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1")
    faults.fail_at("control.persisted")
    writer = deployment.evaluator(faults)
    run_until_it_crashes(writer)
    deployment.remove(writer, killed=True)
    assert deployment.events(ASK) == []
    assert {row.record.lane.partition("/")[0] for row in deployment.store.outbox()} == {"control"}

    asked_before_reading: list[int] = []
    interruptions = Interruptions()
    interruptions.happens_at(
        "control.lanes_published", lambda: asked_before_reading.append(len(deployment.events(ASK)))
    )
    interruptions.fail_at("control.positions_read")
    successor = deployment.evaluator(interruptions)
    run_until_it_crashes(successor)

    assert asked_before_reading == [2]
    assert interruptions.reached("control.read") == 0
    assert deployment.store.outbox() == []


def leave_in_a_lane_of_its_own(deployment: Deployment) -> str:
    """Answer a workflow of partition 0 in partition 1, whose evaluator dies after the commit; return its id.

    The record that asks its third question is left in the lane of that writer.
    """
    owner, stranger = two_evaluators(deployment)
    workflow_id = deployment.id_in_partition(0)
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id=workflow_id)
    deployment.settle()
    stranger.faults.fail_at("control.persisted")
    step_id = next(s.id for s in deployment.steps(workflow_id) if s.params.get("question") == FIRST)
    deployment.send(StepContinue(step_id=step_id, result={"answer": THIRD}), partition=1)
    run_until_it_crashes(stranger)
    deployment.remove(stranger, killed=True)
    deployment.settle()
    assert owner.partitions() == {0, 1}
    return workflow_id


def test_a_writers_own_lane_is_swept_after_ten_seconds_by_one_of_the_others(world: World) -> None:
    deployment = world.deployment(DESK)
    leave_in_a_lane_of_its_own(deployment)
    deployment.evaluator()
    deployment.settle()
    (left,) = deployment.store.outbox()
    assert left.record.lane.startswith("writer/")

    deployment.clock.advance(9_000)
    deployment.settle()
    assert len(deployment.events(ASK)) == 2

    deployment.clock.advance(1_500)
    deployment.settle()
    assert [event.payload["question"] for event in deployment.events(ASK)].count(THIRD) == 1
    assert deployment.store.outbox() == []


def test_the_sweep_keeps_its_hands_off_while_another_has_the_lease(world: World) -> None:
    deployment = world.deployment(DESK)
    leave_in_a_lane_of_its_own(deployment)
    deployment.clock.advance(20_000)
    assert deployment.store.acquire_lock("outbox-sweep", 60_000)
    deployment.settle()
    assert len(deployment.events(ASK)) == 2

    deployment.clock.advance(61_000)
    deployment.settle()
    assert len(deployment.events(ASK)) == 3


@in_worlds(EMBEDDED_EVERY_STORE)
def test_a_record_in_a_lane_that_its_writer_had_lost_unknowingly_is_swept_by_the_owner(world: World) -> None:
    deployment = world.deployment(CHAIN, evaluator=EvaluatorSettings(workflow_budget_steps=12), control_partitions=1)
    interruptions = Interruptions()
    frozen = deployment.evaluator(interruptions)
    start_chain(deployment, "wf-1")
    while not deployment.store.runnable_workflows():
        frozen.turn()

    def another_takes_over() -> None:
        deployment.broker.expire(frozen.consumer())
        deployment.evaluator().turn()

    # It stands between computing and committing while another becomes the owner and does a turn. The conflict makes
    # it compute the next turn, which it commits as the owner that it believes to be; then it dies.
    interruptions.happens_at("control.applied", another_takes_over)
    interruptions.fail_at("control.persisted")
    run_until_it_crashes(frozen)
    deployment.remove(frozen, killed=True)
    deployment.settle()
    left = deployment.store.outbox()
    assert {row.record.lane for row in left} == {"control/0"}
    assert len(unique_ids(deployment.records(deployment.topology.facet("chain.Ask")))) == LINKS - len(left)

    deployment.clock.advance(11_000)
    deployment.settle()

    assert len(unique_ids(deployment.records(deployment.topology.facet("chain.Ask")))) == LINKS
    assert deployment.store.outbox() == []


def broker_that_takes_nothing(world: World) -> tuple[Deployment, Evaluator]:
    """Return a deployment whose broker refuses to write, after an evaluator has committed a workflow's start."""
    deployment = world.deployment(DESK)
    evaluator = deployment.evaluator()
    # An earlier workflow, so that all schemas are announced.
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-0")
    deployment.settle()
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1")
    deployment.broker_faults.fail_at("log.before_write", times=1_000, error=OSError("no space left"))
    for _ in range(5):
        deployment.round()
    assert evaluator.stats.unacknowledged == len(deployment.store.outbox()) == 3
    return deployment, evaluator


@in_worlds(EMBEDDED_DURABLE)
def test_records_that_the_broker_did_not_take_are_sent_again(world: World) -> None:
    deployment, evaluator = broker_that_takes_nothing(world)

    deployment.broker_faults.clear()
    deployment.settle()

    assert len(unique_ids(deployment.records(deployment.topology.facet(ASK)))) == 4
    assert evaluator.stats.unacknowledged == len(deployment.store.outbox()) == 0
    deployment.crash()


@in_worlds(EMBEDDED_DURABLE)
def test_records_that_the_broker_did_not_take_are_sent_by_the_next_owner_when_their_writer_dies(world: World) -> None:
    deployment, _ = broker_that_takes_nothing(world)

    deployment.crash_and_restart()
    desk = Desk(deployment)

    assert len(unique_ids(deployment.records(deployment.topology.facet(ASK)))) == 4
    desk.finish()
    assert deployment.workflow("wf-1").status == COMPLETED
    deployment.crash()
