"""The ways of events through a workflow: nodes that no event reaches, and cycles that no event leaves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from afl_stream.pubsub.model.cycles import reached_from, strong_components
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.topics import InputTopic, InWorkflowInputTopic, InWorkflowOutputTopic, OutputTopic, Topic

#: Names that a fault lists.
_MOST_NAMES: Final = 10


class _Vertex(NamedTuple):
    """A node or a topic, in a graph of both."""

    is_node: bool
    name: str


_Ways: TypeAlias = Mapping[_Vertex, Sequence[_Vertex]]


def reach_faults(nodes: Sequence[Node], topics: Mapping[str, Topic]) -> Iterator[str]:
    """Yield a fault for each node, or each cycle of nodes, that never runs; those behind it are in the same fault."""
    with_events, lost = _reach(nodes, topics)
    if not with_events:  # No input at all is told as such.
        return
    ways = _ways(lost, without=with_events)
    components = strong_components(ways)
    home = {vertex: number for number, component in enumerate(components) for vertex in component}
    fed = {home[target] for vertex in ways for target in ways[vertex] if home[target] != home[vertex]}
    by_name = {node.name: node for node in lost}
    for number, component in enumerate(components):
        members = [vertex.name for vertex in component if vertex.is_node]
        if number in fed or not members:
            continue
        if len(members) == 1:
            node = by_name[members[0]]
            missing = [topic.name for topic in node.subscribed_topics if topic.name not in with_events]
            reason = f"its subscription {node.subscription} waits for {named('topic', missing)}, without any event"
        else:
            joining = [vertex.name for vertex in component if not vertex.is_node]
            reason = f"they wait for each other by {named('topic', sorted(joining))}, and no input leads there"
        behind = [vertex.name for vertex in reached_from(component, ways) if vertex.is_node]
        behind = [name for name in by_name if name in behind and name not in members]
        follows = f"; so {is_or_are('node', behind)} behind" if behind else ""
        yield f"{is_or_are('node', members)} unreachable: {reason}{follows}; let a reachable node publish there"


def cycle_faults(nodes: Sequence[Node]) -> Iterator[str]:
    """Yield a fault for each cycle of nodes that no event can leave."""
    ways = _ways(nodes)
    outputs = {
        _Vertex(is_node=False, name=to.topic.name)
        for node in nodes
        for to in node.destinations
        if isinstance(to.topic, OutputTopic | InWorkflowOutputTopic)
    }
    with_exit = reached_from(outputs, _turned(ways))
    by_name = {node.name: node for node in nodes}
    for component in strong_components(ways):
        members = [vertex.name for vertex in component if vertex.is_node]
        inside = {vertex.name for vertex in component if not vertex.is_node}
        is_conditional = any(
            to.is_conditional for name in members for to in by_name[name].destinations if to.topic.name in inside
        )
        if inside and members and not is_conditional and not with_exit.intersection(component):
            form = "forms" if len(members) == 1 else "form"
            yield (
                f"{named('node', members)} with {named('topic', sorted(inside))} {form} a cycle without an exit; let "
                "one of the nodes publish to an output topic, or give one of the destinations a condition"
            )


def _reach(nodes: Sequence[Node], topics: Mapping[str, Topic]) -> tuple[set[str], list[Node]]:
    """Return the topics that get events from the input on, and the nodes that never run."""
    answers = {topic.reply_to for topic in topics.values() if isinstance(topic, InWorkflowOutputTopic)}
    with_events = {
        name
        for name, topic in topics.items()
        if isinstance(topic, InputTopic) or (isinstance(topic, InWorkflowInputTopic) and name not in answers)
    }
    subscribers: dict[str, list[Node]] = {}
    for node in nodes:
        for topic in node.subscribed_topics:
            subscribers.setdefault(topic.name, []).append(node)
    running: set[int] = set()
    pending = list(with_events)
    while pending:
        for node in subscribers.get(pending.pop(), ()):
            if id(node) in running or not node.can_invoke(with_events):
                continue
            running.add(id(node))
            for to in node.destinations:
                for name in (to.topic.name, getattr(to.topic, "reply_to", "")):
                    if name and name not in with_events:
                        with_events.add(name)
                        pending.append(name)
    return with_events, [node for node in nodes if id(node) not in running]


def _ways(nodes: Collection[Node], without: Collection[str] = ()) -> _Ways:
    """Return the ways from nodes to the topics that they publish to, and from these topics to their subscribers."""
    ways: dict[_Vertex, list[_Vertex]] = {}
    for node in nodes:
        names = [to.topic.name for to in node.destinations if to.topic.name not in without]
        topics = [_Vertex(is_node=False, name=name) for name in names]
        ways.setdefault(_Vertex(is_node=True, name=node.name), []).extend(topics)
        ways.update((topic, []) for topic in topics)
    for node in nodes:
        for topic in (_Vertex(is_node=False, name=topic.name) for topic in node.subscribed_topics):
            if topic in ways:
                ways[topic].append(_Vertex(is_node=True, name=node.name))
    return ways


def _turned(ways: _Ways) -> _Ways:
    turned: dict[_Vertex, list[_Vertex]] = {vertex: [] for vertex in ways}
    for vertex, targets in ways.items():
        for target in targets:
            turned[target].append(vertex)
    return turned


def named(noun: str, names: Sequence[str]) -> str:
    """Return names for a message: `node a`, `nodes a, b`."""
    listed = ", ".join(names[:_MOST_NAMES]) + (f" and {len(names) - _MOST_NAMES} more" * (len(names) > _MOST_NAMES))
    return f"{noun} {listed}" if len(names) == 1 else f"{noun}s {listed}"


def is_or_are(noun: str, names: Sequence[str]) -> str:
    """Return names as the beginning of a sentence: `node a is`, `nodes a, b are`."""
    return f"{named(noun, names)} {'is' if len(names) == 1 else 'are'}"
