"""Links between nodes that run functions and nodes whose models may call them."""

from __future__ import annotations

from collections.abc import Collection

from afl_stream.pubsub.model.commands import CallsFunctions, RunsFunctions
from afl_stream.pubsub.model.nodes import Node, NodeInvalid


def link_functions(nodes: Collection[Node]) -> dict[str, tuple[str, ...]]:
    """Tell each command that calls functions which ones the nodes behind it run.

    A node that runs functions stands behind those that publish to a topic that it is subscribed to. Returns the linked
    nodes: for each that calls functions, the names of those that run them. Raises NodeInvalid for a function that two
    nodes would run for one call.
    """
    links: dict[str, tuple[str, ...]] = {}
    for caller in nodes:
        command = caller.command
        if not isinstance(command, CallsFunctions):
            continue
        published = {to.topic.name for to in caller.destinations}
        behind = [node for node in nodes if published.intersection(topic.name for topic in node.subscribed_topics)]
        linked = [(node.name, node.command) for node in behind if isinstance(node.command, RunsFunctions)]
        for _, runner in linked:
            command.add_function_specs(runner.function_specs())
        for topic in published:
            _check_each_runs_once(caller, topic, behind)
        if linked:
            links[caller.name] = tuple(name for name, _ in linked)
    return links


def _check_each_runs_once(caller: Node, topic: str, behind: Collection[Node]) -> None:
    runs: dict[str, str] = {}
    for node in behind:
        if not isinstance(node.command, RunsFunctions) or topic not in {known.name for known in node.subscribed_topics}:
            continue
        for spec in node.command.function_specs():
            if (other := runs.setdefault(spec["name"], node.name)) != node.name:
                fault = (
                    f"nodes {other} and {node.name} both run function {spec['name']} for each call on topic {topic}; "
                    "give it to one of them"
                )
                raise NodeInvalid(caller.name, (fault,))
