"""The definitions topic: compiled programs by fingerprint, and which one a workflow's name means now."""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable

from afl.compiled.program import CompiledProgram, ProgramError, ProgramVersionError
from afl.core.text.near_names import near_names
from afl.core.text.printable import printable
from afl.core.text.warning_limits import LimitedLog
from afl_stream.errors import NewerFormat, Reason, StreamError, Unreadable
from afl_stream.programs.store_claims import StoreClaims
from afl_stream.reading.topic_log import TopicLog, waited_for
from afl_stream.transport import Producer, Transport, produce_acknowledged
from afl_stream.wire.codec import Codec
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import (
    STORE_KEY,
    Message,
    Pause,
    ProgramDefinition,
    ProgramPointer,
    StoreClaim,
    name_key,
)
from afl_stream.wire.pauses import Pauses

_log = logging.getLogger(__name__)

#: Programs kept in memory, read again from the topic when they are asked for after that.
_PROGRAMS_KEPT = 256

#: Records whose schema is looked for again. Each is a look at the schemas topic; more of them are ignored.
_MOST_WITHOUT_SCHEMA = 100

SOURCE = "/afl-stream/deploy"


class UnknownProgram(StreamError):
    """No such program or workflow has been deployed. Raised only after the topic was read to its end."""

    def __init__(self, wanted: str, near: Iterable[str] = ()) -> None:
        listed = tuple(near)
        hint = f"; did you mean {' or '.join(listed)}?" if listed else "; deploy it with: afl-stream deploy FILE.afl"
        super().__init__(f"no deployed {wanted}{hint}")
        self.wanted, self.near = wanted, listed


