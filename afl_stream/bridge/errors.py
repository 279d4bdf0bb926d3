"""The errors of the bridge, each built from facts: which facet, what was found, what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from afl.core.text.printable import printable
from afl_stream.errors import StreamError

#: Characters of a found value that a message shows.
_SHOWN_CHARS: Final = 100


class BridgeError(StreamError):
    """The root of every error that afl_stream.bridge raises on purpose."""


class BridgeInvalid(BridgeError):
    """A bridge cannot run as it is declared."""

    def __init__(self, declared: str, fault: str) -> None:
        super().__init__(f"{declared}: {fault}")
        self.declared = declared
        self.fault = fault


class BridgeNotRunning(BridgeError):
    """Something was asked of a bridge that does not run."""

    def __init__(self) -> None:
        super().__init__("the bridge does not run: start() comes before its agent takes events, close() after it ended")


class WaitsForItself(BridgeError):
    """A node or a stage, which run on the bridge's event loop, would have that loop wait for itself."""

    def __init__(self) -> None:
        super().__init__(
            "this blocks the event loop of the bridge, which would have to do the work: call it on another thread, as "
            "asyncio.to_thread does"
        )


class BridgeTopicMissing(BridgeError):
    """A topic that the bridge reads or publishes to does not exist."""

    def __init__(self, topic: str, needed_for: str) -> None:
        super().__init__(
            f"topic {topic} does not exist and is needed {needed_for}; create it with: afl-stream bridge MODULE "
            "--create-topics, or Bridge.apply_topics(transport)"
        )
        self.topic = topic
        self.needed_for = needed_for


class NotOneResult(BridgeError):
    """A facet is answered by exactly one result, and a node or a workflow gave another number."""

    def __init__(self, facet: str, by: str, found: str) -> None:
        super().__init__(f"{by} gave {found} for facet {facet}; exactly one result is expected")
        self.facet = facet


class ResultRefused(BridgeError):
    """The data of a node or a workflow does not say which return of the facet it is."""

    def __init__(self, facet: str, found: object, returns: Iterable[str] | None) -> None:
        declared = "are not known here" if returns is None else f"are {', '.join(returns) or 'none'}"
        super().__init__(
            f"facet {facet}: found {_shown(found)}, expected a dict of returns; the returns of the facet {declared}. "
            "Give results=NAME for one return, or results=FUNCTION that makes the dict"
        )
        self.facet = facet


class ParameterRefused(BridgeError):
    """An event's parameter, or what a function made of its payload, cannot be the key of a record."""

    def __init__(self, facet: str, parameter: str, found: object) -> None:
        super().__init__(
            f"facet {facet}: {parameter} is {_shown(found)}; the id of a request is a text that is not empty, or a Long"
        )
        self.facet = facet
        self.parameter = parameter


class ParameterMissing(BridgeError):
    """A parameter that the bridge needs is not in the event's payload."""

    def __init__(self, facet: str, parameter: str, found: Iterable[str]) -> None:
        super().__init__(f"facet {facet}: the event has no parameter {parameter}; it has {', '.join(found) or 'none'}")
        self.facet = facet
        self.parameter = parameter


class AnswerNotNeeded(BridgeError):
    """The run that an event belongs to was cancelled or reset, and the work for it was stopped."""

    def __init__(self, facet: str, event_id: str) -> None:
        super().__init__(f"facet {facet}: event {event_id} needs no answer any more: its run was cancelled or reset")
        self.facet = facet
        self.event_id = event_id


class RequestUnknown(BridgeError):
    """A reply is for a request that the workflow's event store does not have."""

    def __init__(self, workflow: str, request_id: str) -> None:
        super().__init__(
            f"workflow {workflow} has no request {_shown(request_id)} that answers an AFL event; a reply's key is the "
            "id that came with the question"
        )
        self.workflow = workflow
        self.request_id = request_id


class RecordRefused(BridgeError):
    """A record, or what a function of the user's made of it, cannot be used."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason


def _shown(found: object) -> str:
    return printable(repr(found), _SHOWN_CHARS)
