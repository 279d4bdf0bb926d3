"""A workflow that answers requests: nodes that publish to topics and are subscribed to topics."""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from typing import Final
from uuid import uuid4

from afl.core.probes import Probe, no_probe
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.store import EventStore
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, TopicEvent
from afl_stream.pubsub.model.function_calling import link_functions
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.span_kinds import OpenInferenceSpanKindValues
from afl_stream.pubsub.model.topics import Topic
from afl_stream.pubsub.model.workflow_builder import WorkflowBuilder
from afl_stream.pubsub.running.errors import NotRun, RequestIsRun
from afl_stream.pubsub.running.inputs import check_context, give_input
from afl_stream.pubsub.running.run import WorkflowRun
from afl_stream.pubsub.running.tracker import AsyncNodeTracker

#: Finished requests that a workflow without a store of its own keeps, so that they can be continued.
_KEPT_FINISHED: Final = 1_000


class _Claim:
    """A request that is run here: its run, once that is open, and the iterator that reads the output."""

    __slots__ = ("reader", "run")

    def __init__(self) -> None:
        self.run: WorkflowRun | None = None
        self.reader: weakref.ref[AsyncGenerator[ConsumeFromTopicEvent, None]] | None = None

    def ends(self) -> bool:
        """Say whether the run is closed, or will be: nobody has its iterator any more, and the loop closes that."""
        return self.run is not None and (self.run.is_closed or (self.reader is not None and self.reader() is None))


