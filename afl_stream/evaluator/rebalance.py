"""A rebalance of the evaluators' group: partitions are assigned to this one, revoked, or lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from afl.core.probes import Probe
from afl_stream.evaluator.assigned_backlog import AssignedBacklog
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.offsets import StoredOffsets
from afl_stream.evaluator.outbox import OutboxPublisher, control_lane
from afl_stream.evaluator.paused_partitions import PausedPartitions
from afl_stream.evaluator.script_turns import ScriptTurns
from afl_stream.evaluator.sweeps import Sweeps
from afl_stream.transport import Consumer, TopicPartition

#: How long a new owner waits for the acknowledgement of what its lanes hold before it tries again.
_LANES_TIMEOUT_S = 10.0


class Rebalance:
    """The listener of the evaluator's consumer: takes partitions over, and lets go of them.

    `consumer` returns the consumer that reads now, `drop_records` drops what was read of some partitions and is not
    applied yet.
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
        """Between two batches nothing is half done: what was committed stays, the rest is the next owner's."""
        self.on_lost(partitions)

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._context.store_claim.look_soon()
        self._positions.drop(partitions)
        self._paused.forget(partitions)
        self._drop_records(set(partitions))
        self._own([p.partition for p in partitions if p.topic == self._control], add=False)
        self._scripts.drop_waiting(
            lambda workflow_id: self._context.lanes.lane_of(workflow_id) == self._context.lanes.own
        )

    def _own(self, numbers: Sequence[int], *, add: bool) -> None:
        owned = self._context.lanes.owned
        self._context.lanes.owned = owned | set(numbers) if add else owned - set(numbers)
