"""The command `pubsub forget`: requests that are removed from the event store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from afl.core.clock import epoch_ms
from afl.core.text.near_names import close_names
from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation
from afl_stream.commands.pubsub.workflows import named_workflow, workflow_or_name_argument
from afl_stream.commands.refusals import CommandRefused, NotFound
from afl_stream.exit_codes import ExitCode
from afl_stream.settings.durations import EXAMPLES, duration_ms

if TYPE_CHECKING:
    from afl_stream.pubsub.event_stores.store import EventStore


@click.command("forget")
@workflow_or_name_argument
@click.argument("request_ids", metavar="[REQUEST]...", nargs=-1)
@click.option("--finished-before", metavar="AGE", help="All requests that finished longer ago: 30d, 12h, 45m or 90s.")
@click.option("--force", is_flag=True, help="Also a request that is at work, or was interrupted at it.")
@common
def forget_command(
    invocation: Invocation, workflow: str, request_ids: Sequence[str], finished_before: str | None, force: bool
) -> ExitCode:
    """Remove requests to the workflow from the event store, with their events.

    The same id is then a new request. What workers and clients have published to the workflow's topics stays there. A
    request that is at work is kept, and the command ends with 1; with --force it is removed, and what runs it is told.

    \b
    Examples:
      afl-stream pubsub forget shop.flow:review r1 r2
      afl-stream pubsub forget review --finished-before 30d
    """
    if bool(request_ids) == (finished_before is not None):
        raise click.UsageError("give the requests, or --finished-before AGE")
    age_ms = None if finished_before is None else duration_ms(finished_before)
    if finished_before is not None and age_ms is None:
        raise CommandRefused(f"--finished-before {finished_before}: found no age; expected {EXAMPLES}")
    return asyncio.run(_forget(invocation, workflow, request_ids, age_ms, is_forced=force))


async def _forget(
    invocation: Invocation, workflow: str, request_ids: Sequence[str], age_ms: int | None, *, is_forced: bool
) -> ExitCode:
    from afl_stream.commands.pubsub.stores import described_event_store, opened_event_store

    config, terminal = invocation.settings(), invocation.terminal()
    name, loaded = named_workflow(workflow)
    at_work: list[str] = []
    async with opened_event_store(config, loaded) as store:
        terminal.remark(described_event_store(config, loaded))
        if age_ms is None:
            at_work = await _running(invocation, workflow, store, name, request_ids)
            kept = [] if is_forced else at_work
            count = await _removed(store, name, [each for each in request_ids if each not in kept])
        else:
            kept, count = [], await _removed_before(store, name, epoch_ms() - age_ms)
    if terminal.as_json:
        terminal.document({"workflow": name, "forgotten": count, "kept": kept})
    else:
        terminal.remark(f"{count} {'request is' if count == 1 else 'requests are'} forgotten")
        for request_id in kept:
            terminal.warn(f"request {request_id} is at work, or was interrupted at it: kept, but for --force")
    return ExitCode.WORK_LEFT if kept else ExitCode.OK


async def _running(
    invocation: Invocation, workflow: str, store: EventStore, name: str, request_ids: Sequence[str]
) -> list[str]:
    """Return those of the requests that are at work. Raises NotFound for one that is not there."""
    from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus

    running = []
    for request_id in request_ids:
        stored = await store.request(RequestKey(name, request_id))
        if stored is None:
            known = [key.request_id for key in await store.requests(name)]
            hint = f"{invocation.command_line('pubsub', 'requests', workflow)} lists them"
            raise NotFound(f"request to {name}", request_id, hint, close_names(request_id, known, 3))
        if stored.status is RequestStatus.RUNNING:
            running.append(request_id)
    return running


async def _removed(store: EventStore, name: str, request_ids: Sequence[str]) -> int:
    from afl_stream.pubsub.event_stores.store import RequestKey

    for request_id in request_ids:
        await store.forget(RequestKey(name, request_id))
    return len(set(request_ids))


async def _removed_before(store: EventStore, name: str, before_ms: int) -> int:
    from afl_stream.pubsub.event_stores.store import PurgesByAge

    if not isinstance(store, PurgesByAge):
        raise CommandRefused(f"--finished-before: a {type(store).__qualname__} does not remove requests by their age")
    # A store on a topic removes what is in the partitions that it has read.
    await store.requests(name)
    return await store.forget_finished(before_ms, name)