class EventDrivenWorkflow:
    """A workflow: its declaration, and the requests to it.

    `invoke` runs a request; any number of different requests run at once, on one event loop. The state of a request is
    in its run and in the event store. Without a store of its own a workflow keeps events in memory, of finished
    requests only the last thousand.

    A node with `a | b` runs as soon as one of them holds events, with what both hold at that time: b's event may come
    later, and the node then runs again, with that alone. A node with `a | b & c` takes b's events also when only a has
    met its subscription, and c then waits for another b. Each node takes each event once. Nodes get the same objects:
    a command does not change the data of its events.
    """

    def __init__(
        self, definition: WorkflowDefinition, *, event_store: EventStore | None = None, probe: Probe = no_probe
    ) -> None:
        self.definition = definition
        self.workflow_id: Final = str(uuid4())
        self.event_store: Final = MemoryEventStore(_KEPT_FINISHED) if event_store is None else event_store
        self._probe = probe
        self._claims: dict[str, _Claim] = {}
        # Of the run that began last.
        self._tracker = AsyncNodeTracker()
        self._invoke_queue: deque[Node] = deque()
        self._last_run: WorkflowRun | None = None
        self._handle_function_calling_nodes()

    @classmethod
    def builder(cls) -> WorkflowBuilder[EventDrivenWorkflow, EventStore]:
        """Return a builder."""
        return WorkflowBuilder(cls, cls.__name__)

    # --- the declaration --------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name: of its topics on a cluster, and of the caller as a consumer of output."""
        return self.definition.name

    @property
    def type(self) -> str:
        """The type, by default the name of the class."""
        return self.definition.type

    @property
    def oi_span_type(self) -> OpenInferenceSpanKindValues:
        """The kind of its spans."""
        return self.definition.oi_span_type

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by their names."""
        return self.definition.nodes

    @property
    def _topics(self) -> Mapping[str, Topic]:
        return self.definition.topics

    @property
    def _topic_nodes(self) -> Mapping[str, tuple[str, ...]]:
        return self.definition.topic_nodes

    def to_dict(self) -> dict[str, object]:
        """Return the workflow as JSON: its declaration, and the id of this object."""
        return {**self.definition.to_dict(), "workflow_id": self.workflow_id}

    def to_mermaid(self) -> str:
        """Return a drawing as a Mermaid flowchart, which Markdown viewers show."""
        # Drawing is for people: whoever only runs workflows does not load it.
        from afl_stream.pubsub.drawing.mermaid import mermaid

        return mermaid(self.definition)

    def to_svg(self) -> str:
        """Return a drawing as an SVG picture."""
        from afl_stream.pubsub.drawing.svg import svg

        return svg(self.definition)

    def _handle_function_calling_nodes(self) -> None:
        """Tell the nodes that ask a model which functions run behind the topics that they publish to."""
        link_functions(self.nodes.values())

    # --- requests ---------------------------------------------------------------------------------------------------

    def invoke(self, context: InvokeContext, input: object = None) -> AsyncGenerator[ConsumeFromTopicEvent, None]:
        """Run a request, and yield the events of its output topics and its questions, each committed before.

        The iterator ends when nothing can go on: the request is finished, or waits for an answer. A request that is
        stored goes on where it stands; `input` is then an answer or the next input (running/inputs.py has the rules),
        and None is no input. The same request twice at the same time is a RequestConflict. Closing the iterator, or
        cancelling who reads it, cancels the nodes and waits for them; the request can be invoked again then. A node
        that raises is a NodeFailed, and the request can be tried again by another invoke.
        """
        claim = _Claim()
        reader = self._invoke(context, input, claim)
        claim.reader = weakref.ref(reader)
        return reader

    async def _invoke(
        self, context: InvokeContext, input: object, claim: _Claim
    ) -> AsyncGenerator[ConsumeFromTopicEvent, None]:
        run = await self._open(context, input, claim)
        try:
            async with contextlib.aclosing(run.stream()) as stream:
                async for event in stream:
                    yield event
        finally:
            await run.close()
            self._release(run)

    async def init_workflow(self, context: InvokeContext, input: object = None) -> WorkflowRun:
        """Return the run of a request, restored from its stored events or begun with the input. No node runs yet.

        `invoke` with the same request goes on with this run; without that, whoever asked for it closes it. Raises
        RequestConflict while this object runs the request.
        """
        return await self._open(context, input, _Claim())

    async def _open(self, context: InvokeContext, input: object, claim: _Claim) -> WorkflowRun:
        check_context(self.name, context)
        request_id = context.assistant_request_id
        run = None
        while (other := self._claims.get(request_id)) is not None:
            if other.run is not None and other.ends():
                await other.run.until_closed()
                self._release(other.run)
            elif other.run is not None and other.reader is None and claim.reader is not None:
                # It was opened by init_workflow, and begins now.
                run = other.run
                break
            else:
                raise RequestIsRun(self.name, request_id, 0 if other.run is None else other.run.writer.stored)
        self._claims[request_id] = claim
        try:
            if run is None:
                run = await WorkflowRun.open(self.definition, context, self.event_store, probe=self._probe)
            claim.run = run
            await give_input(run, input)
        except BaseException:
            if run is None:
                del self._claims[request_id]
            else:
                await run.close()
                self._release(run)
            raise
        self._tracker, self._invoke_queue, self._last_run = run.tracker, run.invoke_queue, run
        return run

    def _release(self, run: WorkflowRun) -> None:
        """Let the request be run again. Another claim may be in the place of the run's by now."""
        claim = self._claims.get(run.request_id)
        if claim is not None and claim.run is run:
            del self._claims[run.request_id]

    def on_event(self, event: TopicEvent) -> None:
        """Put the nodes into the invoke queue that are subscribed to the event's topic and can run now."""
        self._run_of(event.assistant_request_id).on_event(event)

    def get_node_input(self, node: Node | str, request_id: str | None = None) -> list[ConsumeFromTopicEvent]:
        """Take what the subscribed topics hold for a node, of a request; without an id, of the one that began last."""
        name = node if isinstance(node, str) else node.name
        return self._run_of(request_id).runners[name].take()

    def _run_of(self, request_id: str | None) -> WorkflowRun:
        if request_id is None:
            run = self._last_run
        else:
            claim = self._claims.get(request_id)
            run = None if claim is None else claim.run
        if run is None or run.is_closed:
            raise NotRun(self.name, request_id or "the last one")
        return run

    def __repr__(self) -> str:
        nodes = ", ".join(self.nodes)
        return f"<{type(self).__name__} {self.name}: nodes {nodes}; {len(self._claims)} requests run>"
