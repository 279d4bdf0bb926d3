"""Random workflows, and what must come out of them by a sequential interpreter that shares no code with the run.

Events carry `hops`, how often they may still be passed on, and `value`, a number that stands for the way they came. A
node maps each event that it takes to at most three others, by numbers alone; conditions look at the value. So cycles
end, and what a node makes of an event does not depend on when it takes it.

Three kinds of graph:
  any            subscriptions of AND and OR to any depth: which events meet depends on time; there are invariants
  or_only        every event is taken by every subscriber: the multiset of events on each topic is determined
  single_writer  subscriptions by AND only, each topic has one publisher, one event of each topic at a time: the
                 sequence of events on each topic is determined (a Kahn process network)
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from zlib import crc32

from afl_stream.pubsub.errors import WorkflowInvalid
from afl_stream.pubsub.model.commands import Command
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.pubsub.model.nodes import Node, NodeBuilder
from afl_stream.pubsub.model.subscription_text import parse_subscription
from afl_stream.pubsub.model.topics import InputTopic, OutputTopic, Topic

Kind: TypeAlias = Literal["any", "or_only", "single_writer"]
#: A topic, or "and" or "or" with parts.
Wish: TypeAlias = "str | tuple[str, tuple[Wish, ...]]"
Data: TypeAlias = dict[str, int]

#: Graphs that make fewer events, or might make more, are not used: a run shows something, and takes milliseconds.
_MIN_EVENTS: Final = 8
_MAX_EVENTS: Final = 300


@dataclass(frozen=True, slots=True)
class RandomDestination:
    """A topic that a node publishes to; with `residue` only values that leave it when they are divided by three."""

    topic: str
    residue: int | None

    def accepts(self, data: Any) -> bool:
        """Say whether data goes there."""
        return self.residue is None or data["value"] % 3 == self.residue


@dataclass(frozen=True, slots=True)
class RandomNode:
    """A node as it was drawn."""

    name: str
    wish: Wish
    destinations: tuple[RandomDestination, ...]
    max_events: int | None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the subscription, in their order, each once."""
        return tuple(dict.fromkeys(_topics_of(self.wish)))

    def outputs_of(self, data: Data) -> list[Data]:
        """Return what the node makes of an event."""
        if data["hops"] <= 0:
            return []
        count = (0, 1, 2, 3)[crc32(f"{self.name} {data['value']}".encode()) % 4]
        return [
            {"hops": data["hops"] - 1, "value": crc32(f"{self.name} {data['value']} {place}".encode()) % 100_000}
            for place in range(count)
        ]


