"""The agent in Faust: `faust -A benchmarks.peers.faust_echo worker --without-web`, told by its environment what to do.

Batches, as whoever wants throughput of Faust takes them: all records of one are sent, then all acknowledgements are
awaited, then the batch is acknowledged. One record at a time would wait a round trip to the broker for each.
"""

from typing import Any

import faust

from benchmarks.peers.answers import ANSWERS, BOOTSTRAP, COMMIT_INTERVAL_S, EVENTS, GROUP, IS_ANSWERING, answering

_BATCH = 500
_WITHIN_S = 0.05

app = faust.App(
    GROUP,
    broker=f"kafka://{BOOTSTRAP}",
    broker_commit_interval=COMMIT_INTERVAL_S,
    topic_disable_leader=True,
    topic_allow_declare=False,
)
events = app.topic(EVENTS, key_type=bytes, value_type=bytes, value_serializer="raw")
answers = app.topic(ANSWERS, key_type=bytes, value_type=bytes, value_serializer="raw")
answerer = answering()


@app.agent(events)
async def drain(stream: Any) -> None:
    """Answer what comes, or send it on."""
    async for batch in stream.noack_take(_BATCH, within=_WITHIN_S):
        sent = []
        for received in batch:
            if IS_ANSWERING:
                event = answerer.event_of(received.value)
                key, value = event["workflow_id"].encode(), answerer.answer_to(event)
            else:
                key, value = received.key, received.value
            sent.append(await answers.send(key=key, value=value))
        for acknowledgement in sent:
            await acknowledgement
        for received in batch:
            received.ack()
