"""Errors about external events that no workflow gets. Each names instance, event, count and limit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from afl.core.text.printable import printable
from afl_stream.errors import StreamError

#: Characters that are shown of an event's name.
_NAME_CHARS: Final = 100


class EventDropped(StreamError):
    """An external event that no workflow gets: it is a dead letter. `name` is the event's."""

    def __init__(self, workflow_id: str, name: str, why: str) -> None:
        super().__init__(f"event {printable(name, _NAME_CHARS)} of workflow {workflow_id} {why}")
        self.workflow_id, self.name = workflow_id, name


class TooManyPendingEvents(EventDropped):
    """The workflow has so many events that no wait has taken that no more are kept.

    `count` and `limit` are events, or bytes if the limit is one of bytes; `setting` is what raises it.
    """

    def __init__(
        self, workflow_id: str, name: str, count: int, limit: int, setting: str, what: str = "events that no wait took"
    ) -> None:
        super().__init__(workflow_id, name, f"is dropped: it has {count} {what}, and the limit is {setting} = {limit}")
        self.count, self.limit = count, limit


class TooManyEarlyEvents(EventDropped):
    """No workflow of this id exists, and no more events that are raised before their workflow are kept."""

    def __init__(
        self, workflow_id: str, name: str, count: int, limit: int, setting: str, where: str, what: str = "events"
    ) -> None:
        """Take the limit, and how much there is of `what` it bounds."""
        why = f"is dropped: there is no such workflow yet, {count} {what} wait {where}, and the limit is "
        super().__init__(workflow_id, name, f"{why}{setting} = {limit}")
        self.count, self.limit = count, limit


class EventExpired(EventDropped):
    """An event was raised before its workflow existed, and no workflow of that id was started in time."""

    def __init__(self, workflow_id: str, name: str, waited_s: int) -> None:
        why = f"has expired: no such workflow was started within {waited_s} s (evaluator.early_event_expiry_ms)"
        super().__init__(workflow_id, name, why)
        self.waited_s = waited_s


class EventNotCarried(EventDropped):
    """No execution in reach has waited for an event: it is too old for the execution that begins.

    `execution` is the number of the one in which it was raised, `next_execution` of the one that begins.
    """

    def __init__(self, workflow_id: str, name: str, execution: int, next_execution: int, limit: int) -> None:
        super().__init__(
            workflow_id,
            name,
            f"of execution {execution} is not carried into execution {next_execution}: it would be "
            f"{next_execution - execution} executions old, and the limit is evaluator.max_carried_executions = {limit}",
        )
        self.execution, self.next_execution, self.limit = execution, next_execution, limit


class EventAfterPurge(EventDropped):
    """The workflow had ended, and was purged: there is nothing left that could keep an event."""

    def __init__(self, workflow_id: str, name: str, status: str, ended_at_ms: int) -> None:
        ended = datetime.fromtimestamp(ended_at_ms / 1000, UTC)
        why = f"comes too late: the run ended as {status} on {ended:%Y-%m-%d %H:%M:%S} UTC, and was purged"
        super().__init__(workflow_id, name, why)
        self.status = status


class NothingToContinue(StreamError):
    """The workflow to continue as new does not exist, or has ended."""

    def __init__(self, workflow_id: str, status: str = "", *, is_purged: bool = False) -> None:
        if status:
            why = f"workflow {workflow_id} has ended: it is {status}, and continues no more"
        else:
            why = f"there is no workflow {workflow_id} to continue as new"
            why += ": it has ended and was purged" if is_purged else ""
        super().__init__(why)
        self.workflow_id, self.status = workflow_id, status
