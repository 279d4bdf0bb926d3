"""A client's connection: what it sends, and how it waits for the evaluators' answers."""

from __future__ import annotations

from contextlib import ExitStack, closing
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from afl.core.clock import epoch_ms
from afl.core.ids import time_ordered_id
from afl_stream.acls import not_listed
from afl_stream.client.milestones import Milestones
from afl_stream.client.sensitive_values import SensitiveValues
from afl_stream.programs.definitions import Definitions
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.sensitive.deployment import deployment_sealer
from afl_stream.sensitive.redaction import Redaction
from afl_stream.settings.answer_tokens import answer_tokens
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import Topology
from afl_stream.tracing.opening import open_tracer
from afl_stream.transport import Headers, Transport, produce_acknowledged
from afl_stream.wire.codec import Codec
from afl_stream.wire.headers import COMMAND_HEADER, cloud_event_id, headers_for
from afl_stream.wire.messages import Command, Lifecycle, Message, ScheduleCommand

if TYPE_CHECKING:
    from afl_stream.tracing.clients import ClientTracing
    from afl_stream.tracing.tracer import Tracer

SOURCE = "/afl-stream/client"
#: What a client calls itself in traces, unless OTEL_SERVICE_NAME says otherwise.
SERVICE_NAME: Final = "afl-stream-client"
#: How long the program of a name is taken from what the broker has sent, until the broker is asked again: seconds.
NAMES_KNOWN_S: Final = 1.0


class Connection:
    """The part of a client that sends records and reads their answers."""

    def __init__(
        self,
        config: StreamConfig,
        transport: Transport,
        *,
        timeout_s: float = 10.0,
        names_known_s: float = NAMES_KNOWN_S,
        tracer: Tracer | None = None,
    ) -> None:
        """Connect to a deployment. `timeout_s` is how long an acknowledgement is waited for.

        `names_known_s`: a start without a program takes the current one. In so many seconds after the definitions were
        read to their end it is the one that the broker has told of, without a question to it: of a deployment by
        another process it may not have told yet. 0: the broker is asked each time.

        `tracer` takes the spans, and the caller closes it; without it the settings decide.
        """
        self._names_known_s = names_known_s
        self._transport = transport
        self._timeout_s = timeout_s
        self.topology = Topology(config)
        sealer = deployment_sealer(config)
        self._tokens = answer_tokens(config.answers)
        with ExitStack() as opened:
            used = tracer
            if tracer is None and (own := open_tracer(config.tracing, SERVICE_NAME)) is not None:
                opened.callback(own.close)
                used = own
            self._tracing: ClientTracing | None = None
            if used is not None:
                from afl_stream.tracing.clients import ClientTracing

                self._tracing = ClientTracing(used)
            self._schemas = DeploymentCodec(config, transport, self.topology, sealer)
            opened.callback(self._schemas.close)
            self._codec: Codec = self._schemas.codec
            self.definitions = Definitions(transport, self._codec, self.topology.definitions())
            opened.callback(self.definitions.close)
            self._sensitive = SensitiveValues(self.definitions, sealer, config.sensitive)
            self._producer = transport.producer()
            opened.callback(self._producer.close)
            #: What is closed, the last first, and each part also when another one fails to close. The tracer is the
            #: last: the end of the producer is recorded, too.
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect; a second time does nothing."""
        self._opened.close()

    def require_topics(self, *purposes: str) -> None:
        """Raise TopicMissing when a topic for these does not exist: `answers`, `commands`; both unless one is named."""
        topology, admin = self.topology, self._transport.admin()
        topics = {"answers": topology.control(), "commands": topology.commands()}
        wanted = {purpose: topics[purpose] for purpose in purposes or topics} | {"schemas": topology.schemas()}
        existing = admin.topic_names()
        role = "--role starter" if "commands" in wanted else "--role producer --answers"
        for purpose, topic in wanted.items():
            if topic not in existing:
                raise not_listed(admin, topic, purpose, role)

    def _give(
        self, command: Command | ScheduleCommand, answer_timeout_s: float | None, headers: Headers = ()
    ) -> Lifecycle | None:
        """Send a command, and return the answer to it if one is waited for."""
        key = command.schedule_id if isinstance(command, ScheduleCommand) else command.workflow_id
        if answer_timeout_s is None:
            self._send(self.topology.commands(), key, command, headers)
            return None
        assert command.command_id is not None
        about = about_command(command)
        topic = self.topology.commands()
        return self._send_and_wait(topic, key, command, command.command_id, answer_timeout_s, about, headers)

    def _ask(
        self,
        topic: str,
        key: str,
        message: Message,
        command_id: str | None,
        answer_timeout_s: float | None,
        *,
        about: str,
    ) -> Lifecycle | None:
        """Send what is no command, and return the evaluator's answer to it if one is waited for."""
        if command_id is None:
            if answer_timeout_s is None:
                self._send(topic, key, message)
                return None
            command_id = drawn_id()
        headers = ((COMMAND_HEADER, command_id.encode()),)
        if answer_timeout_s is None:
            self._send(topic, key, message, headers)
            return None
        return self._send_and_wait(topic, key, message, command_id, answer_timeout_s, about, headers)

    def _send_and_wait(
        self,
        topic: str,
        key: str,
        message: Message,
        command_id: str,
        answer_timeout_s: float,
        about: str,
        headers: Headers = (),
    ) -> Lifecycle:
        # Opened first: the answer may come before the message's own acknowledgement.
        with closing(self.milestones(key)) as milestones:
            self._send(topic, key, message, headers)
            return milestones.answer_to(command_id, answer_timeout_s, about=about)

    def _send(self, topic: str, key: str, message: Message, headers: Headers = ()) -> None:
        if self._tracing is None:
            self._produce(topic, key, message, headers)
            return
        with self._tracing.sending(topic, key, cloud_event_id(message)) as trace:
            self._produce(topic, key, message, headers, trace)

    def _produce(self, topic: str, key: str, message: Message, headers: Headers, trace: Headers = ()) -> None:
        form = self._codec.header_form
        sent, marked = self._sensitive.marked(message)
        produce_acknowledged(
            self._producer,
            topic,
            self._codec.encode(sent, topic),
            key=key.encode(),
            headers=(*headers_for(sent, source=SOURCE, caused_by=trace, form=form), *marked, *headers),
            timeout_s=self._timeout_s,
        )

    def milestones(
        self,
        workflow_id: str | None = None,
        *,
        from_beginning: bool = False,
        since_ms: int | None = None,
        redaction: Redaction | None = None,
    ) -> Milestones:
        """Follow the lifecycle topic from its current end: open it before the command whose answer it waits for.

        With a workflow's id only its milestones are read; `from_beginning`: also those that the topic still holds;
        `since_ms`: also those of that time and later, in ms since the epoch. `redaction` hides what is sensitive.
        """
        topic = self.topology.lifecycle()
        return Milestones(
            self._transport,
            self._codec,
            topic,
            workflow_id,
            from_beginning=from_beginning,
            since_ms=since_ms,
            redaction=redaction,
        )


def about_command(command: Command | ScheduleCommand) -> str:
    """Return what errors call a command whose answer is waited for."""
    key = command.schedule_id if isinstance(command, ScheduleCommand) else command.workflow_id
    return f"{type(command).__name__} of {key}"


def drawn_id() -> str:
    """Draw an id for a command, or for an external event."""
    return time_ordered_id(epoch_ms())
