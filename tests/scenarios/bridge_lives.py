"""A bridge with its agent, as one process of a deployment: it may die between two steps, and another one follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from afl_stream.bridge import Bridge
from afl_stream.embedded.transport import Crash, Faults
from afl_stream.pubsub import (
    ConsumeFromTopicEvent,
    EventDrivenWorkflow,
    InputTopic,
    InvokeContext,
    InWorkflowInputTopic,
    InWorkflowOutputTopic,
    NodeBuilder,
    OutputTopic,
)
from afl_stream.pubsub.event_stores.store import EventStore
from tests.eventually import eventually
from tests.worlds.deployment import Deployment
from tests.worlds.parties import Worker

#: Declares what a bridge does.
Declare = Callable[[Bridge], None]
Taken = Sequence[ConsumeFromTopicEvent]


class BridgeLife:
    """One life of a bridge and its agent, on a transport of its own. The evaluator lives on."""

    def __init__(self, deployment: Deployment, declare: Declare, faults: Faults | None = None) -> None:
        self.deployment = deployment
        self.faults = faults or Faults()
        self.bridge = Bridge(deployment.config, probe=self.faults.probe)
        declare(self.bridge)
        self.transport_faults = Faults()
        self.transport = deployment.cluster.transport(self.transport_faults)
        self.bridge.apply_topics(self.transport)
        if not deployment.evaluators:
            deployment.evaluator()
        self.worker: Worker | None = None
        if self.bridge.facets:
            self.worker = deployment.worker({})
            self.bridge.register_on(self.worker.agent)
            # A deployment that settles waits for the partitions of these.
            self.worker.facets = self.bridge.facets
        self.bridge.start(self.transport)

    def settle(self) -> None:
        self.deployment.settle()

    def dies_at(self, point: str, passes: int = 0) -> None:
        """Crash the next time that a point is reached."""
        self.faults.fail_at(point, passes=passes)

    def settle_until_it_dies(self) -> None:
        """Let the deployment go on until the agent of this life has died, and take both out."""
        with pytest.raises(Crash):
            self.settle()
        self.end(killed=True)

    def dies(self) -> None:
        """Wait until a part on the bridge's event loop has died, and end this life."""
        eventually(self._is_dead)
        self.end(killed=True)

    @property
    def has_failed(self) -> bool:
        """Whether a part of the bridge has ended with an error."""
        return self.bridge.error is not None

    def _is_dead(self) -> bool:
        return isinstance(self.bridge.error, Crash)

    def end(self, *, killed: bool = False) -> None:
        """End it: as a process that drains, or as one that is killed."""
        if self.worker is not None:
            self.deployment.remove(self.worker, killed=killed)
            self.worker = None
        self.bridge.close()
        self.transport.close()
        if not killed:
            self.bridge.check()


class Newsroom:
    """A workflow of two checks and an editor, who asks a person about a long text. Counts the runs of its nodes."""

    def __init__(self, store: EventStore | None = None) -> None:
        self.runs: Counter[str] = Counter()
        #: The node that kills its process.
        self.dies_in = ""
        drafts, notes = InputTopic("drafts"), OutputTopic("notes")
        question = InWorkflowOutputTopic("questions", reply_to="answers")
        builder = EventDrivenWorkflow.builder().name("Newsroom")
        if store is not None:
            builder = builder.event_store(store)
        self.workflow: EventDrivenWorkflow = (
            builder.topic(InWorkflowInputTopic("answers"))
            .node(NodeBuilder().name("count").command(self._count).subscribe(drafts).publish_to("counts"))
            .node(NodeBuilder().name("spell").command(self._spell).subscribe(drafts).publish_to("spelling"))
            .node(
                NodeBuilder()
                .name("edit")
                .command(self._edit)
                .subscribe("counts & spelling")
                .publish_to(notes, when=lambda data: data["verdict"] != "ask")
                .publish_to(question, when=lambda data: data["verdict"] == "ask")
            )
            .node(NodeBuilder().name("settle").command(self._settle).subscribe("answers").publish_to(notes))
            .build()
        )

    def _begin(self, node: str) -> None:
        self.runs[node] += 1
        if node == self.dies_in:
            raise Crash(node)

    def _count(self, _context: InvokeContext, events: Taken) -> object:
        self._begin("count")
        return len(events[0].data["text"].split())

    def _spell(self, _context: InvokeContext, events: Taken) -> object:
        self._begin("spell")
        if "boom" in events[0].data["text"]:
            raise LookupError("no such word: boom")
        return "ok"

    def _edit(self, _context: InvokeContext, events: Taken) -> object:
        self._begin("edit")
        words = next(event.data for event in events if event.name == "counts")
        return {"verdict": "ask" if words > 3 else "good", "words": words}

    def _settle(self, _context: InvokeContext, events: Taken) -> object:
        self._begin("settle")
        if events[0].data == "boom":
            raise LookupError("no such word: boom")
        return {"verdict": events[0].data, "words": 99}
