"""The bridge: event facets that publish to topics or are answered by nodes, and topics that raise external events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Protocol

from afl.core.handlers.calling import Handler
from afl.core.handlers.retry import RetryRule
from afl.core.probes import Probe, no_probe
from afl.core.process.signals import draining
from afl_stream.bridge.arrivals import Arrival
from afl_stream.bridge.errors import BridgeInvalid
from afl_stream.bridge.intake import Handling, IntakeSource
from afl_stream.bridge.nodes import NodeHandler
from afl_stream.bridge.payloads import FromPayload, Results
from afl_stream.bridge.publishing import PublishedResults, PublishHandler
from afl_stream.bridge.raising import ChosenText, EventRaiser, ForNoWorkflow
from afl_stream.bridge.resources import BridgeCounts, BridgeResources, OneAtATime
from afl_stream.bridge.retrying import PassingErrors
from afl_stream.bridge.runs import WorkflowAgent
from afl_stream.bridge.services import BridgeServices
from afl_stream.bridge.standings import WorkflowResults
from afl_stream.bridge.topics import AnyTopic, NeededTopics
from afl_stream.pubsub import EventDrivenWorkflow, Node
from afl_stream.pubsub.subscriptions.settings import subscription_group
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.rights import BridgeScope, Subscribed
from afl_stream.transport import Transport

#: Longest name of a subscription; topics have longer ones.
_LONGEST_NAME: Final = 150


class Registrar(Protocol):
    """Whatever takes handlers with a retry policy: an agent."""

    def register(
        self, facet_name: str, handler: Handler, *, retry: RetryRule | None = None, timeout_ms: int | None = None
    ) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """A facet that the bridge answers."""

    handler: Handler
    retry: RetryRule
    timeout_ms: int | None


class Bridge:
    """AFL workflows and event-driven ones, joined by topics and by agents.

    Declare first what it does, then start it. Its handlers run in an agent: the bridge's own, or one that
    `register_on` was called with, whose owner runs it while the bridge is started. Nodes, workflows and subscriptions
    run on one event loop, on a thread of its own.
    """

    def __init__(self, config: StreamConfig, *, name: str = "bridge", probe: Probe = no_probe) -> None:
        """Bridges of one name share the records of the topics that they read; those of another name read all of them.

        `probe` is called at each crash point of docs/failure-matrix.md.
        """
        self.config = config
        self.name = name
        self._resources = BridgeResources(config, probe)
        self._topics = NeededTopics(self._resources.topology)
        self._declared: dict[str, _Declared] = {}
        self._workflows: dict[str, WorkflowAgent] = {}
        self._intakes: dict[str, tuple[IntakeSource, Handling]] = {}
        self._writes: dict[str, None] = {}
        self._raises_events = False
        self._turns = OneAtATime()
        self._has_own_agent = True
        self._services = BridgeServices(self._resources)

    # --- AFL workflows publish ------------------------------------------------------------------------------------

    def publish(
        self,
        facet: str,
        *,
        to: AnyTopic,
        request_id: FromPayload | None = None,
        data: FromPayload | None = None,
        results: PublishedResults = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Publish each event of a facet to a topic; the step continues when the broker has acknowledged that.

        `request_id` names the parameter that is the record's key, or makes it of the parameters; None: the AFL
        workflow's id. `data` names the parameter to publish, or makes the data; None: all parameters. `results` makes
        the returns of the PublishedEvent; None: `event_id` and `topic`, as far as the facet declares them. Raises
        BridgeInvalid and TopicNameRefused.
        """
        handler = PublishHandler(
            facet=facet,
            topic=to,
            name=self._written(to, f"for the events of facet {facet}"),
            request_id=request_id,
            data=data,
            results=results,
            resources=self._resources,
        )
        self._declare(facet, handler, None, timeout_ms)

    # --- AFL workflows wait ---------------------------------------------------------------------------------------

    def raise_events(
        self,
        topic: AnyTopic,
        *,
        name: str | ChosenText,
        workflow_id: ChosenText | None = None,
        data: Callable[[Arrival], object] | None = None,
        event_id: Callable[[Arrival], str] | None = None,
        for_no_workflow: ForNoWorkflow = ForNoWorkflow.SKIP,
    ) -> None:
        """Raise an external event for each record of a topic, which `afl.WaitForEvent(name = ...)` waits for.

        `workflow_id` says for which AFL workflow; None: the record's key does. `data` makes the event's data; None: the
        record's data. `event_id` is what counts once; None: the record's id and the name. A record that cannot be used
        becomes a dead letter. Raises BridgeInvalid and TopicNameRefused.
        """
        raiser = EventRaiser(
            name=name,
            workflow_id=workflow_id,
            data=data,
            event_id=event_id,
            for_no_workflow=for_no_workflow,
            resources=self._resources,
            turns=self._turns,
        )
        self._take_in(topic, "to raise external events", raiser)
        self._raises_events = True

    # --- AFL workflows are answered -------------------------------------------------------------------------------

    def answer(
        self,
        facet: str,
        node: Node,
        *,
        topic: str | None = None,
        results: Results = None,
        retry: RetryRule | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Answer an event facet by a node: its command runs on the payload, as one event, and yields the result.

        `topic`: the one of its subscribed topics that the payload is from, where it has several. `results` names the
        return that the yielded data is, or makes the returns of it. `retry` None: the node's own policy. Raises
        BridgeInvalid.
        """
        handler = NodeHandler.of(facet, node, topic, results, self._resources.loop)
        self._declare(facet, handler, node.retry if retry is None else retry, timeout_ms)

    def answer_with_workflow(
        self,
        facet: str,
        workflow: EventDrivenWorkflow,
        *,
        input: FromPayload | None = None,
        results: WorkflowResults = None,
        questions: AnyTopic | None = None,
        replies: AnyTopic | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Answer an event facet by an event-driven workflow: each event is a request, with the event's id.

        `input` names the parameter that the request is given, or makes it; None: all parameters. `results` makes the
        returns of the output events; None: there is one, and its data is the result.

        A request that asks in the middle leaves the step waiting. Its questions are published to `questions`, and the
        data of a record of `replies` whose key is the request's id is the reply; `reply` gives one directly. Any
        process with the workflow's event store may take it. The store is used on the bridge's event loop, and closed at
        the end. Raises BridgeInvalid and TopicNameRefused.
        """
        agent = WorkflowAgent(
            facet=facet,
            workflow=workflow,
            input=input,
            results=results,
            questions=None if questions is None else self._written(questions, f"for questions of {facet}"),
            resources=self._resources,
            turns=OneAtATime(),
        )
        self._declare(facet, agent, None, timeout_ms)
        self._workflows[facet] = agent
        if replies is not None:
            self._take_in(replies, f"for replies to questions of {facet}", agent.take_reply)

    def reply(self, facet: str, request_id: str, reply: object, *, reply_id: str) -> bool:
        """Give a reply to a request that answers this facet; return whether the step was answered by that.

        It returns when the request has ended or asks again. If it raises, or the process dies, reply again with the
        same `reply_id`: it counts once. Any thread may call this while the bridge runs, but that of its event loop
        (WaitsForItself). Raises RequestUnknown, AmbiguousAnswer, NoOpenQuestion, InputRefused, and BridgeInvalid for a
        facet that no workflow answers.
        """
        agent = self._workflows.get(facet)
        if agent is None:
            raise BridgeInvalid(f"facet {facet}", "no workflow answers it on this bridge")
        return self._resources.loop.call(agent.reply(request_id, reply, reply_id))

    # --- declaring ------------------------------------------------------------------------------------------------

    def _declare(self, facet: str, handler: Handler, retry: RetryRule | None, timeout_ms: int | None) -> None:
        if facet in self._declared:
            raise BridgeInvalid(f"facet {facet}", "the bridge answers it already")
        self._declared[facet] = _Declared(handler=handler, retry=PassingErrors(retry), timeout_ms=timeout_ms)

    def _written(self, topic: AnyTopic, needed_for: str) -> str:
        name = self._topics.add(topic, needed_for)
        self._writes[name] = None
        return name

    def _take_in(self, topic: AnyTopic, needed_for: str, handle: Handling) -> None:
        name = self._topics.add(topic, needed_for)
        if name in self._intakes:
            raise BridgeInvalid(f"topic {name}", "the bridge reads it already; another Bridge may read it too")
        source = IntakeSource(
            topic=topic,
            name=name,
            subscription=_subscription_name(self.name, name),
            dead_letters=self._topics.add_dead_letters(name),
        )
        self._intakes[name] = (source, handle)

    @property
    def facets(self) -> tuple[str, ...]:
        """The event facets that the bridge answers."""
        return tuple(self._declared)

    @property
    def topics_read(self) -> tuple[str, ...]:
        """The topics that the bridge reads, as the cluster names them."""
        return tuple(self._intakes)

    @property
    def scope(self) -> BridgeScope:
        """What the bridge reads and writes beside the events of its facets: its rights on a cluster are made of it."""
        reads = (
            Subscribed(topic=name, group=subscription_group(self.config, source.subscription), has_letters=True)
            for name, (source, _) in self._intakes.items()
        )
        return BridgeScope(reads=tuple(reads), writes=tuple(self._writes), raises_events=self._raises_events)

    @property
    def counts(self) -> BridgeCounts:
        """The counters up to now. Any thread may ask."""
        return self._resources.counters.snapshot()

    def register_on(self, agent: Registrar) -> None:
        """Register the handlers on an agent, in place of an agent of the bridge's own."""
        self._has_own_agent = False
        self._register(agent)

    def _register(self, agent: Registrar) -> None:
        for facet, declared in self._declared.items():
            agent.register(facet, declared.handler, retry=declared.retry, timeout_ms=declared.timeout_ms)

    def apply_topics(self, transport: Transport) -> None:
        """Create the topics that are missing of those that the bridge reads and publishes to. Existing ones stay."""
        self._topics.apply(transport)

    # --- running --------------------------------------------------------------------------------------------------

    def start(self, transport: Transport) -> None:
        """Start what was declared; a bridge is started once.

        Raises BridgeTopicMissing, TopicHidden, what an agent's start raises, and GaveUp when no broker answers.
        """
        self._topics.require(transport.admin())
        set_up = self._register if self._declared and self._has_own_agent else None
        stores = {id(store): store for store in (agent.workflow.event_store for agent in self._workflows.values())}
        self._services.start(transport, list(self._intakes.values()), set_up, list(stores.values()))

    def run(self, transport: Transport, *, on_start: Callable[[], object] = lambda: None) -> int:
        """Start, work until `stop`, SIGINT or SIGTERM, and drain; `on_start` is called when all parts have started.

        Returns the exit code of the agent, as Agent.run does. Raises the error that has ended a part of the bridge,
        after the others were drained.
        """
        with draining(self.stop, self.remaining):
            self.start(transport)
            try:
                on_start()
                self._services.wait()
            finally:
                code = self.close()
            self.check()
        return code

    def remaining(self) -> str:
        """Describe the work left before it has drained. Takes no lock, because a signal handler calls it."""
        return self._services.remaining()

    def stop(self) -> None:
        """Let `run` end. Safe in a signal handler."""
        self._services.stop()

    @property
    def error(self) -> BaseException | None:
        """The error that has ended a part of the bridge. Any thread may ask."""
        return self._services.error

    def check(self) -> None:
        """Raise the error that has ended a part of the bridge."""
        if self.error is not None:
            raise self.error

    def close(self) -> int:
        """Drain and end: the agent first, whose handlers need the rest. Returns the agent's exit code."""
        return self._services.close()

    @contextmanager
    def running(self, transport: Transport) -> Iterator[Bridge]:
        """Start the bridge, and close it at the end. Raises what has ended a part of it meanwhile."""
        self.start(transport)
        try:
            yield self
        finally:
            self.close()
        self.check()


def _subscription_name(bridge: str, topic: str) -> str:
    """Return the name of a subscription. Its group has the offsets: never change the form."""
    name = f"{bridge}.{topic}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{name[: _LONGEST_NAME - len(digest) - 1]}-{digest}"
