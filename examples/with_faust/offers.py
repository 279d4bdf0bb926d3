"""An event-driven workflow, one of whose nodes is an app of Faust: `afl-stream pubsub run examples.with_faust.offers`.

The node `ask` wants a price, and `offer` goes on when there is one. Between them stands whatever takes from the topic
`wanted` and publishes to the topic `prices`: here pricing.py, and it may as well be a person.
"""

from collections.abc import Sequence

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

ORDERS = InputTopic("orders")
WANTED = InWorkflowOutputTopic("wanted", reply_to="prices")
PRICES = InWorkflowInputTopic("prices")
OFFERS = OutputTopic("offers")


def ask(_context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
    """Want a price for what was ordered."""
    (order,) = (event.data for event in events)
    return {"item": order["item"], "count": order["count"]}


def offer(_context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
    """Offer it at the price."""
    (price,) = (event.data for event in events)
    return f"{price['count']} x {price['item']} for {price['total']:.2f}"


workflow = (
    EventDrivenWorkflow.builder()
    .name("Offers")
    .node(NodeBuilder().name("ask").command(ask).subscribe(ORDERS).publish_to(WANTED).max_events(1))
    .node(NodeBuilder().name("offer").command(offer).subscribe(PRICES).publish_to(OFFERS).max_events(1))
    .build()
)
