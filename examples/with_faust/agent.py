"""An agent of shop.Charge in Faust: `faust -A examples.with_faust.agent worker --without-web`.

For each event, in this order:
  1. decode it,
  2. do the work,
  3. send the answer, and wait until the broker has it,
  4. acknowledge the event: Faust may commit its offset from here on.

A crash before 4 delivers the event again, and its answer is a duplicate that changes nothing. Faust by itself
acknowledges an event when the loop goes on, also when the loop is left by an exception or a cancellation, as at a
rebalance; with `noack` the event is acknowledged where this program says so, and nowhere else.
"""

import logging
import os
import socket
from typing import Any

import faust
import mode

from examples.with_faust import deployment, wire

FACET = "shop.Charge"
NAME = f"faust {FACET} on {socket.gethostname()}, process {os.getpid()}"

logger = logging.getLogger(__name__)

app = faust.App(
    # The name of the app is that of its consumer group: where there are ACLs, an agent's group is this one.
    f"{deployment.PREFIX}agent.{FACET}",
    broker=deployment.broker(),
    datadir=".faust",
    # A worker that died is taken over from after this time; Faust's default is a minute.
    broker_session_timeout=10.0,
    broker_heartbeat_interval=1.0,
    broker_commit_interval=1.0,
    # Topics are made by `afl-stream topics apply`, and this app needs none of its own.
    topic_disable_leader=True,
    topic_allow_declare=False,
)
events = app.topic(deployment.events_of(FACET), key_type=bytes, value_type=bytes, value_serializer="raw")
control = app.topic(deployment.CONTROL, key_type=bytes, value_type=bytes, value_serializer="raw")
dead_letters = app.topic(
    f"{deployment.PREFIX}dlq.events.{FACET}", key_type=bytes, value_type=bytes, value_serializer="raw"
)
records = wire.Records(deployment.BOOTSTRAP, deployment.SCHEMAS)


async def charge(order: str, amount: float, idempotency_key: str) -> dict[str, object]:
    """Do the work. What it does outside is done once for each key, however often it is asked."""
    if amount <= 0:
        raise ValueError(f"an amount has to be above 0, not {amount}")
    logger.info("charging %s for %s (%s)", amount, order, idempotency_key)
    return {"receipt": f"r-{order}"}


# What is raised here ends the worker, and its orchestrator starts another one: an agent that went on behind the event
# that failed would leave it unanswered.
@app.agent(events, supervisor_strategy=mode.CrashingSupervisor)
async def charges(stream: Any) -> None:
    """Answer each event of the facet."""
    async for received in stream.noack().events():
        try:
            _, event = await records.decode(received.value)
        except wire.Unreadable as error:
            await put_aside(received, error)
        else:
            await answer(event["workflow_id"], await outcome_of(event))
        received.ack()


async def outcome_of(event: dict[str, Any]) -> bytes:
    """Do the work of an event and return its answer."""
    try:
        result = await charge(**wire.parameters(event), idempotency_key=event["id"])
    except Exception as error:
        logger.exception("%s of %s failed", FACET, event["step_id"])
        return wire.step_failed(event, error, NAME)
    return wire.step_continue(event, result, NAME)


async def put_aside(received: Any, error: Exception) -> None:
    """Send a record that cannot be read to the facet's dead letters, as it came; its step fails where it is known."""
    message = received.message
    headers = dict(message.headers or ())
    origin = {"topic": message.topic, "partition": message.partition, "offset": message.offset, "error": error}
    marked = {**headers, **{f"afl.dlq.{name}": str(value).encode() for name, value in origin.items()}}
    await (await dead_letters.send(key=message.key, value=message.value, headers=marked))
    if (event := wire.named_by(headers)) is not None:
        await answer(event["step_id"].partition(":")[0], wire.step_failed(event, error, NAME))


async def answer(workflow_id: str, value: bytes) -> None:
    """Send an answer to the evaluators, and wait until the broker has it."""
    # The workflow's id is the key, and Faust's partitioner is Kafka's: the evaluator that has the workflow reads it.
    await (await control.send(key=workflow_id.encode(), value=value, headers=wire.JSON_HEADERS))
