"""The event store of a deployment: where the requests to its workflows are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from afl.core.process.private_files import make_private_folder
from afl.core.text.masking import shown_url
from afl_stream.commands.invocation import NothingThere, open_transport
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.opening import open_event_store
from afl_stream.pubsub.event_stores.store import EventStore
from afl_stream.settings.config import StreamConfig

if TYPE_CHECKING:
    from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
    from afl_stream.transport import Transport

#: What the setting says where the store is the workflow's own topic.
_ON_TOPIC: Final = "topic"
_FILE: Final = "pubsub.sqlite3"


def described_event_store(config: StreamConfig, workflow: EventDrivenWorkflow | None) -> str:
    """Return in words where the requests are kept, and why there."""
    if config.pubsub.store is not None:
        place = _place(config)
        shown = "on the topic of the workflow" if place == _ON_TOPIC else shown_url(place)
        return f"requests are kept {'in ' if place != _ON_TOPIC else ''}{shown}, as pubsub.store says"
    if _own(workflow) is not None:
        return "requests are kept in the workflow's own store"
    return f"requests are kept {'on the topic of the workflow' if config.is_kafka else f'in {_place(config)}'}"


def keeps_requests_on_topic(config: StreamConfig, workflow: EventDrivenWorkflow) -> bool:
    """Return whether workers keep the requests on a topic of the workflow, on a cluster."""
    if config.pubsub.store is not None:
        return config.pubsub.store == _ON_TOPIC
    return _own(workflow) is None


@asynccontextmanager
async def opened_event_store(
    config: StreamConfig,
    workflow: EventDrivenWorkflow | None,
    *,
    transport: Transport | None = None,
    create: bool = False,
) -> AsyncIterator[EventStore]:
    """Open the store of a workflow's requests, and close it at the end.

    It is the one of the settings, else the workflow's own, else the deployment's. `transport`: the one that is open.
    Raises NothingThere for a file that is not there unless it is to be created, and the store's own errors.
    """
    with ExitStack() as opened:
        own, place = _own(workflow), _place(config)
        if own is not None and config.pubsub.store is None:
            store = own
        elif place == _ON_TOPIC:
            transport = opened.enter_context(open_transport(config)) if transport is None else transport
            store = opened.enter_context(_on_topic(config, transport))
        else:
            _look_for_file(place, create=create)
            store = open_event_store(place)
        try:
            yield store
        finally:
            await store.close()


def _place(config: StreamConfig) -> str:
    """Return where the deployment keeps requests: a path, a URL, or on the topic."""
    if config.pubsub.store is not None:
        return config.pubsub.store
    return _ON_TOPIC if config.is_kafka else str(config.data_dir / _FILE)


def _own(workflow: EventDrivenWorkflow | None) -> EventStore | None:
    """Return the store that a workflow was built with, if that outlives the process."""
    if workflow is None or isinstance(workflow.event_store, MemoryEventStore):
        return None
    return workflow.event_store


def _look_for_file(place: str, *, create: bool) -> None:
    """Make the folder of a file that is to be created. Raises NothingThere where it is only to be read."""
    path = Path(place.removeprefix("sqlite:///"))
    if "://" in str(path) or path.exists():
        return
    if not create:
        raise NothingThere(path, "event store", "afl-stream pubsub invoke MODULE:WORKFLOW INPUT creates it")
    make_private_folder(path.parent)


@contextmanager
def _on_topic(config: StreamConfig, transport: Transport) -> Iterator[EventStore]:
    from afl_stream.pubsub.event_stores.on_topic import TopicEventStore
    from afl_stream.registry.deployment_codec import DeploymentCodec
    from afl_stream.topics.declared import Topology

    topology = Topology(config)
    schemas = DeploymentCodec(config, transport, topology)
    try:
        yield TopicEventStore(transport, schemas.codec, topology.pubsub_state)
    finally:
        schemas.close()
