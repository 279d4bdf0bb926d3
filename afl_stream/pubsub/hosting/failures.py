"""The errors of requests to hosted workflows."""

from __future__ import annotations

from afl_stream.pubsub.errors import PubSubError


class RequestMoved(PubSubError):
    """A request's partition was taken away: another worker goes on with it."""

    def __init__(self, workflow: str, request_id: str) -> None:
        super().__init__(f"workflow {workflow}, request {request_id}: its partition is another worker's now")
        self.workflow = workflow
        self.request_id = request_id


class RequestFailed(PubSubError):
    """A request cannot go on, for a reason that is no node's."""

    def __init__(self, workflow: str, request_id: str, reason: str) -> None:
        super().__init__(f"workflow {workflow}, request {request_id}: {reason}")
        self.workflow = workflow
        self.request_id = request_id
        self.reason = reason


class RequestNotAnswered(PubSubError):
    """A request has not come to its end, or to a question, in the time that its caller gave it. It goes on."""

    def __init__(self, workflow: str, request_id: str, timeout_s: float) -> None:
        super().__init__(
            f"workflow {workflow}, request {request_id}: not answered in {timeout_s:g} s; it goes on when a worker of "
            f"the workflow runs, and invoke without input follows it"
        )
        self.workflow = workflow
        self.request_id = request_id
        self.timeout_s = timeout_s
