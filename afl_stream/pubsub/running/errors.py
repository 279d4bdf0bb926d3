"""The errors of requests as they run."""

from __future__ import annotations

from collections.abc import Sequence

from afl_stream.pubsub.errors import PubSubError, RequestConflict


class RequestError(PubSubError):
    """The root of errors that are about one request."""

    def __init__(self, workflow: str, request_id: str, text: str) -> None:
        super().__init__(f"workflow {workflow}, request {request_id}: {text}")
        self.workflow = workflow
        self.request_id = request_id


class RequestIsRun(RequestConflict):
    """A request is invoked that this workflow object runs already."""

    def __init__(self, workflow: str, request_id: str, stored: int) -> None:
        super().__init__(workflow, request_id, stored, stored)
        self.args = (
            f"workflow {workflow}, request {request_id}: this process runs it already; "
            "read the iterator of the first invoke to its end, or close it",
        )


class BadContext(PubSubError):
    """The context of a request cannot be stored."""

    def __init__(self, workflow: str, field: str, reason: str) -> None:
        super().__init__(f"workflow {workflow}: InvokeContext.{field}: {reason}")
        self.workflow = workflow
        self.field = field
        self.reason = reason


class RunClosed(RequestError):
    """An event came for a run that was closed."""

    def __init__(self, workflow: str, request_id: str) -> None:
        super().__init__(workflow, request_id, "this run of it was closed; open the request again")


class NotRun(RequestError):
    """Something was asked of the run of a request that this workflow object does not run."""

    def __init__(self, workflow: str, request_id: str) -> None:
        super().__init__(workflow, request_id, "this object does not run it; invoke or init_workflow begins that")


class CommandMisbuilt(PubSubError):
    """A command gave something else than an asynchronous iterator. It is the reason of a NodeFailed."""


class EventsNotStored(RequestError):
    """The store failed. Whether the events are stored is known when the request is read again."""

    def __init__(self, workflow: str, request_id: str, reason: str) -> None:
        super().__init__(workflow, request_id, f"the event store failed: {reason}; invoke the request again to go on")
        self.reason = reason


class StoredEventsUnusable(RequestError):
    """The stored events of a request do not fit together, or not to the workflow."""


class InputMissing(RequestError):
    """A request that is not stored was invoked without input."""

    def __init__(self, workflow: str, request_id: str) -> None:
        super().__init__(workflow, request_id, "nothing is stored of it, and it was invoked without input")


class InputRefused(RequestError):
    """No topic takes the input."""

    def __init__(self, workflow: str, request_id: str, topics: Sequence[str]) -> None:
        super().__init__(
            workflow,
            request_id,
            f"the condition of {' and '.join(topics)} does not hold for the input; nothing is stored",
        )
        self.topics = tuple(topics)


class ConditionFailed(RequestError):
    """The condition of a topic raised for data from outside. Nothing is stored of it; the cause is what was raised."""

    def __init__(self, workflow: str, request_id: str, topic: str, reason: str) -> None:
        super().__init__(
            workflow, request_id, f"the condition of topic {topic} raised for what was published there: {reason}"
        )
        self.topic = topic
        self.reason = reason


class RequestUnfinished(RequestError):
    """Another input came for a request that still has to go on with the one before."""

    def __init__(self, workflow: str, request_id: str) -> None:
        super().__init__(
            workflow,
            request_id,
            "it is not finished with its input, and was invoked with another; invoke it without input to go on first",
        )


class NoOpenQuestion(RequestError):
    """An answer names a topic on which no question waits for one."""

    def __init__(self, workflow: str, request_id: str, topic: str, open_topics: Sequence[str]) -> None:
        waits = f"questions are open for {', '.join(open_topics)}" if open_topics else "no question is open"
        super().__init__(
            workflow,
            request_id,
            f"no question waits for an answer on topic {topic}: it was answered, or not asked yet; {waits}",
        )
        self.topic = topic


class AmbiguousAnswer(RequestError):
    """Several questions are open, and the answer does not say for which it is."""

    def __init__(self, workflow: str, request_id: str, topics: Sequence[str]) -> None:
        super().__init__(
            workflow,
            request_id,
            f"questions are open for {' and '.join(topics)}; answer with a dict of answers by these names",
        )
        self.topics = tuple(topics)


class UnknownTopic(RequestError):
    """An event is for a topic that the workflow does not have."""

    def __init__(self, workflow: str, request_id: str, topic: str, topics: Sequence[str]) -> None:
        super().__init__(workflow, request_id, f"the workflow has no topic {topic!r:.100}; it has {', '.join(topics)}")
        self.topic = topic
