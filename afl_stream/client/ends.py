"""The ends of runs, as a client finds them on the lifecycle topic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Final

from afl.core.process.stopping import PROCESS_STOP
from afl_stream.client.connection import Connection
from afl_stream.client.milestones import Milestones, NotInTime
from afl_stream.transport import BrokerUnavailable
from afl_stream.wire.messages import Lifecycle
from afl_stream.wire.milestone_kinds import WORKFLOW_CANCELLED, WORKFLOW_COMPLETED, WORKFLOW_ENDS, WORKFLOW_ERROR

#: The kind of milestone that tells of an end, by the status of the run.
ENDS_BY_STATUS: Final[Mapping[str | None, str]] = {
    "COMPLETED": WORKFLOW_COMPLETED,
    "ERROR": WORKFLOW_ERROR,
    "CANCELLED": WORKFLOW_CANCELLED,
}
#: One read of the lifecycle topic.
_READ_S: Final = 0.5


class NotEnded(NotInTime):
    """A run has not ended in time."""

    def __init__(self, workflow_id: str, timeout_s: float) -> None:
        super().__init__(f"the end of {workflow_id}", timeout_s, "the run goes on, and may be waited for again")
        self.workflow_id = workflow_id


def next_end(milestones: Milestones, workflow_id: str, timeout_s: float, deadline_s: float) -> Lifecycle:
    """Read up to the end of a run, and return it. Raises NotEnded, also while no broker answers."""
    while not PROCESS_STOP.is_set() and (left_s := deadline_s - time.monotonic()) > 0:
        try:
            found = milestones.read(min(left_s, _READ_S))
        except BrokerUnavailable:
            PROCESS_STOP.wait(min(left_s, _READ_S))
            continue
        for milestone in found:
            if is_end_of(workflow_id, milestone):
                return milestone
    raise NotEnded(workflow_id, timeout_s)


def past_end(connection: Connection, described: Lifecycle, deadline_s: float) -> Lifecycle:
    """Return the last end of a run that an evaluator describes as ended, as far as the lifecycle topic has it."""
    workflow_id, last = described.workflow_id, None
    with closing(connection.milestones(workflow_id, from_beginning=True)) as milestones:
        while not milestones.has_read_what_was_there and (left_s := deadline_s - time.monotonic()) > 0:
            for milestone in milestones.read(min(left_s, _READ_S)):
                if is_end_of(workflow_id, milestone):
                    last = milestone
    return last or replace(described, kind=ENDS_BY_STATUS[described.status], outputs=None, command_id=None)


def is_end_of(workflow_id: str, milestone: Lifecycle) -> bool:
    """Return whether a milestone tells of the end of this run."""
    return milestone.workflow_id == workflow_id and milestone.kind in WORKFLOW_ENDS
