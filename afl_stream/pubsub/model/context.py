"""The context of one request to an event-driven workflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeContext:
    """The request that a workflow answers, and for whom.

    `assistant_request_id` names the request: its events are stored under it, and the same id again goes on with the
    same request. On Kafka it is the key of every record. `invoke_id` names one call: the same again publishes its input
    once, so a caller that may repeat a call gives one. The other ids are the caller's own; nodes and spans see them.
    """

    assistant_request_id: str
    conversation_id: str = ""
    invoke_id: str = ""
    user_id: str = ""
    #: Further facts for nodes; values of JSON.
    attributes: Mapping[str, object] = field(default_factory=dict)
