"""Records of a topic that become external events of AFL workflows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from afl.core.clock import epoch_ms
from afl_stream.bridge.arrivals import Arrival, event_id_of
from afl_stream.bridge.errors import RecordRefused
from afl_stream.bridge.resources import BridgeResources, OneAtATime
from afl_stream.client.external_events import event_to_raise

#: Chooses a text of a record; None: the record is for no workflow.
ChosenText: TypeAlias = Callable[[Arrival], str | None]


class ForNoWorkflow(StrEnum):
    """The treatment of a record that is for no workflow: `workflow_id` or `name` gave None, or it has no key."""

    #: It is passed over, and counted.
    SKIP = "skip"
    #: It becomes a dead letter.
    DEAD_LETTER = "dead_letter"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRaiser:
    """Raises an external event for each record.

    In this order:
      1. the record was read, and says for which workflow it is,
      2. the event is on the topic of external events, and the broker has acknowledged it,   (bridge.raised)
      3. the record's offset moves.

    A crash before 3 raises the event again, with the same id: the workflow counts it once. Events of one workflow are
    raised in the order in which their records were read.
    """

    name: str | ChosenText
    workflow_id: ChosenText | None
    data: Callable[[Arrival], object] | None
    event_id: Callable[[Arrival], str] | None
    for_no_workflow: ForNoWorkflow
    resources: BridgeResources
    turns: OneAtATime

    async def __call__(self, arrival: Arrival) -> None:
        """Raise the event. Raises IdRefused, ValueRefused, EventTooLarge, and what the user's functions raise."""
        name = self.name if isinstance(self.name, str) else self.name(arrival)
        workflow_id = arrival.key if self.workflow_id is None else self.workflow_id(arrival)
        if not workflow_id or name is None:
            if self.for_no_workflow is ForNoWorkflow.DEAD_LETTER:
                raise RecordRefused(f"record {arrival.id} of {arrival.topic}", "it is for no workflow")
            self.resources.counters.add("skipped")
            return
        event_id = event_id_of(arrival, name) if self.event_id is None else self.event_id(arrival)
        data = arrival.data if self.data is None else self.data(arrival)
        event = event_to_raise(workflow_id, name, data, event_id, epoch_ms())
        topic = self.resources.topology.external()
        turn = self.turns.of(workflow_id)
        async with turn:
            await self.resources.publisher.publish_and_wait(topic, event, key=workflow_id)
        self.resources.counters.add("raised")
        self.resources.probe("bridge.raised")