@dataclass(frozen=True, slots=True)
class RandomWorkflow:
    """A graph, its input, and how it runs."""

    seed: int
    kind: Kind
    nodes: tuple[RandomNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    data: Data
    max_buffered: int

    def definition(self, command_of: Callable[[RandomNode], Command]) -> WorkflowDefinition:
        """Return the workflow, with these commands. Raises WorkflowInvalid."""
        return WorkflowDefinition.of(
            name="random",
            nodes=[self._node(node, command_of(node)) for node in self.nodes],
            topics=[self._topic(topic) for topic in self.topics],
            max_buffered_events=self.max_buffered,
        )

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of all topics."""
        named = [to.topic for node in self.nodes for to in node.destinations]
        return tuple(dict.fromkeys([*self.inputs, *named, *(topic for node in self.nodes for topic in node.topics)]))

    def _topic(self, name: str) -> Topic:
        return InputTopic(name) if name in self.inputs else OutputTopic(name) if name in self.outputs else Topic(name)

    def _node(self, node: RandomNode, command: Command) -> Node:
        builder = NodeBuilder().name(node.name).command(command).subscribe(parse_subscription(text_of(node.wish)))
        for to in node.destinations:
            builder.publish_to(to.topic, None if to.residue is None else to.accepts)
        return (builder if node.max_events is None else builder.max_events(node.max_events)).build()


def _topics_of(wish: Wish) -> list[str]:
    return [wish] if isinstance(wish, str) else [topic for part in wish[1] for topic in _topics_of(part)]


def text_of(wish: Wish) -> str:
    """Return a wish as the text of a subscription."""
    if isinstance(wish, str):
        return wish
    return "(" + {"and": " & ", "or": " | "}[wish[0]].join(text_of(part) for part in wish[1]) + ")"


def is_met(wish: Wish, holding: Mapping[str, object] | set[str]) -> bool:
    """Say whether a wish is met by the topics that hold something."""
    if isinstance(wish, str):
        return wish in holding
    return (all if wish[0] == "and" else any)(is_met(part, holding) for part in wish[1])


# --- drawing ------------------------------------------------------------------------------------------------------


def random_workflow(seed: int, kind: Kind) -> RandomWorkflow:
    """Return the workflow of a seed: the first one drawn that is valid, makes events, and not too many."""
    draw = random.Random(f"{kind} {seed}")
    while True:
        workflow = _drawn(draw, seed, kind)
        # With each AND taken for an OR there are at least as many events.
        if sum(map(len, interpreted(workflow, is_or_only=True).values())) > _MAX_EVENTS:
            continue
        if sum(map(len, interpreted(workflow).values())) >= _MIN_EVENTS and _is_valid(workflow):
            return workflow


def _is_valid(workflow: RandomWorkflow) -> bool:
    try:
        workflow.definition(lambda _: _Nothing())
    except WorkflowInvalid:
        return False
    return True


class _Nothing:
    """The command of a workflow that is only checked."""

    def invoke(self, context: Any, events: Any) -> Any:
        raise NotImplementedError


def _drawn(draw: random.Random, seed: int, kind: Kind) -> RandomWorkflow:
    inputs = tuple(f"input-{place}" for place in range(draw.choice((1, 1, 1, 2))))
    outputs = tuple(f"output-{place}" for place in range(draw.choice((1, 1, 2))))
    between = [f"between-{place}" for place in range(draw.randrange(6))]
    nodes: list[RandomNode] = []
    unwritten = [*outputs, *between]
    draw.shuffle(unwritten)
    count = draw.randrange(1, 7)
    for place in range(count):
        if kind == "single_writer":
            taken = len(unwritten) if place == count - 1 else draw.randrange(min(3, len(unwritten)) + 1)
            targets, unwritten = unwritten[:taken], unwritten[taken:]
        else:
            targets = draw.sample([*outputs, *between], min(draw.randrange(1, 4), len(outputs) + len(between)))
        nodes.append(
            RandomNode(
                name=f"node-{place}",
                wish=_wish(draw, kind, [*inputs, *between], draw.randrange(3)),
                destinations=tuple(RandomDestination(to, draw.choice((None, None, 0, 1))) for to in targets),
                max_events=1 if kind == "single_writer" else draw.choice((None, None, 1, 1, 2, 3)),
            )
        )
    return RandomWorkflow(
        seed=seed,
        kind=kind,
        nodes=tuple(nodes),
        inputs=inputs,
        outputs=outputs,
        data={"hops": draw.randrange(3, 10), "value": draw.randrange(100_000)},
        max_buffered=draw.choice((1, 1, 2, 3, 5, 1_000)),
    )


def _wish(draw: random.Random, kind: Kind, topics: Sequence[str], depth: int) -> Wish:
    if not depth or draw.random() < 0.4:
        return draw.choice(topics)
    sign = {"any": draw.choice(("and", "or")), "or_only": "or", "single_writer": "and"}[kind]
    return (sign, tuple(_wish(draw, kind, topics, depth - 1) for _ in range(draw.randrange(2, 4))))


# --- what must come out -------------------------------------------------------------------------------------------


def interpreted(workflow: RandomWorkflow, *, is_or_only: bool = False) -> dict[str, list[Data]]:
    """Return the events of each topic, for the kinds that determine them; `is_or_only` takes each AND for an OR.

    One thing after the other: whichever node can run takes one event of each of its topics.
    """
    events: dict[str, list[Data]] = {topic: [] for topic in workflow.topics}
    taken: Counter[tuple[str, str]] = Counter()
    for topic in workflow.inputs:
        events[topic].append(workflow.data)
    waiting = deque(workflow.nodes)
    idle = 0
    while waiting and idle < len(workflow.nodes) and sum(map(len, events.values())) <= 4 * _MAX_EVENTS:
        node = waiting[0]
        waiting.rotate(-1)
        holding = {topic for topic in node.topics if taken[node.name, topic] < len(events[topic])}
        if not holding or not (is_or_only or is_met(node.wish, holding)):
            idle += 1
            continue
        idle = 0
        for topic in node.topics:
            if topic in holding:
                data = events[topic][taken[node.name, topic]]
                taken[node.name, topic] += 1
                for output in node.outputs_of(data):
                    for to in node.destinations:
                        if to.accepts(output):
                            events[to.topic].append(output)
    return events
