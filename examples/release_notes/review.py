"""The review of a draft: an event-driven workflow whose three checks run at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from afl_stream.pubsub import (
    ConsumeFromTopicEvent,
    EventDrivenWorkflow,
    InputTopic,
    InvokeContext,
    Node,
    NodeBuilder,
    OutputTopic,
)
from afl_stream.pubsub.event_stores.store import EventStore
from examples.release_notes.changelog import hard_to_read, missing_paths, points_of, shortened

#: The clone that a draft is about.
ROOT: Final = Path(__file__).parents[2]

Taken = Sequence[ConsumeFromTopicEvent]


def _data(events: Taken) -> Any:
    (event,) = events
    return event.data


def draft(_context: InvokeContext, events: Taken) -> dict[str, object]:
    """Return the draft of a version's notes."""
    asked = _data(events)
    points = points_of(Path(asked["changelog"]).read_text(), asked["version"])
    return {"title": f"Release notes: {asked['version']}, {len(points)} points", "points": points}


def shorten(_context: InvokeContext, events: Taken) -> dict[str, object]:
    """Shorten each point to its beginning."""
    drafted = _data(events)
    return {"title": drafted["title"], "lines": [f"* {shortened(point)}" for point in drafted["points"]]}


def check_paths(_context: InvokeContext, events: Taken) -> list[str]:
    """Remark on paths that the tree does not have."""
    return list(missing_paths(_data(events)["points"], ROOT))


def check_style(_context: InvokeContext, events: Taken) -> list[str]:
    """Remark on points that are hard to read."""
    return list(hard_to_read(_data(events)["points"]))


def edit(_context: InvokeContext, events: Taken) -> dict[str, object]:
    """Join the short text and all remarks."""
    parts: dict[str, Any] = {event.name: event.data for event in events}
    text = "\n".join([parts["short"]["title"], *parts["short"]["lines"]])
    return {"text": text, "remarks": [*parts["paths"], *parts["style"]]}


#: Answers notes.Draft on its own: no workflow around it.
DRAFT_NODE: Final[Node] = NodeBuilder().name("draft").command(draft).subscribe("changelogs").build()


def review(store: EventStore | None = None) -> EventDrivenWorkflow:
    """Return the workflow that answers notes.Review."""
    drafts, notes = InputTopic("drafts"), OutputTopic("notes")
    builder = EventDrivenWorkflow.builder().name("Review")
    if store is not None:
        builder = builder.event_store(store)
    return (
        builder.node(NodeBuilder().name("shorten").command(shorten).subscribe(drafts).publish_to("short"))
        .node(NodeBuilder().name("paths").command(check_paths).subscribe(drafts).publish_to("paths"))
        .node(NodeBuilder().name("style").command(check_style).subscribe(drafts).publish_to("style"))
        .node(NodeBuilder().name("edit").command(edit).subscribe("short & paths & style").publish_to(notes))
        .build()
    )
