"""A hosted workflow that rights on a cluster are made of, as the text of a module."""

from typing import Final

REVIEW: Final = """
from afl_stream.pubsub import EventDrivenWorkflow, InputTopic, Node, OutputTopic


def shout(context, events):
    return events[0].data.upper()


review = (
    EventDrivenWorkflow.builder()
    .name("review")
    .node(Node.builder().name("shout").command(shout).subscribe(InputTopic("cases")).publish_to(OutputTopic("told")))
    .build()
)
"""
