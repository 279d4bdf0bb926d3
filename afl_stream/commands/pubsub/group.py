"""The group `pubsub`: event-driven workflows, which Python modules declare."""

from __future__ import annotations

from typing import Final

import click

from afl.core.process.click_groups import LazyGroup

_COMMANDS: Final = {
    "check": ("afl_stream.commands.pubsub.declared:check_command", "Check a workflow, and list its nodes and topics."),
    "draw": ("afl_stream.commands.pubsub.declared:draw_command", "Draw a workflow as SVG or Mermaid."),
    "topics": (
        "afl_stream.commands.pubsub.hosted:topics_command",
        "Show which topics a workflow needs on the cluster, or create them.",
    ),
    "run": (
        "afl_stream.commands.pubsub.hosted:run_command",
        "Run a worker, which shares the requests of a workflow with others.",
    ),
    "invoke": ("afl_stream.commands.pubsub.invoking:invoke_command", "Send a request, and show its output."),
    "requests": ("afl_stream.commands.pubsub.requests:requests_command", "List the requests to a workflow."),
    "show": ("afl_stream.commands.pubsub.requests:show_command", "Show a request, event by event."),
    "forget": (
        "afl_stream.commands.pubsub.forgetting:forget_command",
        "Remove requests from the event store, by id or by age.",
    ),
    "subscribe": (
        "afl_stream.commands.pubsub.subscribing:subscribe_command",
        "Write the messages of topics as lines of JSON.",
    ),
}


@click.group("pubsub", cls=LazyGroup, table=_COMMANDS)
def pubsub_group() -> None:
    """Check, draw and run event-driven workflows, and subscribe to topics.

    MODULE:WORKFLOW names a workflow: a module or .py file, and a name in it, which holds the workflow, or a function
    without parameters that returns it. The name may be left out where the module holds one workflow.
    """
