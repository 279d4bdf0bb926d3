"""A rebalance of the evaluators' group: partitions are assigned to this one, revoked, or lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from afl.core.probes import Probe
from afl_stream.evaluator.assigned_backlog import AssignedBacklog
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.offsets import StoredOffsets
from afl_stream.evaluator.outbox import control_lane
from afl_stream.evaluator.outbox_publisher import OutboxPublisher
from afl_stream.evaluator.paused_partitions import PausedPartitions
from afl_stream.evaluator.script_turns import ScriptTurns
from afl_stream.evaluator.sweeps import Sweeps
from afl_stream.transport import Assignor, Consumer, TopicPartition, Transport

#: How long a new owner waits for the acknowledgement of what its lanes hold before it tries again.
_LANES_TIMEOUT_S = 10.0


class Rebalance:
    """The listener of the evaluator's consumer: takes partitions over, and lets go of them.

    `consumer` returns the consumer that reads now, `drop_records` drops what was read of some partitions and is not
    applied yet, `await_commit` waits for a commit in flight, and does what follows it.
    """

    def __init__(  # noqa: PLR0913 - a rebalance touches all that a loop keeps for its partitions
        self,
        context: EvaluatorContext,
        offsets: StoredOffsets,
        publisher: OutboxPublisher,
        paused: PausedPartitions,
        backlog: AssignedBacklog,
        sweeps: Sweeps,
        scripts: ScriptTurns,
        probe: Probe,
        *,
        consumer: Callable[[], Consumer],
        drop_records: Callable[[Collection[TopicPartition]], None],
        await_commit: Callable[[], None],
    ) -> None:
        self._context = context
        self._control = context.topology.control()
        self._positions = offsets
        self._publisher = publisher
        self._paused = paused
        self._backlog = backlog
        self._sweeps = sweeps
        self._scripts = scripts
        self._probe = probe
        self._consumer = consumer
        self._drop_records = drop_records
        self._await_commit = await_commit

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Take partitions over.

        In this order:
          1. see that the deployment still has this store,
          2. publish what the outbox holds for the partitions' lanes (`control.lanes_published`),
          3. read the partitions' positions from the store, and note there what is new (`control.positions_read`),
          4. queue the workflows that have more to do now.

        A crash between any two leaves all of it to the next owner. Publishing twice makes copies with the same ids.
        Raises WrongStore, TopicRecreated and StoredOffsetOutOfRange when a position cannot be continued from,
        SchemaUnavailable and BrokerUnavailable: nothing is read before it has succeeded.
        """
        self._await_commit()
        self._context.store_claim.look()
        control = [p.partition for p in partitions if p.topic == self._control]
        self._publisher.publish_lanes([control_lane(number) for number in control], _LANES_TIMEOUT_S)
        self._probe("control.lanes_published")
        starts = self._positions.take(partitions, self._consumer())
        self._paused.forget(partitions)
        self._probe("control.positions_read")
        self._backlog.add(self._positions.ends(partitions))
        self._own(control, add=True)
        self._sweeps.queue_runnable(control)
        return starts

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Let go of partitions. What is committed stays, the rest is the next owner's.

        A commit in flight is waited for, and published: the next owner begins behind it.
        """
        self.on_lost(partitions)

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._await_commit()
        self._context.store_claim.look_soon()
        self._positions.drop(partitions)
        self._paused.forget(partitions)
        self._drop_records(set(partitions))
        control = [p.partition for p in partitions if p.topic == self._control]
        self._publisher.let_go({control_lane(number) for number in control})
        self._own(control, add=False)
        self._scripts.drop_waiting(
            lambda workflow_id: self._context.lanes.lane_of(workflow_id) == self._context.lanes.own
        )

    def _own(self, numbers: Sequence[int], *, add: bool) -> None:
        owned = self._context.lanes.owned
        self._context.lanes.owned = owned | set(numbers) if add else owned - set(numbers)


def evaluators_consumer(context: EvaluatorContext, transport: Transport) -> Consumer:
    """Return a new consumer of the evaluators' group: a member of it, or, with a part of a store, the owner of that
    part's partitions.

    Members are given their partitions by range: the owner of a partition of control owns the same one of commands and
    external, so that a workflow is hot in one place. Correctness does not depend on it.
    """
    group = context.config.evaluator_group
    if context.part is not None:
        return context.part.join(group, context.part.partitions)
    return transport.consumer(group, assignor=Assignor.RANGE)
