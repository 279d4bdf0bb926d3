"""The checks of a workflow as it is declared. Each fault is a sentence with the node, the topic, and what is right.

Rules that a reader may ask for:

* **Who publishes where.** The caller publishes to InputTopics and InWorkflowInputTopics, and takes what stands on
  OutputTopics and InWorkflowOutputTopics. Nodes do neither: what goes from node to node stands on a Topic, and a node
  may publish to several topics. A service outside takes from an InWorkflowOutputTopic, and publishes to the
  InWorkflowInputTopic that this names.
* **Known topics.** Each topic has somebody who publishes to it and somebody who takes from it.
* **Reachable nodes.** From the events of all InputTopics on, each node's subscription is met at some time, its ANDs and
  ORs included. An InWorkflowInputTopic gets events when one of its questions is asked, or at any time when no
  InWorkflowOutputTopic names it.
* **Cycles with an exit.** Of each cycle of nodes, either an output topic can be reached, directly or through further
  nodes, or one of the destinations along it has a condition. So a ReAct loop is in order: its model publishes to the
  output by a condition. Whether a cycle ends is up to what its nodes yield.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from afl.core.limits import MAX_TOPIC_NAME_CHARS
from afl.core.text.near_names import close_names, did_you_mean
from afl.core.text.printable import printable
from afl_stream.pubsub.model.commands import Command
from afl_stream.pubsub.model.names import (
    LEGAL_WORKFLOW_NAME,
    NODE_NAME,
    RESERVED_TOPIC_NAMES,
    folded,
    hosted_name,
    is_legal_workflow,
    is_node_name,
)
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.topics import InputTopic, InWorkflowInputTopic, InWorkflowOutputTopic, OutputTopic, Topic
from afl_stream.pubsub.model.ways import cycle_faults, is_or_are, named, reach_faults

#: The least likeness of a topic that may be meant by another name: `lines` does not stand for `files`.
_LIKENESS: Final = 0.75
#: Topics to which the caller publishes, and those from which it takes.
_FROM_CALLER = (InputTopic, InWorkflowInputTopic)
_TO_CALLER = (OutputTopic, InWorkflowOutputTopic)


def faults_of(
    name: str, nodes: Sequence[Node], topics: Mapping[str, Topic], max_buffered_events: int = 1
) -> tuple[str, ...]:
    """Return everything that keeps a workflow from running, without a fault that follows from another one."""
    if not nodes:
        return (*_setting_faults(name, max_buffered_events), "it has no node; node(...) adds one")
    return (
        *_setting_faults(name, max_buffered_events),
        *_node_faults(name, nodes),
        *_topic_name_faults(name, topics),
        *_missing_topics(nodes),
        *_wrong_ways(nodes),
        *_unknown_topics(nodes, topics),
        *_reply_faults(topics),
        *reach_faults(nodes, topics),
        *cycle_faults(nodes),
    )


def _setting_faults(name: object, max_buffered_events: object) -> Iterator[str]:
    if not is_legal_workflow(name):
        shown = printable(repr(name), 300)
        yield f"its name {shown} cannot be part of a topic's name on Kafka: use {LEGAL_WORKFLOW_NAME}"
    is_count = isinstance(max_buffered_events, int) and not isinstance(max_buffered_events, bool)
    if not is_count or max_buffered_events < 1:  # type: ignore[operator]  # is_count
        yield f"max_buffered_events is {max_buffered_events!r:.50}; a topic holds 1 event or more for its consumers"


def _node_faults(name: str, nodes: Sequence[Node]) -> Iterator[str]:
    for node_name, count in Counter(node.name for node in nodes).items():
        if count > 1:
            yield f"{count} nodes have the name {node_name}; each node has a name of its own"
        if node_name == name:
            yield f"node {node_name} has the workflow's name, under which the caller takes output; use another one"
    for node in nodes:
        if not is_node_name(node.name):
            yield f"a node has the name {printable(repr(node.name), 100)}; use {NODE_NAME}"
        if not isinstance(node.command, Command):
            found = type(node.command).__qualname__
            yield f"node {node.name} has a {found} as command; FunctionCommand(...) makes a command of a function"
        if node.max_events is not None and node.max_events < 1:
            yield f"node {node.name} has max_events {node.max_events}; a run takes 1 event of each topic or more"
        for topic, count in Counter(to.topic.name for to in node.destinations).items():
            if count > 1:
                yield (
                    f"node {node.name} publishes to topic {topic} {count} times; "
                    "one destination, with one condition for all its cases, is right"
                )


def _topic_name_faults(name: str, topics: Mapping[str, Topic]) -> Iterator[str]:
    known: dict[str, str] = {}
    for topic in topics:
        former = known.setdefault(folded(topic), topic)
        if former != topic:
            yield f"topics {former} and {topic} are one for Kafka, which folds '.' and '_'; rename one of them"
        if topic in RESERVED_TOPIC_NAMES:
            yield f"topic {topic} has the name of a topic of the runtime; use another one"
        if len(hosted_name(name, topic)) > MAX_TOPIC_NAME_CHARS:
            yield (
                f"topic {printable(topic, 300)} has a name of {len(topic)} characters; on Kafka it is "
                f"pubsub.<workflow>.<topic> behind a prefix, of at most {MAX_TOPIC_NAME_CHARS} characters in all"
            )


def _missing_topics(nodes: Sequence[Node]) -> Iterator[str]:
    if not any(isinstance(topic, InputTopic) for node in nodes for topic in node.subscribed_topics):
        yield "no node is subscribed to an InputTopic, to which the input of a request is published; subscribe one"
    if not any(isinstance(to.topic, OutputTopic) for node in nodes for to in node.destinations):
        yield "no node publishes to an OutputTopic, from which the caller takes the output; let one publish there"


def _wrong_ways(nodes: Sequence[Node]) -> Iterator[str]:
    for node in nodes:
        for topic in node.subscribed_topics:
            if isinstance(topic, _TO_CALLER):
                yield (
                    f"node {node.name} is subscribed to the {topic.type} {topic.name}, from which only the caller "
                    "takes; let its publishers publish to a Topic as well, and subscribe the node to that"
                )
        for topic in (to.topic for to in node.destinations):
            if isinstance(topic, _FROM_CALLER):
                yield (
                    f"node {node.name} publishes to the {topic.type} {topic.name}, to which only the caller "
                    "publishes; use a Topic, and subscribe to either: input | topic"
                )


def _unknown_topics(nodes: Sequence[Node], topics: Mapping[str, Topic]) -> Iterator[str]:
    subscribers = _nodes_by_topic((topic.name, node.name) for node in nodes for topic in node.subscribed_topics)
    publishers = _nodes_by_topic((to.topic.name, node.name) for node in nodes for to in node.destinations)
    for name, topic in topics.items():
        is_callers = isinstance(topic, (*_FROM_CALLER, *_TO_CALLER))
        if name not in subscribers and name not in publishers:
            yield f"no node uses the {topic.type} {name}; {_near(name, topics, 'leave it out, or use it')}"
        elif isinstance(topic, _FROM_CALLER) and name not in subscribers:
            yield f"no node is subscribed to the {topic.type} {name}; {_near(name, topics, 'subscribe one')}"
        elif name not in publishers and not is_callers:
            hint = _near(name, topics, "let a node publish to it")
            subject = is_or_are("node", subscribers[name])
            yield f"{subject} subscribed to topic {name}, and no node publishes to it; {hint}"
        elif name not in subscribers and not is_callers:
            hint = _near(name, topics, "subscribe a node to it, or make it an OutputTopic")
            verb = "publishes" if len(publishers[name]) == 1 else "publish"
            yield f"{named('node', publishers[name])} {verb} to topic {name}, and no node is subscribed to it; {hint}"


def _near(name: str, topics: Iterable[str], otherwise: str) -> str:
    """Return the question about topics with similar names; without one, what to do otherwise."""
    return (
        did_you_mean(close_names(name, [other for other in topics if other != name], min_likeness=_LIKENESS))
        or otherwise
    )


def _nodes_by_topic(pairs: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for topic, node in pairs:
        found.setdefault(topic, []).append(node)
    return found


def _reply_faults(topics: Mapping[str, Topic]) -> Iterator[str]:
    answers = [name for name, topic in topics.items() if isinstance(topic, InWorkflowInputTopic)]
    for name, topic in topics.items():
        if not isinstance(topic, InWorkflowOutputTopic) or topic.reply_to in answers:
            continue
        reply = topics.get(topic.reply_to)
        if not topic.reply_to:
            found = "has no reply_to"
        elif reply is None:
            found = f"has reply_to {topic.reply_to}, to which no node is subscribed"
        else:
            found = f"has reply_to {topic.reply_to}, which is of type {reply.type}"
        hint = _near(topic.reply_to, answers, "name the InWorkflowInputTopic for the answers")
        yield f"the InWorkflowOutputTopic {name} {found}; {hint}"
