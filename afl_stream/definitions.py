"""The definitions topic: compiled programs by fingerprint, and which one a workflow's name means now."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from afl.compiled import CompiledProgram, ProgramError, ProgramVersionError, near_names
from afl_stream.codec import Codec
from afl_stream.errors import NewerFormat, StreamError, Unreadable
from afl_stream.headers import headers_for
from afl_stream.messages import Message, ProgramDefinition, ProgramPointer, name_key
from afl_stream.topic_log import TopicLog, waited_for
from afl_stream.transport import Producer, Transport, produce_acknowledged

#: Programs kept in memory, read again from the topic when they are asked for after that.
_PROGRAMS_KEPT = 256

SOURCE = "/afl-stream/deploy"


class UnknownProgram(StreamError):
    """No such program or workflow has been deployed: said only after the topic was read to its end."""

    def __init__(self, wanted: str, near: Iterable[str] = ()) -> None:
        listed = tuple(near)
        hint = f"; did you mean {' or '.join(listed)}?" if listed else "; deploy it with: afl-stream deploy FILE.afl"
        super().__init__(f"nothing deployed is called {wanted}{hint}")
        self.wanted, self.near = wanted, listed


class Definitions:
    """What has been deployed. Belongs to one thread."""

    def __init__(self, transport: Transport, codec: Codec, topic: str) -> None:
        self._log = TopicLog(transport, topic)
        self._codec = codec
        self._packed: dict[str, ProgramDefinition] = {}
        self._names: dict[str, str] = {}
        self._programs: OrderedDict[str, CompiledProgram] = OrderedDict()
        #: What a newer release has deployed, by the record's key: a fingerprint, or `name:` and a workflow's name.
        self._newer: dict[str, NewerFormat] = {}

    def workflows(self) -> dict[str, str]:
        """Every deployed workflow's qualified name and the fingerprint of its current program."""
        self.refresh()
        return dict(self._names)

    def find(self, workflow: str, fingerprint: str | None = None) -> tuple[CompiledProgram, str]:
        """The program that a workflow's name means now (or the one named), and the workflow's qualified name.

        Raises UnknownProgram, after reading the topic to an end taken now, SchemaUnavailable when that cannot be
        read, and NewerFormat for what a newer release has deployed.
        """
        # Names point to another program with each deployment, so they are read anew each time.
        if fingerprint is None or fingerprint not in self._packed:
            self.refresh()
        if fingerprint is not None:
            return self._program(fingerprint), workflow
        name = self._qualified(workflow)
        return self._program(self._names[name]), name

    def refresh(self) -> None:
        """Read the topic to its end as it is now. Raises SchemaUnavailable."""
        for written_key, value in self._log.read_to_end():
            if value is None:
                continue
            key = (written_key or b"").decode("utf-8", "replace")
            try:
                message: Message = self._codec.decode(value)
            except Unreadable:
                continue  # What cannot be read defines nothing; whoever asks for it is told that it is unknown.
            except NewerFormat as error:
                # It defines something, only not for this release.
                self._newer[key] = error
                continue
            self._newer.pop(key, None)
            if isinstance(message, ProgramDefinition):
                self._packed[message.fingerprint] = message
            elif isinstance(message, ProgramPointer):
                self._names[message.workflow] = message.fingerprint

    def close(self) -> None:
        self._log.close()

    def _qualified(self, workflow: str) -> str:
        if (newer := self._newer.get(name_key(workflow))) is not None:
            raise newer
        if workflow in self._names:
            return workflow
        short = [name for name in self._names if name.rsplit(".", 1)[-1] == workflow]
        if len(short) == 1:
            return short[0]
        raise UnknownProgram(f"workflow {workflow}", short or near_names(workflow, list(self._names)))

    def _program(self, fingerprint: str) -> CompiledProgram:
        program = self._programs.get(fingerprint)
        if program is None:
            packed = self._packed.get(fingerprint)
            if packed is None:
                raise self._newer.get(fingerprint) or UnknownProgram(f"program {fingerprint}")
            try:
                program = CompiledProgram.from_text(packed.program_json())
            except ProgramVersionError as error:
                if error.is_newer:
                    raise NewerFormat(f"schemaVersion {error.found}", error.supported) from error
                raise UnknownProgram(f"program {fingerprint} ({error})") from error
            except (ProgramError, Unreadable) as error:
                raise UnknownProgram(f"program {fingerprint} ({error})") from error
            self._programs[fingerprint] = program
            while len(self._programs) > _PROGRAMS_KEPT:
                self._programs.popitem(last=False)
        else:
            self._programs.move_to_end(fingerprint)
        return program


def deploy(program: CompiledProgram, producer: Producer, codec: Codec, topic: str, *, timeout_s: float = 10.0) -> None:
    """Publish a program and point its workflows' names to it; returns when all is acknowledged.

    The program goes before the names that point to it. Raises SchemaUnavailable when that is not acknowledged in time.
    """
    text = program.text.decode()
    _send(producer, codec, topic, program.fingerprint, ProgramDefinition.packed(program.fingerprint, text), timeout_s)
    for workflow in program.workflows():
        name = workflow.qualified_name
        pointer = ProgramPointer(workflow=name, fingerprint=program.fingerprint)
        _send(producer, codec, topic, name_key(name), pointer, timeout_s)


def _send(producer: Producer, codec: Codec, topic: str, key: str, message: Message, timeout_s: float) -> None:
    value, headers = codec.encode(message, topic), headers_for(message, source=SOURCE)
    with waited_for(key):
        produce_acknowledged(producer, topic, value, key=key.encode(), headers=headers, timeout_s=timeout_s)
