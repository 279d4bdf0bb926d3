"""A program: a workflow whose process is killed at each of its appends, or events, and resumed by another process.

`python -m tests.scenarios.killed_workflows WHERE FOLDER KIND STEP` tries one after the other, each with a request of
its own, and writes a line of JSON for each to the output. The processes are forks of this one, which saves their start.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from afl_stream.pubsub import (
    ConsumeFromTopicEvent,
    EventDrivenWorkflow,
    InputTopic,
    InvokeContext,
    NodeBuilder,
    OutputTopic,
    Topic,
)
from afl_stream.pubsub.event_stores.store import EventStore, RequestKey, RequestStatus, StoredRequest
from afl_stream.pubsub.model.events import OutputTopicEvent, PublishToTopicEvent, StoredEvent
from tests.scenarios.stores_of_processes import opened

ORDER = [3, 5, 8]


class Log:
    """The runs of nodes, a line each, that outlive their process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, node: str, events: Sequence[ConsumeFromTopicEvent]) -> None:
        with self._path.open("a") as file:
            file.writelines(f"{json.dumps([node, event.name, event.offset])}\n" for event in events)

    def lines(self) -> list[list[Any]]:
        return [json.loads(line) for line in self._path.read_text().splitlines()] if self._path.exists() else []


class KilledStore:
    """A store whose process is killed: before an append, or when an event is stored.

    For the latter it appends one event at a time, so that a process ends between any two. What is finished with at one
    time stays together, because runs count on that.
    """

    def __init__(self, store: EventStore, at: int, *, before: bool) -> None:
        self._store, self._left, self._before = store, at, before
        self.request, self.requests, self.forget, self.close = store.request, store.requests, store.forget, store.close

    async def append(
        self, key: RequestKey, context: InvokeContext, first: int, events: Sequence[StoredEvent], status: RequestStatus
    ) -> None:
        if self._before:
            self._pass()
            await self._store.append(key, context, first, events, status)
            return
        parts = [list(part) for _, part in groupby(events, _kept_together)]
        for part in parts:
            await self._store.append(key, context, first, part, status if part is parts[-1] else RequestStatus.RUNNING)
            first += len(part)
            self._pass()
        if not parts:
            await self._store.append(key, context, first, events, status)

    def _pass(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _kept_together(event: StoredEvent) -> object:
    """Return what an event has in common with those that are appended with it."""
    return "taken" if isinstance(event, ConsumeFromTopicEvent) else event.event_id


def workflow(store: EventStore, log: Log) -> EventDrivenWorkflow:
    """Return a workflow that splits its input, works on the parts on two ways, and joins them again."""

    def node(name: str, make: Callable[[Sequence[Any]], list[Any]]) -> Callable[..., Any]:
        async def run(_context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> Any:
            log.note(name, events)
            for data in make([event.data for event in events]):
                yield data

        return run

    orders, items, priced, checked = InputTopic("orders"), Topic("items"), Topic("priced"), Topic("checked")
    answers = OutputTopic("answers")

    def built(name: str, on: Any, to: Topic, make: Callable[[Sequence[Any]], list[Any]]) -> NodeBuilder:
        return NodeBuilder().name(name).command(node(name, make)).subscribe(on).publish_to(to).max_events(1)

    return (
        EventDrivenWorkflow.builder()
        .name("Desk")
        .event_store(store)
        .node(built("split", orders, items, lambda data: list(data[0])))
        .node(built("price", items, priced, lambda data: [data[0] * 100]))
        .node(built("check", items, checked, lambda data: [data[0] % 2 == 1]))
        .node(built("join", "priced & checked", answers, lambda data: [{"price": data[0], "is_odd": data[1]}]))
        .build()
    )


async def run(store: EventStore, request_id: str, log: Log, given: object) -> list[object]:
    flow = workflow(store, log)
    context = InvokeContext(assistant_request_id=request_id, user_id="ann")
    return [event.data async for event in flow.invoke(context, given)]


def story(stored: StoredRequest) -> dict[str, object]:
    """Return what a request has come to: its events on topics, and how far each consumer is."""
    topics: dict[str, list[object]] = {}
    commits: dict[str, int] = {}
    for event in stored.events:
        if isinstance(event, PublishToTopicEvent | OutputTopicEvent):
            topics.setdefault(event.name, []).append(event.data)
        else:
            commits[f"{event.consumer_name} {event.name}"] = event.offset
    return {"topics": topics, "commits": commits, "status": stored.status.value, "user": stored.context.user_id}


async def begin(where: str, request_id: str, at: int, *, before: bool) -> None:
    """Run a request, and be killed on the way."""
    async with opened(where) as store:
        await run(KilledStore(store, at, before=before), request_id, Log(Path(os.devnull)), ORDER)


async def resume(where: str, request_id: str, log: Log, told: Path) -> None:
    """Go on with a request as another process has left it, and write down what it was and what it became."""
    async with opened(where) as store:
        before = await store.request(RequestKey("Desk", request_id))
        outputs = await run(store, request_id, log, ORDER if before is None else None)
        after = await store.request(RequestKey("Desk", request_id))
    assert after is not None
    told.write_text(
        json.dumps({
            "before": None if before is None else story(before),
            "after": story(after),
            "runs": log.lines(),
            "outputs": outputs,
        })
    )  # fmt: skip


def in_a_process(body: Coroutine[Any, Any, None]) -> int:
    """Run a body in a process of its own; return its exit status, or minus the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(body)
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - a fork must not go on as its parent does
            sys.excepthook(type(error), error, error.__traceback__)
            os._exit(1)
    body.close()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(where: str, folder: Path, *, before: bool, step: int) -> None:
    for at in range(1, 200, step):
        request_id = f"{'before' if before else 'after'} {at}"
        log, told = Log(folder / f"{request_id}.runs"), folder / f"{request_id}.json"

        ended = in_a_process(begin(where, request_id, at, before=before))
        if in_a_process(resume(where, request_id, log, told)) != 0:
            sys.exit(f"{request_id} was not resumed")
        case = {"killed": ended == -signal.SIGKILL, **json.loads(told.read_text())}
        sys.stdout.write(json.dumps(case) + "\n")
        if ended == 0:
            return
    sys.exit("it was killed at every append, and has no end")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), before=sys.argv[3] == "before", step=int(sys.argv[4]))
