"""The commands `pubsub requests` and `pubsub show`: requests as the event store has them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from afl.core.text.near_names import close_names
from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation
from afl_stream.commands.pubsub.workflows import named_workflow, workflow_or_name_argument
from afl_stream.commands.refusals import NotFound
from afl_stream.commands.terminal import time_text, value_text
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.pubsub.event_stores.store import StoredRequest
    from afl_stream.pubsub.model.events import StoredEvent

_STATUSES: Final = ("running", "waiting", "finished", "failed")
#: Most requests that the list shows, the last ones.
_MOST_REQUESTS: Final = 100


@click.command("requests")
@workflow_or_name_argument
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(_STATUSES), help="Only these. Repeat for several."
)
@click.option("--all", "is_all", is_flag=True, help=f"All of them; else the last {_MOST_REQUESTS}.")
@common
def requests_command(invocation: Invocation, workflow: str, statuses: Sequence[str], is_all: bool) -> ExitCode:
    """List the requests to a workflow, oldest first. Reads the event store.

    A name without a colon is that of the workflow itself: its module is not needed then.

    \b
    Examples:
      afl-stream pubsub requests shop.flow:review
      afl-stream pubsub requests review --status waiting --status failed
    """
    return asyncio.run(_requests(invocation, workflow, statuses, is_all=is_all))


async def _requests(invocation: Invocation, workflow: str, statuses: Sequence[str], *, is_all: bool) -> ExitCode:
    from afl_stream.commands.pubsub.stores import described_event_store, opened_event_store
    from afl_stream.pubsub.event_stores.store import RequestStatus

    config, terminal = invocation.settings(), invocation.terminal()
    name, loaded = named_workflow(workflow)
    async with opened_event_store(config, loaded) as store:
        terminal.remark(described_event_store(config, loaded))
        keys = await store.requests(name, [RequestStatus(status) for status in statuses])
        shown = keys if is_all else keys[-_MOST_REQUESTS:]
        found = [stored for key in shown if (stored := await store.request(key)) is not None]
    if terminal.as_json:
        terminal.document([_summary(stored) for stored in found])
        return ExitCode.OK
    if not found:
        terminal.remark(f"no requests to {name}{' in these states' if statuses else ''}")
        return ExitCode.OK
    rows = [
        (
            stored.key.request_id,
            stored.status.value,
            str(len(stored.events)),
            time_text(stored.created_at_ms),
            time_text(stored.updated_at_ms),
        )
        for stored in found
    ]
    terminal.table(("request", "status", "events", "began", "last event"), rows, right=("events",), whole=("request",))
    if len(shown) < len(keys):
        terminal.remark(f"the last {len(shown)} of {len(keys)}; --all lists all")
    return ExitCode.OK


@click.command("show")
@workflow_or_name_argument
@click.argument("request_id", metavar="REQUEST")
@common
def show_command(invocation: Invocation, workflow: str, request_id: str) -> ExitCode:
    """Show a request to a workflow, event by event. Reads the event store.

    A name without a colon is that of the workflow itself: its module is not needed then.

    \b
    Examples:
      afl-stream pubsub show shop.flow:review r1
      afl-stream pubsub show review r1 --json
    """
    return asyncio.run(_show(invocation, workflow, request_id))


async def _show(invocation: Invocation, workflow: str, request_id: str) -> ExitCode:
    from afl_stream.commands.pubsub.stores import described_event_store, opened_event_store
    from afl_stream.pubsub.event_stores.store import RequestKey

    config, terminal = invocation.settings(), invocation.terminal()
    name, loaded = named_workflow(workflow)
    async with opened_event_store(config, loaded) as store:
        terminal.remark(described_event_store(config, loaded))
        stored = await store.request(RequestKey(name, request_id))
        if stored is None:
            known = [key.request_id for key in await store.requests(name)]
            hint = f"{invocation.command_line('pubsub', 'requests', workflow)} lists them"
            raise NotFound(f"request to {name}", request_id, hint, close_names(request_id, known, 3))
    if terminal.as_json:
        terminal.document({**_summary(stored), "events": [_event(event) for event in stored.events]})
        return ExitCode.OK
    terminal.line(
        f"request {request_id} to {name}: {stored.status.value}; began {time_text(stored.created_at_ms)}, "
        f"last event {time_text(stored.updated_at_ms)}"
    )
    columns = ("event", "topic", "offset", "by", "data")
    terminal.table(columns, [_row(event) for event in stored.events], right=("offset",))
    return ExitCode.OK


def _summary(stored: StoredRequest) -> dict[str, object]:
    context = stored.context
    return {
        "workflow": stored.key.workflow,
        "request": stored.key.request_id,
        "status": stored.status.value,
        "events": len(stored.events),
        "conversation_id": context.conversation_id,
        "invoke_id": context.invoke_id,
        "user_id": context.user_id,
        "attributes": dict(context.attributes),
        "created_at_ms": stored.created_at_ms,
        "updated_at_ms": stored.updated_at_ms,
    }


def _event(event: StoredEvent) -> dict[str, object]:
    return {"type": type(event).__name__, **event._asdict()}


def _row(event: StoredEvent) -> tuple[str, str, str, str, str]:
    from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, OutputTopicEvent

    if isinstance(event, ConsumeFromTopicEvent):
        return "finished with", event.name, str(event.offset), event.consumer_name, ""
    word = "output" if isinstance(event, OutputTopicEvent) else "published"
    return word, event.name, str(event.offset), event.publisher_name, value_text(event.data)
