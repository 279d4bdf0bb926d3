"""Many starts in one call, cut short: the same call with the same ids starts each run once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from afl.engine.model.store import COMPLETED
from afl_stream.client.bulk_starts import LOT_STARTS, StartRequest
from afl_stream.client.client import Client
from afl_stream.embedded.transport import Crash, EmbeddedTransport, Faults
from tests.worlds.deployment import Deployment
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED_DURABLE, KAFKA, SQLITE, in_worlds

UP = "namespace count { workflow Up(n: Long) => (n: Long) andThen { yield Up(n = $.n + 1) } }"


class Killed(BaseException):
    """Stands for the death of the process that starts."""


def requests(count: int, *, killed_at: int | None = None) -> Iterator[StartRequest]:
    for n in range(count):
        if n == killed_at:
            raise Killed
        yield StartRequest(workflow="count.Up", inputs={"n": n}, workflow_id=f"w{n}")


def assert_each_ran_once(deployment: Deployment, count: int) -> None:
    for n in range(count):
        row = deployment.workflow(f"w{n}")
        assert (row.status, row.outputs) == (COMPLETED, {"n": n + 1})
        kinds = [milestone.kind for milestone in deployment.milestones(f"w{n}")]
        assert kinds.count("workflow.started") == kinds.count("workflow.completed") == 1
    assert deployment.dead_letters(deployment.topology.commands()) == []


@in_worlds(EMBEDDED_DURABLE)
@pytest.mark.parametrize("point", ["produce.before_append", "produce.after_append_before_ack"])
def test_a_crash_in_the_middle_of_a_lot_is_repaired_by_the_same_call(world: World, point: str) -> None:
    deployment = world.deployment(UP)
    deployment.evaluator()
    faults = Faults()
    dying = EmbeddedTransport(deployment.broker, probe=faults.probe)
    client = Client(deployment.config, dying)
    client.start("count.Up", {"n": 0}, workflow_id="w0")
    faults.fail_at(point, passes=17, error=Crash(point))

    with pytest.raises(Crash):
        client.start_many(list(requests(40)))
    dying.abandon()
    client._schemas.close_registry()
    deployment.settle()
    assert deployment.client.start_many(list(requests(40))) == [f"w{n}" for n in range(40)]
    deployment.settle()

    assert_each_ran_once(deployment, 40)


@in_worlds([SQLITE, KAFKA])
def test_a_call_that_was_cut_between_two_lots_is_repaired_by_the_same_call(world: World) -> None:
    deployment = world.deployment(UP)
    deployment.evaluator()
    count = LOT_STARTS + 20
    dying = deployment.cluster.transport(Faults())
    client = Client(deployment.config, dying)

    with suppress(Killed):
        client.start_many(requests(count, killed_at=count - 10))
    dying.abandon()
    client._schemas.close_registry()
    assert len(deployment.messages(deployment.topology.commands())) == LOT_STARTS, "the first lot, and all of it"
    deployment.settle()

    assert deployment.client.start_many(requests(count)) == [f"w{n}" for n in range(count)]
    deployment.settle()

    sent = deployment.messages(deployment.topology.commands())
    assert len(sent) == LOT_STARTS + count
    for n in (0, LOT_STARTS - 1, LOT_STARTS, count - 1):
        assert deployment.workflow(f"w{n}").outputs == {"n": n + 1}
    assert len(deployment.store.workflow_ids(limit=2 * count)) == count
    assert deployment.dead_letters(deployment.topology.commands()) == []
