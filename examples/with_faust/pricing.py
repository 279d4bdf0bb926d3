"""Prices in Faust, for the workflow of offers.py: `faust -A examples.with_faust.pricing worker --without-web`.

It takes from one topic of the workflow and publishes to another one, with the id of the request as the key: then the
event reaches the worker that has the request. As in agent.py, an event is acknowledged when the broker has what it led
to; a crash before that delivers it again, and the event that is published again has the same id.
"""

import logging
from typing import Any

import faust
import mode

from examples.with_faust import deployment, wire

WORKFLOW = "Offers"
NAME = "faust pricing"
#: In cents.
PRICES = {"desk": 48_000, "lamp": 3_950, "pen": 120}

logger = logging.getLogger(__name__)

app = faust.App(
    f"{deployment.PREFIX}pubsub.{WORKFLOW}.pricing",
    broker=deployment.broker(),
    datadir=".faust",
    broker_session_timeout=10.0,
    broker_heartbeat_interval=1.0,
    broker_commit_interval=1.0,
    topic_disable_leader=True,
    topic_allow_declare=False,
)
wanted = app.topic(deployment.topic_of(WORKFLOW, "wanted"), key_type=bytes, value_type=bytes, value_serializer="raw")
prices = app.topic(deployment.topic_of(WORKFLOW, "prices"), key_type=bytes, value_type=bytes, value_serializer="raw")
records = wire.Records(deployment.BOOTSTRAP, deployment.SCHEMAS)


@app.agent(wanted, supervisor_strategy=mode.CrashingSupervisor)
async def price(stream: Any) -> None:
    """Give each item its price."""
    async for received in stream.noack().events():
        try:
            kind, event = await records.decode(received.value)
        except wire.Unreadable:
            logger.exception("a record of %s cannot be read, and is skipped", received.message.topic)
            received.ack()
            continue
        # Records that say how a request stands are on this topic too.
        if kind == "TopicEvent" and event["kind"] in ("publish", "output"):
            total = PRICES.get(event["data"]["item"], 0) * event["data"]["count"] / 100
            value = wire.topic_event(event, "prices", {**event["data"], "total": total}, NAME)
            await (await prices.send(key=event["request_id"].encode(), value=value, headers=wire.JSON_HEADERS))
        received.ack()
