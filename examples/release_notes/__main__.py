"""Release notes with all parties in this process: `python -m examples.release_notes`, on Kafka with `--bootstrap`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TextIO

from afl.compiled import CompiledProgram
from afl.compiler import compile_files
from afl_stream.bridge import Bridge
from afl_stream.client import Client
from afl_stream.config import StreamConfig, load_config
from afl_stream.embedded import EmbeddedTransport
from afl_stream.embedded.transport import EmbeddedBroker
from afl_stream.errors import StreamError
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.evaluator.stores import open_configured_store
from afl_stream.kafka import KafkaTransport
from afl_stream.transport import Transport, TransportError
from examples.release_notes.parties import declare, read

WORKFLOW: Final = "notes.Release"
CHANGELOG: Final = Path(__file__).parents[2] / "CHANGELOG.md"
_ENDS: Final = frozenset({"workflow.completed", "workflow.error", "workflow.cancelled"})
#: Far more than a release takes: an end for a demo that hangs.
_TIMEOUT_S: Final = 120.0
_LOOK_S: Final = 0.2


class ReleaseFailed(Exception):
    """The workflow has no output."""


def compiled() -> CompiledProgram:
    """Return the program of this folder."""
    return CompiledProgram(compile_files([Path(__file__).with_name("notes.afl")]).program_json)


def main(arguments: Sequence[str], out: TextIO) -> int:
    """Publish the notes of a version, and print them and who has read them; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.release_notes", description="notes from a changelog")
    parser.add_argument("--changelog", type=Path, default=CHANGELOG, help="default: that of this tree")
    parser.add_argument("--version", default="Unreleased", help="the section (default: Unreleased)")
    parser.add_argument("--bootstrap", help="a Kafka broker, HOST:PORT; without one an embedded log is used")
    given = parser.parse_args(arguments)
    inputs = {"changelog": str(given.changelog), "version": given.version}
    try:
        with TemporaryDirectory(prefix="release-notes-") as folder, _cluster(given.bootstrap, Path(folder)) as found:
            outputs = asyncio.run(_release(*found, inputs, out))
    except (ReleaseFailed, StreamError, TransportError) as error:
        parser.exit(1, f"Error: {error}\n")
    for remark in outputs["remarks"]:
        out.write(f"remark: {remark}\n")
    reader = outputs["reader"]
    out.write(
        f"{outputs['text']}\n{'nobody has confirmed' if reader is None else 'confirmed by ' + reader['reader']}\n"
    )
    return 0


@contextmanager
def _cluster(bootstrap: str | None, folder: Path) -> Iterator[tuple[StreamConfig, Transport]]:
    """Provide settings and a transport: a broker in this process, or Kafka, with topics that are deleted at the end."""
    environment = {"AFL_EMBEDDED_DATA_DIR": str(folder), "AFL_PREFIX": f"notes-{uuid.uuid4().hex[:8]}."}
    if bootstrap is None:
        config = load_config(Path(os.devnull), environ=environment)
        with closing(EmbeddedBroker(None)) as broker:
            yield config, EmbeddedTransport(broker)
        return
    replication = os.environ.get("AFL_TOPICS_REPLICATION", "1")
    environment |= {"AFL_KAFKA_BOOTSTRAP": bootstrap, "AFL_TOPICS_REPLICATION": replication}
    config = load_config(Path(os.devnull), environ=environment)
    with closing(KafkaTransport(config)) as transport:
        try:
            yield config, transport
        finally:
            admin = transport.admin()
            for topic in admin.topic_names():
                if topic.startswith(config.prefix):
                    admin.delete_topic(topic)


async def _release(
    config: StreamConfig, transport: Transport, inputs: Mapping[str, object], out: TextIO
) -> Mapping[str, Any]:
    program, bridge = compiled(), Bridge(config)
    declare(bridge)
    bridge.apply_topics(transport)
    with ExitStack() as opened:
        client = opened.enter_context(Client(config, transport))
        client.apply_topics([program])
        client.deploy(program)
        opened.enter_context(_evaluator(config, transport))
        opened.enter_context(bridge.running(transport))
        reading = asyncio.create_task(read(config, transport, "ada", out))
        ended = asyncio.create_task(asyncio.to_thread(_run, client, inputs))
        try:
            await asyncio.wait((reading, ended), return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                reading.result()
            return await ended
        finally:
            reading.cancel()
            await asyncio.wait((reading, ended))


@contextmanager
def _evaluator(config: StreamConfig, transport: Transport) -> Iterator[None]:
    """Run an evaluator on a thread, with a store of its own."""
    stop, errors = threading.Event(), list[Exception]()

    def run() -> None:
        try:
            with closing(open_configured_store(config)) as store:
                EvaluatorService(config, transport, store).run(stop)
        except Exception as error:  # noqa: BLE001 - raised below, in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=run, name="evaluator")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        if errors:
            raise errors[0]


def _run(client: Client, inputs: Mapping[str, object]) -> Mapping[str, Any]:
    """Start the workflow, and return its outputs when it has ended."""
    with closing(client.milestones()) as milestones:
        run = client.start(WORKFLOW, inputs)
        for _ in range(int(_TIMEOUT_S / _LOOK_S)):
            for milestone in milestones.read(_LOOK_S):
                if milestone.workflow_id != run or milestone.kind not in _ENDS:
                    continue
                if milestone.outputs is None:
                    why = milestone.kind if milestone.error is None else milestone.error.message
                    raise ReleaseFailed(f"the notes were not published: {why}")
                return milestone.outputs
    raise ReleaseFailed(f"the notes were not published within {_TIMEOUT_S:g} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout))
