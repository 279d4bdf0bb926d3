"""The command `pubsub subscribe`: the messages of topics, a line of JSON each."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TextIO

import click

from afl.core.process.signals import draining
from afl_stream.commands.arguments import common, service
from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.pubsub import Message, Subscription

#: How the names of subscriptions begin that have no name.
UNNAMED: Final = "cli-"


@click.command("subscribe")
@click.argument("topics", nargs=-1, metavar="TOPIC...")
@click.option("--pattern", metavar="GLOB", help="All topics whose names match, also new ones: 'orders.*'.")
@click.option("--from-beginning", is_flag=True, help="Read all that the topics still hold, and not only what comes.")
@click.option("--name", metavar="NAME", help="Continue where the subscription of this name stopped, and share with it.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after so many messages.")
@common
@service
def subscribe_command(
    invocation: Invocation,
    topics: Sequence[str],
    pattern: str | None,
    from_beginning: bool,
    name: str | None,
    count: int | None,
) -> ExitCode:
    """Write a line of JSON for every message of these topics, as it comes.

    Without --name it has a group of its own, commits nothing, and takes nothing from other subscriptions. With --name
    it continues where the last subscription of that name stopped, and those that run at once share the partitions;
    --from-beginning is for the first of them.

    \b
    Examples:
      afl-stream pubsub subscribe orders --from-beginning
      afl-stream pubsub subscribe --pattern 'orders.*' | jq 'select(.data.total > 100)'
    """
    from afl_stream.pubsub import Subscription, SubscriptionSettings
    from afl_stream.reading.group_reader import LostRecords
    from afl_stream.registry.deployment_codec import DeploymentCodec
    from afl_stream.topics.declared import Topology
    from afl_stream.transport import Start

    if bool(topics) == (pattern is not None):
        raise click.UsageError("name TOPIC..., or give --pattern GLOB, and not both")
    config = invocation.settings()
    with open_transport(config) as transport:
        schemas = DeploymentCodec(config, transport, Topology(config))
        settings = SubscriptionSettings(
            commits=name is not None, lost_records=LostRecords.EARLIEST, codec=schemas.codec
        )
        subscription = Subscription(
            transport,
            config,
            name or f"{UNNAMED}{uuid.uuid4().hex}",
            topics=topics,
            pattern=pattern,
            start=Start.EARLIEST if from_beginning else Start.LATEST,
            settings=settings,
        )
        try:
            written = asyncio.run(_follow(invocation, subscription, count))
        finally:
            schemas.close()
    invocation.terminal().remark(f"{written} messages")
    return ExitCode.OK


async def _follow(invocation: Invocation, subscription: Subscription, count: int | None) -> int:
    """Write the messages until a signal comes, or there were so many; return how many were written."""
    out, written = invocation.out or sys.stdout, 0

    async def write() -> None:
        nonlocal written
        async with subscription as messages:
            invocation.terminal().remark(f"subscribed to {subscription.selection}; Ctrl-C ends it")
            async for message in messages if count is None else messages.take(count):
                _write_line(out, message)
                written += 1

    loop, writing = asyncio.get_running_loop(), asyncio.create_task(write())
    with draining(lambda: loop.call_soon_threadsafe(writing.cancel)):
        await asyncio.wait((writing,))
    if not writing.cancelled():
        writing.result()
    return written


def _write_line(out: TextIO, message: Message) -> None:
    from afl.core.json_objects import write_json
    from afl.core.process.standard_streams import json_for
    from afl.core.text.printable import printable_json

    line = printable_json(write_json(line_of(message), indent=None, separators=(",", ":")))
    out.write(json_for(out, line) + "\n")
    out.flush()


def line_of(message: Message) -> dict[str, object]:
    """Return the line of a message: its data, or why that cannot be read, its key and headers, and where it was."""
    from dataclasses import asdict, is_dataclass

    from afl_stream.errors import Unreadable

    line: dict[str, object] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "time_ms": message.timestamp_ms,
        "key": _text(message.key),
        "headers": {name: _text(value) for name, value in message.headers},
    }
    try:
        data = message.data
    except Unreadable as error:
        return {**line, "unreadable": error.reason.value, "value": _text(message.value)}
    if is_dataclass(data) and not isinstance(data, type):
        return {**line, "record": type(data).__name__, "data": asdict(data)}
    return {**line, "data": data}


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")
