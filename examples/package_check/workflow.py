"""The workflow of the package check: one request for each package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from afl_stream.pubsub import (
    ConsumeFromTopicEvent,
    EventDrivenWorkflow,
    InputTopic,
    InvokeContext,
    NodeBuilder,
    OutputTopic,
    Topic,
)
from afl_stream.pubsub.event_stores.store import EventStore
from examples.package_check.dpkg import checksums_of, compared_files, history_of, licences_of

NAME: Final = "PackageCheck"

#: What a request asks: {"package": "bash", "root": "/"}.
PACKAGES: Final = InputTopic("packages")
#: A package that is there; the three nodes behind it work at the same time.
FOUND: Final = Topic("found")
ABSENT: Final = Topic("absent")
FILES: Final = Topic("files")
LICENCES: Final = Topic("licences")
HISTORY: Final = Topic("history")
#: Files that are not as they were installed, and copyright files that name no licence for machines.
DAMAGE: Final = Topic("damage")
UNCLEAR: Final = Topic("unclear")
REPORTS: Final = OutputTopic("reports")
ALARMS: Final = OutputTopic("alarms")


def find(_context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> dict[str, Any]:
    """Say whether the package is there."""
    (asked,) = (event.data for event in events)
    return {**asked, "is_there": checksums_of(Path(asked["root"]), asked["package"]) is not None}


def compare(_context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
    """Compare the files with their checksums."""
    (found,) = (event.data for event in events)
    return compared_files(Path(found["root"]), found["package"])


def read_licences(_context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
    """Read the copyright file."""
    (found,) = (event.data for event in events)
    return licences_of(Path(found["root"]), found["package"])


def read_log(_context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
    """Read the log."""
    (found,) = (event.data for event in events)
    return history_of(Path(found["root"]), found["package"])


def report(_context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> dict[str, Any]:
    """Join what the three nodes have found."""
    parts = {event.name: event.data for event in events}
    files, licences, history = parts["files"], parts["licences"], parts["history"]
    return {
        "package": files["package"],
        "files": files["files"],
        "bytes": files["bytes"],
        "changed": len(files["changed"]),
        "missing": len(files["missing"]),
        "licences": licences["licences"],
        "last": history["last"],
    }


def alarm(_context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> Iterator[dict[str, str]]:
    """Say in a sentence what is wrong: one for each event, whichever topic it comes from."""
    for event in events:
        yield {"package": event.data["package"], "text": _sentence(event.name, event.data)}


def _sentence(topic: str, data: Any) -> str:
    if topic == ABSENT.name:
        return "is not installed"
    if topic == UNCLEAR.name:
        return "names no licence in a form for machines"
    wrong = [(data["changed"], "changed"), (data["missing"], "missing")]
    listed = " and ".join(f"{len(files)} {what}" for files, what in wrong if files)
    first = (data["changed"] or data["missing"])[0]
    return f"files not as installed: {listed} of {data['files']}, for instance {first}"


def is_there(found: Any) -> bool:
    """Return whether the package is installed."""
    return bool(found["is_there"])


def is_absent(found: Any) -> bool:
    """Return whether the package is not installed."""
    return not found["is_there"]


def is_damaged(files: Any) -> bool:
    """Return whether files are not as they were installed."""
    return bool(files["changed"] or files["missing"])


def is_unclear(licences: Any) -> bool:
    """Return whether no program can read the licences."""
    return not licences["is_clear"]


def package_check(store: EventStore | None = None) -> EventDrivenWorkflow:
    """Return the workflow. Without a store its requests are kept in memory."""
    builder = EventDrivenWorkflow.builder().name(NAME)
    if store is not None:
        builder = builder.event_store(store)
    return (
        builder.node(
            NodeBuilder()
            .name("find")
            .command(find)
            .subscribe(PACKAGES)
            .publish_to(FOUND, when=is_there)
            .publish_to(ABSENT, when=is_absent)
        )
        .node(
            NodeBuilder()
            .name("compare")
            .command(compare)
            .subscribe(FOUND)
            .publish_to(FILES)
            .publish_to(DAMAGE, when=is_damaged)
        )
        .node(
            NodeBuilder()
            .name("licences")
            .command(read_licences)
            .subscribe(FOUND)
            .publish_to(LICENCES)
            .publish_to(UNCLEAR, when=is_unclear)
        )
        .node(NodeBuilder().name("log").command(read_log).subscribe(FOUND).publish_to(HISTORY))
        .node(NodeBuilder().name("report").command(report).subscribe("files & licences & history").publish_to(REPORTS))
        .node(NodeBuilder().name("alarm").command(alarm).subscribe("absent | damage | unclear").publish_to(ALARMS))
        .build()
    )
