"""One node of one request: when it can run, what it takes, and what it publishes."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from afl.core.clock import epoch_ms
from afl.core.handlers.retry import next_try_s
from afl.core.text.exception_text import exception_line
from afl.core.values import plain_value
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, EventIds, TopicEvent, consumed_event
from afl_stream.pubsub.model.expressions import On
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.spans import Span, node_span
from afl_stream.pubsub.model.topics import Condition
from afl_stream.pubsub.running.errors import CommandMisbuilt
from afl_stream.pubsub.running.topic_log import Cursor, TopicLog

if TYPE_CHECKING:
    from afl_stream.pubsub.running.run import WorkflowRun

log = logging.getLogger(__name__)

#: Invocations of a node in a row, before other tasks have their turn.
_INVOCATIONS_A_TURN: Final = 100


def taken_by(events: Sequence[TopicEvent], consumer: str, consumer_type: str) -> list[ConsumeFromTopicEvent]:
    """Return events as a consumer takes them."""
    now_ms = epoch_ms()
    return [consumed_event((*event[:5], consumer, consumer_type, now_ms)) for event in events]


def taken_ranges(events: Sequence[ConsumeFromTopicEvent]) -> tuple[str, ...]:
    """Return what was taken, as every event that is made of it names it: `topic:first-last`, by offsets.

    An invocation takes what stands in a row. Each of its outputs names all of it, so ids would be too many.
    """
    bounds: dict[str, tuple[int, int]] = {}
    for event in events:
        first, _ = bounds.get(event.name, (event.offset, 0))
        bounds[event.name] = (first, event.offset)
    return tuple([f"{topic}:{first}-{last}" for topic, (first, last) in bounds.items()])


def length_of(taken: str) -> int:
    """Return how many events one of `taken_ranges` has."""
    first, _, last = taken.rpartition(":")[2].partition("-")
    return int(last) + 1 - int(first)


class Interrupted(NamedTuple):
    """An invocation that published and did not end: its events, and the ids of what it published."""

    events: list[ConsumeFromTopicEvent]
    published_ids: set[str]


class NodeRunner:
    """Runs one node of one request, one invocation after the other, in one task while there is something to take.

    An invocation, in this order:
      1. takes what the topics hold for the node,
      2. publishes what its command yields, as it comes,
      3. commits what it took.

    A crash before 3 leaves the events uncommitted. If some of what 2 published is stored, the same events are taken
    again, and what is published already is left out; else the node takes what is there.
    """

    __slots__ = (
        "_cursors",
        "_destinations",
        "_invoke",
        "_max_events",
        "_name",
        "_only",
        "_run",
        "_span",
        "_type",
        "interrupted",
        "is_queued",
        "node",
        "task",
    )

    def __init__(self, run: WorkflowRun, node: Node) -> None:
        self._run = run
        self.node = node
        self._name = node.name
        self._type = node.type
        self._max_events = node.max_events
        # A class of nodes may have rules of its own.
        is_plain = type(node) is Node
        self._invoke = node.command.invoke if is_plain else node.invoke
        self._cursors: dict[str, Cursor] = {
            topic.name: run.logs[topic.name].cursors[node.name] for topic in node.subscribed_topics
        }
        # Most nodes are subscribed to one topic, and need no expression evaluated.
        self._only = next(iter(self._cursors.values())) if is_plain and isinstance(node.subscription, On) else None
        self._destinations: list[tuple[Condition | None, TopicLog]] = [
            (to.accepts if to.is_conditional else None, run.logs[to.topic.name]) for to in node.destinations
        ]
        # Of the invocation, where the request is traced.
        self._span: Span | None = None
        self.interrupted: Interrupted | None = None
        self.is_queued = False
        self.task: asyncio.Task[None] | None = None

    # --- taking -----------------------------------------------------------------------------------------------------

    def has_events(self, topic: str) -> bool:
        """Say whether a topic holds events that the node has not taken."""
        cursor = self._cursors[topic]
        return cursor.consumed < cursor.log.visible_end

    def can_invoke(self) -> bool:
        """Say whether the subscription is met, or an invocation was interrupted."""
        if (only := self._only) is not None:
            return only.consumed < only.log.visible_end or self.interrupted is not None
        return self.interrupted is not None or self.node.can_invoke(self.has_events)

    def holds_events(self) -> bool:
        """Say whether any topic holds events that the node has not taken."""
        return any(cursor.consumed < cursor.log.visible_end for cursor in self._cursors.values())

    def take(self) -> list[ConsumeFromTopicEvent]:
        """Return what every subscribed topic holds for the node, and count it as taken."""
        name, type, max_events = self._name, self._type, self._max_events
        if (only := self._only) is not None:
            if max_events != 1:
                return taken_by(only.take(max_events), name, type)
            # The same for one event, in half of the time.
            topic_log, offset = only.log, only.consumed
            if offset == topic_log.visible_end:
                return []
            only.consumed = offset + 1
            return [consumed_event((*topic_log.events[offset - topic_log.first][:5], name, type, epoch_ms()))]
        events: list[ConsumeFromTopicEvent] = []
        for cursor in self._cursors.values():
            events += taken_by(cursor.take(max_events), name, type)
        return events

    def uncommitted(self, taken: str) -> list[TopicEvent] | None:
        """Return the events of one of `taken_ranges` that the node has not committed. None: not subscribed any more."""
        topic, _, bounds = taken.partition(":")
        first, _, last = bounds.partition("-")
        cursor = self._cursors.get(topic)
        if cursor is None:
            return None
        start, end, kept_from = max(int(first), cursor.committed), int(last) + 1, cursor.log.first
        return cursor.log.events[start - kept_from : end - kept_from] if start < end else []

    def interrupt(self, events: Sequence[TopicEvent], published_ids: set[str]) -> None:
        """Let the next invocation take exactly these events: it was interrupted after it had published something."""
        for event in events:
            cursor = self._cursors[event.name]
            cursor.consumed = max(cursor.consumed, event.offset + 1)
        self.interrupted = Interrupted(taken_by(events, self.node.name, self.node.type), published_ids)

    # --- running ----------------------------------------------------------------------------------------------------

    async def work(self) -> None:
        """Run the node while it can be invoked; others have their turn now and then."""
        run, name = self._run, self._name
        enter, leave = run.tracker.enter, run.tracker.leave
        commit, only = run.writer.commit, self._only
        is_plain = self.node.retry is None and not run.is_traced
        try:
            for _ in range(_INVOCATIONS_A_TURN):
                if (interrupted := self.interrupted) is not None:
                    self.interrupted = None
                    events, published_ids = interrupted
                elif only is not None or self.can_invoke():
                    events, published_ids = self.take(), None
                    if not events:
                        break
                else:
                    break
                enter(name)
                try:
                    if is_plain:
                        await self._publish_outputs(events, published_ids)
                    else:
                        await self._invoke_in_span(events, published_ids)
                finally:
                    leave(name)
                if run.is_stopping:
                    # The command may have caught its cancellation, and have left things undone.
                    raise asyncio.CancelledError
                if only is not None:
                    commit(only, events[-1])
                else:
                    for event in {event.name: event for event in events}.values():
                        commit(self._cursors[event.name], event)
        except BaseException as error:  # noqa: BLE001 - whatever it is ends the run, and reaches the caller of invoke
            run.node_failed(self, error)
        task, self.task = self.task, None
        run.node_rests(self, task)

    async def _invoke_in_span(self, events: list[ConsumeFromTopicEvent], published_ids: set[str] | None) -> None:
        """Run the command in a span, and again by the node's retry."""
        with node_span(self._run.span, self.node, events) as span:
            self._span = span if self._run.is_traced else None
            if self.node.retry is None:
                await self._publish_outputs(events, published_ids)
            else:
                await self._publish_by_retry(events, set() if published_ids is None else published_ids)

    async def _publish_by_retry(self, events: list[ConsumeFromTopicEvent], published_ids: set[str]) -> None:
        """Run the command until it ends well, or must not be tried again."""
        run, node = self._run, self.node
        tries = 0
        while True:
            try:
                await self._publish_outputs(events, published_ids)
                return
            except Exception as error:
                tries += 1
                wait_s = None if run.is_stopping else next_try_s(node.retry, tries, error)
                if wait_s is None:
                    raise
                log.warning(
                    "workflow %s, request %s: node %s failed at try %d, next in %g s: %s",
                    run.definition.name,
                    run.request_id,
                    node.name,
                    tries,
                    wait_s,
                    exception_line(error),
                )
                await asyncio.sleep(wait_s)

    async def _publish_outputs(
        self, events: list[ConsumeFromTopicEvent], published_ids: set[str] | None = None
    ) -> None:
        """Run the command once, and publish what it yields, but for events that are published; their ids are noted."""
        run = self._run
        stream = self._invoke(run.context, events)
        ids: EventIds | None = None
        try:
            async for data in stream:
                if run.is_stopping:
                    # The command caught the cancellation and went on.
                    raise asyncio.CancelledError
                if ids is None:
                    consumed = taken_ranges(events)
                    ids = EventIds(run.request_id, self._name, consumed)
                plain = plain_value(data, "output")
                if self._span is not None:
                    self._span.output(plain)
                for accepts, topic_log in self._destinations:
                    if accepts is not None and not accepts(plain):
                        continue
                    event_id = ids.next_id(topic_log.name)
                    if published_ids is not None:
                        if event_id in published_ids:
                            continue
                        published_ids.add(event_id)
                    if topic_log.end >= topic_log.room_end:
                        await run.room_for(topic_log)
                    run.publish(topic_log, event_id, plain, self._name, self._type, consumed)
        except BaseException as error:
            if not hasattr(stream, "__aiter__"):
                raise _misbuilt(stream) from error
            await _close(stream, self._name)
            raise


def _misbuilt(stream: object) -> CommandMisbuilt:
    """Return the error for a command that gave this in the place of an asynchronous iterator."""
    if inspect.iscoroutine(stream):
        stream.close()
        return CommandMisbuilt("its invoke is a coroutine; it has to yield, `async def invoke` with `yield` in it")
    return CommandMisbuilt(f"its invoke returned a {type(stream).__name__}, and has to be an asynchronous generator")


async def _close(stream: AsyncIterator[object], node: str) -> None:
    """End a command's generator where it stands. What it raises then changes nothing any more."""
    close = getattr(stream, "aclose", None)
    if close is None:
        return
    try:
        await close()
    except Exception as error:  # noqa: BLE001 - the command's code; what ended it is raised
        log.warning("the command of node %s raised as it was closed: %s", node, exception_line(error))
