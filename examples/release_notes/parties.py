"""The bridge, for `afl-stream bridge examples.release_notes.parties`, and a reader, a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Final, TextIO

from afl.core.process.private_files import make_private_folder
from afl_stream.bridge import Arrival, Bridge
from afl_stream.config import StreamConfig, load_config
from afl_stream.errors import StreamError
from afl_stream.kafka import KafkaTransport
from afl_stream.pubsub import Publisher, Subscription
from afl_stream.pubsub.event_stores.sqlite import SQLiteEventStore
from afl_stream.transport import Transport, TransportError
from examples.release_notes.review import DRAFT_NODE, review

#: The header of published notes that names the AFL workflow.
RUN_HEADER: Final = "afl_workflow_id"


def topics_of(config: StreamConfig) -> tuple[str, str]:
    """Return the topics of published notes, and of readers' confirmations."""
    return f"{config.prefix}notes.published", f"{config.prefix}notes.confirmed"


def declare(bridge: Bridge) -> None:
    """Say what the bridge does: it answers two facets, publishes for a third, and raises the events of readers."""
    published, confirmed = topics_of(bridge.config)
    folder = bridge.config.data_dir
    make_private_folder(folder)
    bridge.answer("notes.Draft", DRAFT_NODE)
    bridge.answer_with_workflow("notes.Review", review(SQLiteEventStore(folder / "reviews.sqlite3")))
    bridge.publish("notes.Publish", to=published)
    bridge.raise_events(confirmed, name="confirmed", workflow_id=run_of)


def run_of(arrival: Arrival) -> str | None:
    """Return the run that a confirmation is for: it has the header of the notes that it is about."""
    return arrival.header(RUN_HEADER)


async def read(config: StreamConfig, transport: Transport, name: str, out: TextIO) -> None:
    """Read published notes, and confirm each. Any program that can read and write topics could do this."""
    published, confirmed = topics_of(config)
    # As a pattern: it waits for the topic, which the bridge may still have to create.
    subscription = Subscription(transport, config, f"reader-{name}", pattern=published)
    async with Publisher(transport) as publisher, subscription as notes:
        async for note in notes:
            run = note.header(RUN_HEADER)
            data = note.data
            if run is None or not isinstance(data, dict):
                continue
            out.write(f"{name} reads: {data['title']}\n")
            out.flush()
            headers = ((RUN_HEADER, run.encode()),)
            await publisher.publish_and_wait(confirmed, {"reader": name}, key=note.key, headers=headers)


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Run a reader until Ctrl-C. Ends the process with 3, and says why, when it cannot run."""
    parser = argparse.ArgumentParser(prog="python -m examples.release_notes.parties", description="a reader, on Kafka")
    parser.add_argument("--name", default="ada", help="of the reader (default: ada)")
    given = parser.parse_args(arguments)
    config = load_config()
    if not config.is_kafka:
        parser.exit(3, "Error: there is no cluster: name it by AFL_KAFKA_BOOTSTRAP=HOST:PORT\n")
    try:
        with closing(KafkaTransport(config)) as transport, suppress(KeyboardInterrupt):
            asyncio.run(read(config, transport, given.name, out))
    except (StreamError, TransportError) as error:
        parser.exit(3, f"Error: {error}\n")


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
