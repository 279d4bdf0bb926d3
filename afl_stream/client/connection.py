"""A client's connection: what it sends, and how it waits for the evaluators' answers."""

from __future__ import annotations

from contextlib import closing
from types import TracebackType
from typing import Self

from afl.core.clock import epoch_ms
from afl.core.ids import time_ordered_id
from afl_stream.client.milestones import Milestones
from afl_stream.programs.definitions import Definitions
from afl_stream.programs.deployment_codec import open_codec
from afl_stream.settings.answer_tokens import answer_tokens
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import Topology
from afl_stream.transport import Headers, Transport, produce_acknowledged
from afl_stream.wire.codec import Codec
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import Command, Lifecycle, Message, ScheduleCommand

SOURCE = "/afl-stream/client"


class Connection:
    """The part of a client that sends records and reads their answers."""

    def __init__(self, config: StreamConfig, transport: Transport, *, timeout_s: float = 10.0) -> None:
        self._transport = transport
        self._timeout_s = timeout_s
        self.topology = Topology(config)
        self._codec: Codec = open_codec(config, transport, self.topology)
        self._producer = transport.producer()
        self._tokens = answer_tokens(config.answers)
        self.definitions = Definitions(transport, self._codec, self.topology.definitions())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._producer.close()
        self.definitions.close()

    def _give(self, command: Command | ScheduleCommand, answer_timeout_s: float | None) -> Lifecycle | None:
        """Send a command, and return the answer to it if one is waited for."""
        topic = self.topology.commands()
        key = command.schedule_id if isinstance(command, ScheduleCommand) else command.workflow_id
        if answer_timeout_s is None:
            self._send(topic, key, command)
            return None
        # Opened first: the answer may come before the command's own acknowledgement.
        with closing(self.milestones(key)) as milestones:
            self._send(topic, key, command)
            assert command.command_id is not None
            about = f"{type(command).__name__} of {key}"
            return milestones.answer_to(command.command_id, answer_timeout_s, about=about)

    def _send(self, topic: str, key: str, message: Message, headers: Headers = ()) -> None:
        produce_acknowledged(
            self._producer,
            topic,
            self._codec.encode(message, topic),
            key=key.encode(),
            headers=(*headers_for(message, source=SOURCE), *headers),
            timeout_s=self._timeout_s,
        )

    def milestones(self, workflow_id: str | None = None, *, from_beginning: bool = False) -> Milestones:
        """Follow the lifecycle topic from its current end: open it before the command whose answer it waits for.

        With a workflow's id only its milestones are read; `from_beginning`: also those that the topic still holds.
        """
        topic = self.topology.lifecycle()
        return Milestones(self._transport, self._codec, topic, workflow_id, from_beginning=from_beginning)


def drawn_id() -> str:
    """Draw an id for a command, or for an external event."""
    return time_ordered_id(epoch_ms())
