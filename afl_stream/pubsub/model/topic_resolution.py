"""Which topics a workflow has: those that its nodes name, each under one name, and names in texts resolved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from afl_stream.pubsub.model.expressions import with_topics
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.topics import NamedTopic, Topic, condition_name


class ResolvedNodes(NamedTuple):
    """Nodes without named topics, the topics by their names, and what is wrong with the names."""

    nodes: tuple[Node, ...]
    topics: Mapping[str, Topic]
    faults: tuple[str, ...]


def resolved(nodes: Iterable[Node], topics: Iterable[Topic] = ()) -> ResolvedNodes:
    """Return nodes with the workflow's topics in the place of those that they only name.

    A name that no node and none of `topics` declares is an ordinary topic: the checks say so where one side is missing.
    """
    nodes = tuple(nodes)
    declared: dict[str, Topic] = {}
    faults: list[str] = []
    for topic in (*topics, *(topic for node in nodes for topic in _topics_of(node))):
        if isinstance(topic, NamedTopic):
            continue
        former = declared.setdefault(topic.name, topic)
        if former != topic:
            faults.append(
                f"topic {topic.name} is declared twice, as {_shown(former)} and as {_shown(topic)}; "
                "one object, or another name, is right"
            )
    order: dict[str, Topic] = {}
    for topic in (*topics, *(topic for node in nodes for topic in _topics_of(node))):
        order.setdefault(topic.name, declared.get(topic.name, Topic(topic.name)))

    def topic_of(topic: Topic) -> Topic:
        return order[topic.name]

    return ResolvedNodes(
        tuple(
            replace(
                node,
                subscription=with_topics(node.subscription, topic_of),
                destinations=tuple(replace(to, topic=topic_of(to.topic)) for to in node.destinations),
            )
            for node in nodes
        ),
        order,
        tuple(dict.fromkeys(faults)),
    )


def _topics_of(node: Node) -> Iterator[Topic]:
    yield from node.subscribed_topics
    yield from (to.topic for to in node.destinations)


def _shown(topic: Topic) -> str:
    condition = condition_name(topic.condition)
    return topic.type if condition is None else f"{topic.type} with the condition {condition}"
