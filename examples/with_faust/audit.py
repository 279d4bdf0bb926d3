"""An audit of shop.Charge in Faust's tables: `faust -A examples.with_faust.audit worker --without-web`.

Two tables keep what was asked and what was answered, by step; they survive the worker in their changelogs. What they
hold of a record is its place in its topic, so that reading a record twice changes nothing. The command

    faust -A examples.with_faust.audit counts

reads the changelogs, whether or not a worker runs.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import faust

from examples.with_faust import deployment, wire

FACET = "shop.Charge"

app = faust.App(
    f"{deployment.PREFIX}audit.faust",
    broker=deployment.broker(),
    datadir=".faust",
    broker_session_timeout=10.0,
    broker_heartbeat_interval=1.0,
    topic_disable_leader=True,
)
events = app.topic(deployment.events_of(FACET), key_type=bytes, value_type=bytes, value_serializer="raw")
control = app.topic(deployment.CONTROL, key_type=bytes, value_type=bytes, value_serializer="raw")
records = wire.Records(deployment.BOOTSTRAP, deployment.SCHEMAS)

#: What was asked, by step: places of the event's records.
asked = app.Table("asked", key_type=str, partitions=deployment.EVENT_PARTITIONS)
#: What was answered, by step of any facet: places of the records by type and event. All answers to a step have the
#: same key, the workflow's id, and so are in one partition of the table.
answered = app.Table("answered", key_type=str, partitions=deployment.CONTROL_PARTITIONS)


@app.agent(events)
async def questions(stream: Any) -> None:
    """Note each event."""
    async for received in stream.noack().events():
        await note(asked, received, {"Event"})


@app.agent(control)
async def answers(stream: Any) -> None:
    """Note each answer, of any facet."""
    async for received in stream.noack().events():
        await note(answered, received, {"StepContinue", "StepFailed"})


async def note(table: Any, received: Any, kinds: set[str]) -> None:
    """Put a record down in a table; only when the changelog has it, the offset may be committed."""
    try:
        kind, fields = await records.decode(received.value)
    except wire.Unreadable:
        kind = ""
    if kind in kinds:
        message = received.message
        step = table.get(fields["step_id"], {})
        of_kind = step.setdefault(kind, {})
        places = of_kind.setdefault(fields.get("event_id") or fields.get("id") or "", [])
        place = f"{message.partition}:{message.offset}"
        if place not in places:
            places.append(place)
            table[fields["step_id"]] = step
            await app.producer.flush()
    received.ack()


@app.command()
async def counts() -> None:
    """Print what became of the facet's events, from the changelogs of the tables."""
    print(json.dumps(summary(await contents(asked), await contents(answered))))


async def contents(table: Any) -> dict[str, Any]:
    """Return what a table holds, from its changelog."""
    held: dict[str, Any] = {}
    async for record in wire.all_records(deployment.BOOTSTRAP, table.changelog_topic.get_topic_name()):
        held[json.loads(record.key)] = json.loads(record.value)
    return held


def summary(questions: Mapping[str, Any], replies: Mapping[str, Any]) -> dict[str, int]:
    """Count the steps that were asked by what became of them, and the answers that came again."""
    found: Counter[str] = Counter(steps=len(questions))
    for step_id in questions:
        kinds = replies.get(step_id, {})
        state = "answered" if "StepContinue" in kinds else "failed" if "StepFailed" in kinds else "waiting"
        found[state] += 1
        found["repeated"] += sum(len(places) - 1 for events in kinds.values() for places in events.values())
    return {name: found[name] for name in ("steps", "answered", "failed", "waiting", "repeated")}
