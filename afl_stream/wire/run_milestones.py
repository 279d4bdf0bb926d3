"""Milestones of runs as agents read them on the lifecycle topic, and the time of each run's last one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from afl_stream.errors import StreamError
from afl_stream.transport import Record
from afl_stream.wire.codec import Codec
from afl_stream.wire.headers import header
from afl_stream.wire.messages import Event, Lifecycle


def milestone_of(record: Record, codec: Codec, kinds: Collection[str]) -> Lifecycle | None:
    """Return the record's milestone if it is of one of these kinds. Others are not decoded if a header names them."""
    named = header(record.headers, "ce_type")
    if named is not None and named.removeprefix("afl.") not in kinds:
        return None
    try:
        milestone = codec.decode(record.value, record.headers)
    except StreamError:
        return None  # Of a newer release, or foreign: it counts for nothing here.
    return milestone if isinstance(milestone, Lifecycle) and milestone.kind in kinds else None


class RunTimes:
    """The time of each run's last milestone of some kind, ms since the epoch; the newest of so many runs."""

    def __init__(self, most_runs: int) -> None:
        self._most_runs = most_runs
        self._times: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._times)

    def note(self, milestone: Lifecycle) -> None:
        """Note a run's milestone."""
        run = milestone.workflow_id
        self._times[run] = max(milestone.at, self._times.get(run, -1))
        self._times.move_to_end(run)
        if len(self._times) > self._most_runs:
            self._times.popitem(last=False)

    def forget(self, workflow_id: str) -> None:
        """Drop the run's milestones: they do not count any more."""
        self._times.pop(workflow_id, None)

    def came_after(self, event: Event) -> bool:
        """Return whether the event's run had a milestone since the event was made."""
        return self._times.get(event.workflow_id, -1) >= event.created_at
