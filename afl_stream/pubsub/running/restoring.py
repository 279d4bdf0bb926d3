"""What is stored of a request becomes a run again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from afl_stream.pubsub.event_stores.store import RequestStatus, StoredRequest
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, TopicEvent
from afl_stream.pubsub.running.errors import StoredEventsUnusable
from afl_stream.pubsub.running.node_runner import NodeRunner, length_of

if TYPE_CHECKING:
    from afl_stream.pubsub.running.run import WorkflowRun

_log = logging.getLogger(__name__)


class _Published(NamedTuple):
    """What the last invocation of a node that published anything has taken and published."""

    consumed: tuple[str, ...]
    published_ids: list[str]


def restore(run: WorkflowRun, stored: StoredRequest) -> None:
    """Put the stored events back on their topics, and queue the nodes that can go on.

    Events of topics and consumers that the workflow no longer has are passed over, and told of where the request is not
    finished: nobody takes them any more, and a node of another name takes again what was taken.
    """
    gone: dict[str, None] = {}
    published: dict[str, _Published] = {}
    outputs: list[TopicEvent] = []
    was_input = False
    for event in stored.events:
        if isinstance(event, ConsumeFromTopicEvent):
            if not event.name:
                # A worker's note, of no topic and of no node.
                continue
            log = run.logs.get(event.name)
            if log is not None and event.consumer_name in log.cursors:
                log.commit(event.consumer_name, event.offset)
            elif event.consumer_name not in run.runners and event.consumer_name != run.definition.name:
                gone[f"node {event.consumer_name}"] = None
            was_input = False
            continue
        if event.name in run.logs:
            _put_back(run, event)
        else:
            gone[f"topic {event.name}"] = None
        if event.name in run.outputs.topics:
            outputs.append(event)
        if event.publisher_name in run.runners and event.consumed:
            _note_published(event, published)
        else:
            run.external_ids.add(event.event_id)
        is_input = event.publisher_name == run.definition.name and event.publisher_name not in run.runners
        if is_input:
            # An input on several topics is stored in one piece.
            run.last_inputs = {**(run.last_inputs if was_input else {}), event.name: event.data}
        was_input = is_input
    if gone and stored.status is not RequestStatus.FINISHED:
        _log.warning(
            "workflow %s, request %s: it was begun by a workflow with %s, which this one does not have: their events "
            "are passed over",
            run.definition.name,
            run.request_id,
            ", ".join(gone),
        )
    run.writer.restored(len(stored.events), stored.status)
    run.was_unfinished = stored.status in (RequestStatus.RUNNING, RequestStatus.FAILED)
    for name, last in published.items():
        _interrupt(run, run.runners[name], last)
    run.outputs.restore(outputs)
    run.scheduler.queue(run.runners)


def _put_back(run: WorkflowRun, event: TopicEvent) -> None:
    log = run.logs[event.name]
    if event.offset != log.end:
        raise StoredEventsUnusable(
            run.definition.name,
            run.request_id,
            f"its stored events have offset {event.offset} on topic {event.name}, where {log.end} is the next",
        )
    log.restore(event)


def _note_published(event: TopicEvent, published: dict[str, _Published]) -> None:
    """Note what a node has published last."""
    last = published.get(event.publisher_name)
    if last is None or last.consumed != event.consumed:
        last = published[event.publisher_name] = _Published(event.consumed, [])
    last.published_ids.append(event.event_id)


def _interrupt(run: WorkflowRun, runner: NodeRunner, last: _Published) -> None:
    """Let a node go on with the invocation that was interrupted, if its last one was."""
    found = [(taken, runner.uncommitted(taken)) for taken in last.consumed]
    parts = [(taken, part) for taken, part in found if part is not None]
    events = [event for _, part in parts for event in part]
    if not events:
        return
    if partly := [taken for taken, part in parts if len(part) < length_of(taken)]:
        raise StoredEventsUnusable(
            run.definition.name,
            run.request_id,
            f"node {runner.node.name} has committed some of {', '.join(partly)}, which one invocation took; "
            "the commits of an invocation are stored together",
        )
    runner.interrupt(events, set(last.published_ids))