class Definitions:
    """The deployed programs, the claims of stores, and what is paused. Belongs to one thread.

    A record counts only under its own key, and a program only under the SHA-256 of its text: other content under a
    fingerprint is refused and logged, like every record that cannot be read. Of the same content with other source
    places and doc comments the newest counts, which is what compaction keeps. Programs that the topic has lost and this
    process knows are published again.
    """

    def __init__(
        self,
        transport: Transport,
        codec: Codec,
        topic: str,
        stored: Callable[[str], bytes | None] = lambda _fingerprint: None,
        stored_annotations: Callable[[str], bytes | None] = lambda _fingerprint: None,
        *,
        is_keeper: bool = False,
        claim_key: str = STORE_KEY,
    ) -> None:
        """Prepare to read the topic.

        `stored` returns the text of a program that the topic lacks and the store has, `stored_annotations` its
        annotations. `claim_key` is that of the claims which count here: a store in several parts has claims for each of
        them. A keeper publishes again what the topic has lost, and needs the right to write.
        """
        self.topic = topic
        self.claim_key = claim_key
        #: The claims that count here, and those of the deployment's store, or of its first part.
        self.claims = self.deployment_claims = StoreClaims()
        self._forget_claims()
        #: When the evaluator of each further part of a store claimed it last, ms since the epoch, by the claim's key.
        self.part_claims: dict[str, int] = {}
        #: What is paused.
        self.pauses = Pauses()
        self._log = TopicLog(transport, topic)
        self._codec = codec
        self._stored, self._stored_annotations = stored, stored_annotations
        self._packed: dict[str, ProgramDefinition] = {}
        self._names: dict[str, str] = {}
        self._programs: OrderedDict[str, CompiledProgram] = OrderedDict()
        #: Records of a newer release, by the record's key: a fingerprint, or `name:` and a workflow's name.
        self._newer: dict[str, NewerFormat] = {}
        #: Records that were read and not decoded yet: a schema that is away takes none of them.
        self._undecoded: deque[tuple[bytes | None, bytes]] = deque()
        #: Records whose schema is not announced yet, by their keys.
        self._without_schema: dict[bytes | None, bytes] = {}
        self._is_keeper = is_keeper
        self._warnings = LimitedLog(_log)
        self._losses = 0
        #: While a topic that has lost records is read again: the keys that it still has.
        self._still_there: set[bytes | None] | None = None

    def workflows(self) -> dict[str, str]:
        """Return every deployed workflow's qualified name and the fingerprint of its current program."""
        self.refresh()
        return dict(self._names)

    def fingerprints(self) -> list[str]:
        """Return the fingerprints of all programs that the topic has. Raises SchemaUnavailable."""
        self.refresh()
        return list(self._packed)

    def find(
        self, workflow: str, fingerprint: str | None = None, *, known_for_s: float = 0.0
    ) -> tuple[CompiledProgram, str]:
        """Return the current program of a workflow's name (or the one named), and the workflow's qualified name.

        With `known_for_s` a name is looked up in what the broker has sent so far, without a question to it, if the
        topic was read to an end of the last so many seconds. What is unknown is always looked for in the topic first.

        Raises UnknownProgram, after reading the topic to its current end, SchemaUnavailable when that cannot be read,
        and NewerFormat for what a newer release has deployed.
        """
        if fingerprint is None and known_for_s > 0 and self.take_arrived(known_for_s):
            try:
                name = self._qualified(workflow)
                return self._program(self._names[name]), name
            except (UnknownProgram, NewerFormat):
                pass  # That is said only of a topic that was read to its end.
        # Names point to another program with each deployment, so they are read again each time.
        if fingerprint is None or fingerprint not in self._packed:
            self.refresh()
        if fingerprint is not None:
            return self._program(fingerprint), workflow
        name = self._qualified(workflow)
        return self._program(self._names[name]), name

    def do_the_same(self, fingerprint: str, other: str) -> bool:
        """Return whether two programs do the same: earlier releases gave each layout of a source its own fingerprint.

        Returns False when one of them is not known any more. Raises SchemaUnavailable and NewerFormat as `find`.
        """
        try:
            first, second = (self.find("", one)[0].behaviour for one in (fingerprint, other))
        except UnknownProgram:
            return False
        return first == second

    def refresh(self) -> None:
        """Read the topic to its current end. Raises SchemaUnavailable."""
        new_records = self._log.read_to_end()
        if self._log.losses != self._losses:
            self._losses = self._log.losses
            # The claims were of a topic that is gone; the next one is the first.
            self._still_there = set()
            self._forget_claims()
        if self._still_there is not None:
            self._still_there.update(key for key, value in new_records if value is not None)
        self._take_all(new_records)
        if self._still_there is not None:
            if self._is_keeper:
                self._publish_again(self._still_there)
            self._still_there = None

    def ask_again(self) -> None:
        """Have the next `find` read the topic to its end, whatever it says about `known_for_s`."""
        self._log.ask_again()

    def publish(self, key: str, message: Message) -> None:
        """Publish a record, and return when it is acknowledged. Raises SchemaUnavailable."""
        headers = headers_for(message, source=SOURCE, form=self._codec.header_form)
        self._log.append(key.encode(), self._codec.encode(message, self.topic), headers)

    def restore(self, programs: Iterable[tuple[str, CompiledProgram]]) -> None:
        """Publish programs of these workflows whose names the topic lacks. Raises SchemaUnavailable."""
        for name, program in programs:
            if name in self._names or name_key(name) in self._newer:
                continue
            fingerprint = program.fingerprint
            if fingerprint not in self._packed:
                self.publish(fingerprint, _definition(program))
            self.publish(name_key(name), ProgramPointer(workflow=name, fingerprint=fingerprint))
            _log.warning("%s lacked workflow %s: it was published again from the store", self.topic, printable(name))

    def close(self) -> None:
        self._log.close()

    # --- what the topic has -------------------------------------------------------------------------------------

    def take_arrived(self, for_s: float) -> bool:
        """Take in what the broker has sent, without a question to it. Returns False where the topic has to be read to
        its end: that was not done in the last `for_s` seconds.
        """
        if self._still_there is not None:
            return False
        arrived = self._log.read_arrived(for_s)
        if arrived is None:
            return False
        if arrived or self._undecoded:
            self._take_all(arrived)
        return True

    def _take_all(self, records: list[tuple[bytes | None, bytes | None]]) -> None:
        self._undecoded.extend((key, value) for key, value in records if value is not None)
        if records:
            # Before new records under their keys. Their schemas may have come with other records.
            self._undecoded.extendleft(self._without_schema.items())
        while self._undecoded:
            key, value = self._undecoded[0]
            self._take(key, value)
            self._undecoded.popleft()

    def _take(self, key: bytes | None, value: bytes) -> None:
        name = (key or b"").decode("utf-8", "replace")
        waiting = self._without_schema.pop(key, None)
        try:
            message: Message = self._codec.decode(value)
            self._define(name, message)
        except Unreadable as error:
            if error.reason is Reason.UNKNOWN_SCHEMA and len(self._without_schema) < _MOST_WITHOUT_SCHEMA:
                self._without_schema[key] = value
                if waiting == value:
                    return  # That was said when it was read.
            text = "%s: the record under %s is ignored: %s"
            self._warnings.warning(
                "records of the definitions topic", text, self.topic, _shown(name), _shown(str(error))
            )
        except NewerFormat as error:
            # It defines something, only not for this release.
            self._newer[name] = error

    def _define(self, key: str, message: Message) -> None:
        """Take in a record under this key. Raises Unreadable for a record that does not match its key."""
        if isinstance(message, ProgramDefinition):
            _check_key(key, message.fingerprint)
            held = self._packed.get(key)
            if held is None or (held.program, held.encoding) != (message.program, message.encoding):
                # The order does not matter: a program is what its fingerprint says.
                if not _is_of(message.program_json(), message.fingerprint):
                    raise Unreadable(Reason.BAD_PROGRAM, "the program is refused, its SHA-256 is not its fingerprint")
                self._packed[key] = message
            elif message.annotations not in (None, held.annotations):
                self._packed[key] = message
                self._programs.pop(key, None)
        elif isinstance(message, ProgramPointer):
            _check_key(key, name_key(message.workflow))
            self._names[message.workflow] = message.fingerprint
        elif isinstance(message, StoreClaim):
            if key != STORE_KEY and not key.startswith(f"{STORE_KEY}:"):
                _check_key(key, STORE_KEY)
            if key != STORE_KEY:
                self.part_claims[key] = message.at
            if key == self.claim_key:
                self.claims.take(message)
            elif key == STORE_KEY:
                self.deployment_claims.take(message)
        elif isinstance(message, Pause):
            self.pauses.take(key, message)
        else:
            raise Unreadable(Reason.UNKNOWN_TYPE, f"a {type(message).__name__} is not a definition")
        self._newer.pop(key, None)

    def _forget_claims(self) -> None:
        self.claims = StoreClaims()
        self.deployment_claims = self.claims if self.claim_key == STORE_KEY else StoreClaims()

    def _publish_again(self, there: Collection[bytes | None]) -> None:
        """Publish what is known here and the topic has lost: programs before their names."""
        count = 0
        for fingerprint, definition in self._packed.items():
            if fingerprint.encode() not in there:
                self.publish(fingerprint, definition)
                count += 1
        for name, fingerprint in self._names.items():
            if name_key(name).encode() not in there:
                self.publish(name_key(name), ProgramPointer(workflow=name, fingerprint=fingerprint))
                count += 1
        for key, pause in list(self.pauses.records.items()):
            if key.encode() not in there:
                self.publish(key, pause)
                count += 1
        _log.warning("%d records were published again, because %s lacked them", count, self.topic)

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
            if packed is not None:
                text: bytes | str | None = packed.program_json()
                beside = packed.annotations
            else:
                text, beside = self._stored(fingerprint), self._stored_annotations(fingerprint)
            if text is None:
                raise self._newer.get(fingerprint) or UnknownProgram(f"program {fingerprint}")
            try:
                program = CompiledProgram.stored(fingerprint, text, beside)
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
    """Publish a program and point its workflows' names to it; return when all is acknowledged.

    The program goes before the names that point to it. Raises SchemaUnavailable when that is not acknowledged in time.
    """
    _send(producer, codec, topic, program.fingerprint, _definition(program), timeout_s)
    for workflow in program.workflows():
        name = workflow.qualified_name
        pointer = ProgramPointer(workflow=name, fingerprint=program.fingerprint)
        _send(producer, codec, topic, name_key(name), pointer, timeout_s)


def _definition(program: CompiledProgram) -> ProgramDefinition:
    return ProgramDefinition.packed(program.fingerprint, program.text.decode(), program.annotations)


def _send(producer: Producer, codec: Codec, topic: str, key: str, message: Message, timeout_s: float) -> None:
    value = codec.encode(message, topic)
    headers = headers_for(message, source=SOURCE, form=codec.header_form)
    with waited_for(key):
        produce_acknowledged(producer, topic, value, key=key.encode(), headers=headers, timeout_s=timeout_s)


def _check_key(found: str, expected: str) -> None:
    if found != expected:
        raise Unreadable(Reason.BAD_KEY, f"the key of this record would be {expected}")


def _is_of(text: str, fingerprint: str) -> bool:
    """Return whether a program has this fingerprint, which is of its canonical text: mostly the text as it is."""
    if hashlib.sha256(text.encode()).hexdigest() == fingerprint:
        return True
    try:
        CompiledProgram.stored(fingerprint, text)
    except ProgramError:
        return False
    return True


def _shown(text: str) -> str:
    return printable(text, 300)
