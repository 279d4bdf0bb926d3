"""The errors of event-driven workflows and subscriptions that more than one room raises."""

from __future__ import annotations

from collections.abc import Sequence

from afl_stream.errors import StreamError


class PubSubError(StreamError):
    """The root of every error that afl_stream.pubsub raises on purpose."""


def listed_faults(faults: Sequence[str]) -> str:
    """Return faults for a message, behind its colon: one on the same line, several below each other."""
    return f" {faults[0]}" if len(faults) == 1 else "".join(f"\n  * {fault}" for fault in faults)


class WorkflowInvalid(PubSubError):
    """A workflow cannot run as it is built. `faults` has every fault that was found, each a sentence."""

    def __init__(self, workflow: str, faults: tuple[str, ...]) -> None:
        super().__init__(f"workflow {workflow}:{listed_faults(faults)}")
        self.workflow = workflow
        self.faults = faults


class NodeFailed(PubSubError):
    """A node's command raised. What the node had taken is not committed: the same request again takes it again."""

    def __init__(self, workflow: str, node: str, request_id: str, reason: str) -> None:
        super().__init__(f"workflow {workflow}, request {request_id}: node {node} failed: {reason}")
        self.workflow = workflow
        self.node = node
        self.request_id = request_id
        self.reason = reason


class RequestConflict(PubSubError):
    """Another process or task has appended to the events of this request, and so runs it too."""

    def __init__(self, workflow: str, request_id: str, expected: int, found: int) -> None:
        super().__init__(
            f"workflow {workflow}, request {request_id}: expected {expected} stored events and found {found}; "
            "another run of this request goes on"
        )
        self.workflow = workflow
        self.request_id = request_id
        self.expected = expected
        self.found = found


class SubscriptionInvalid(PubSubError):
    """A subscription or publisher cannot work as it is declared."""

    def __init__(self, who: str, fault: str) -> None:
        super().__init__(f"subscription {who}: {fault}")
        self.who = who
        self.fault = fault


class SubscribedTopicMissing(PubSubError):
    """A topic that is subscribed to by its name does not exist."""

    def __init__(self, who: str, topic: str) -> None:
        super().__init__(
            f"{who}: topic {topic} does not exist; create it, or subscribe by a pattern, which waits for topics to come"
        )
        self.who = who
        self.topic = topic


class SubscriptionClosed(PubSubError):
    """A subscription or publisher is not open: it was not entered, or it has ended."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is not open: use it inside `async with`")


class StageFailed(PubSubError):
    """A stage of a stream raised: nothing of its message is acknowledged. The cause is the stage's own error."""

    def __init__(self, stage: str, where: str, reason: str) -> None:
        super().__init__(f"{stage} failed at {where}: {reason}")
        self.stage = stage
        self.where = where


class DataRefused(PubSubError, ValueError):
    """What was to be published has no JSON form."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"what was to be published to {topic} is neither bytes nor JSON: {reason}")
        self.topic = topic


class PublishFailed(PubSubError):
    """A record that `publish` had taken was not written. The cause is the transport's error."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"a record was not written to {topic}: {reason}")
        self.topic = topic


class NotAcknowledged(PubSubError):
    """A publisher was closed while records had no acknowledgement: the broker may have them, or not."""

    def __init__(self, records: int) -> None:
        super().__init__(f"{records} records were not acknowledged before the publisher was closed, and may be lost")
        self.records = records
