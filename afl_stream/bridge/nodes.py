"""A node of an event-driven workflow as the agent of an event facet."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from afl.core.clock import epoch_ms
from afl.core.handlers.context import HandlerContext
from afl_stream.bridge.cancelling import unless_cancelled
from afl_stream.bridge.errors import BridgeInvalid, NotOneResult
from afl_stream.bridge.loop_thread import LoopThread
from afl_stream.bridge.payloads import Payload, Results, parameters, result_of
from afl_stream.pubsub import ConsumeFromTopicEvent, InvokeContext, Node


def context_of(request_id: str, context: HandlerContext) -> InvokeContext:
    """Return the context of a request that answers an AFL event."""
    return InvokeContext(
        assistant_request_id=request_id,
        conversation_id=context.workflow_id,
        invoke_id=context.event_id,
        attributes={"facet": context.facet, "step_id": context.step_id, "attempt": context.attempt},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHandler:
    """The handler of an event facet that runs a node's command on the payload, as one event of `topic`.

    The command runs again with the same event when the AFL event is delivered again: its id is the AFL event's.
    """

    facet: str
    node: Node
    topic: str
    results: Results
    loop: LoopThread

    @classmethod
    def of(cls, facet: str, node: Node, topic: str | None, results: Results, loop: LoopThread) -> NodeHandler:
        """Return the handler. Raises BridgeInvalid when it is open which of the node's topics the payload is from."""
        known = [subscribed.name for subscribed in node.subscribed_topics]
        if topic is None and len(known) == 1:
            topic = known[0]
        if topic not in known:
            listed = ", ".join(known)
            fault = f"it is subscribed to {listed}; topic=NAME says which of them the payload comes from"
            raise BridgeInvalid(f"node {node.name} as the agent of {facet}", fault)
        return cls(facet=facet, node=node, topic=topic, results=results, loop=loop)

    async def __call__(self, payload: dict[str, Any], context: HandlerContext) -> dict[str, object]:
        """Run the command on the bridge's event loop, and return its one result."""
        return await unless_cancelled(self.loop.run(self._result(payload, context)), context)

    async def _result(self, payload: Payload, context: HandlerContext) -> dict[str, object]:
        event = ConsumeFromTopicEvent(
            event_id=context.event_id,
            assistant_request_id=context.workflow_id,
            name=self.topic,
            offset=0,
            data=parameters(payload),
            consumer_name=self.node.name,
            consumer_type=self.node.type,
            timestamp_ms=epoch_ms(),
        )
        yielded = []
        async with AsyncExitStack() as opened:
            answers = self.node.command.invoke(context_of(context.workflow_id, context), [event])
            if (close := getattr(answers, "aclose", None)) is not None:
                opened.push_async_callback(close)
            async for data in answers:
                yielded.append(data)
                if len(yielded) > 1:
                    break
        if len(yielded) != 1:
            found = "data more than once" if yielded else "no data"
            raise NotOneResult(self.facet, f"node {self.node.name}", found)
        return result_of(self.facet, yielded[0], self.results, context.returns)
