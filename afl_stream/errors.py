"""The errors of the stream side, each built from facts: which one, what was found, what would be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from afl.core import values
from afl.core.errors import AFLError
from afl.core.text.exception_text import exception_class, exception_text
from afl.core.text.masking import masked_text
from afl.core.text.near_names import did_you_mean
from afl.core.text.printable import printable

#: Characters that are shown of a malformed id.
_MAX_ID_CHARS: Final = 200


class StreamError(AFLError):
    """The root of every error that afl_stream raises on purpose."""


class ConfigError(StreamError):
    """A setting cannot be used as it stands."""

    def __init__(self, source: str, key: str, found: object, expected: str) -> None:
        wanted = (
            f": {expected}" if expected.startswith(("no such key", "no such variable")) else f", expected {expected}"
        )
        text = f"{source}: {printable(key)}: found {printable(repr(found))}{wanted}"
        super().__init__(masked_text(text))
        self.source = source
        self.key = key
        self.found = found
        self.expected = expected


class UnreadableSettings(ConfigError):
    """A settings file does not exist, or is not TOML. `reason` has the reader's own words."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(source, "file", reason, "a readable TOML file")
        self.args = (masked_text(f"{source} is not a readable TOML file: {printable(reason)}"),)


class ResourceMissing(StreamError):
    """A file that ships with the package is missing."""

    def __init__(self, resource: str, looked_in: Sequence[str]) -> None:
        super().__init__(f"{resource} not found; looked in {', '.join(looked_in)}; install the package again")
        self.resource = resource
        self.looked_in = tuple(looked_in)


class IdRefused(StreamError):
    """An id does not have the form of its kind."""

    def __init__(self, kind: str, found: object, expected: str) -> None:
        super().__init__(f"{printable(repr(found), _MAX_ID_CHARS)} is not a valid {kind}: expected {expected}")
        self.kind = kind
        self.found = found
        self.expected = expected


class ValueRefused(StreamError, values.ValueRefused):
    """A value is not an AFL value, or does not fit the declared type of its place.

    `afl.core.values` words the reason.
    """


class TypeUnknown(StreamError):
    """A signature names a type that is neither built in, nor a schema, nor a facet that was given."""

    def __init__(self, path: str, found: object) -> None:
        super().__init__(f"{path}: {found!r} is not a known type: neither built in, nor a given schema or facet")
        self.path = path
        self.found = found


class EventTooLarge(StreamError):
    """An encoded record is larger than `max_event_bytes` allows."""

    def __init__(self, what: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"{what} takes {size_bytes} bytes, max_event_bytes allows {limit_bytes}; "
            "pass a reference to the large value, or raise the setting and the topic's max.message.bytes"
        )
        self.what = what
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class Reason(StrEnum):
    """The reason why a record could not be read. Values stand in dead-letter headers: never change one."""

    NULL_VALUE = "null_value"
    EMPTY_VALUE = "empty_value"
    EMPTY_KEY = "empty_key"
    BAD_KEY = "bad_key"
    BAD_MAGIC = "bad_magic"
    UNKNOWN_SCHEMA = "unknown_schema"
    UNKNOWN_TYPE = "unknown_type"
    TRUNCATED = "truncated"
    TRAILING_BYTES = "trailing_bytes"
    BAD_AVRO = "bad_avro"
    BAD_UTF8 = "bad_utf8"
    BAD_JSON = "bad_json"
    BAD_HEADERS = "bad_headers"
    NUMBER_OUT_OF_RANGE = "number_out_of_range"
    MISSING_FIELD = "missing_field"
    WRONG_TYPE = "wrong_type"
    BAD_ID = "bad_id"
    TOO_DEEP = "too_deep"
    TOO_LARGE = "too_large"
    BAD_SCHEMA = "bad_schema"
    BAD_PROGRAM = "bad_program"
    UNDECODABLE = "undecodable"
    TOO_OLD = "too_old"
    BAD_SEAL = "bad_seal"
    ERASED = "erased"


class Unreadable(StreamError):
    """A record can never be read, now or later: dead-letter it with the reason and continue."""

    def __init__(self, reason: Reason, detail: str) -> None:
        # It quotes the record, mostly.
        self.detail = printable(detail)
        super().__init__(f"{reason.value}: {self.detail}")
        self.reason = reason


class NotStorable(StreamError):
    """A batch holds a value that has no stored form, or that there is no memory left for."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"it cannot be stored: {exception_class(cause)}: {exception_text(cause)}")


class NotEvaluable(StreamError):
    """The engine cannot continue a workflow: memory ran out, or the engine has a defect. It is not a step's failure."""

    def __init__(self, workflow_id: str | None, workflow: str, cause: BaseException) -> None:
        self.workflow_id = workflow_id
        self.error_type, self.text = exception_class(cause), exception_text(cause)
        text = f"workflow {workflow_id} ({workflow})" if workflow_id is not None else "its workflow"
        super().__init__(f"{text} cannot be evaluated: {self.error_type}: {self.text}")


class NewerFormat(StreamError):
    """A record, or something stored that it refers to, was written by a release too new for this one to read.

    Pause its partition; it is never dead-lettered. `remedy` says what to do: nearly always, to upgrade.
    """

    def __init__(self, found: str, supported: str, remedy: str = "upgrade this process") -> None:
        super().__init__(f"found format {printable(found)}, this release reads up to {supported}: {remedy}")
        self.found = found
        self.supported = supported


class SchemaUnknown(StreamError):
    """No schema has this id: the schemas topic was read to its end, or `registry`, named by its url, says so."""

    def __init__(self, schema_id: str, registry: str | None = None) -> None:
        nowhere = "was announced by any writer" if registry is None else f"is in the registry {registry}"
        super().__init__(f"no schema with {'fingerprint' if registry is None else 'id'} {schema_id} {nowhere}")
        self.schema_id = schema_id


class SchemaTaken(StreamError):
    """The fingerprint of a schema is already that of another announced schema."""

    def __init__(self, schema_id: str, held: str) -> None:
        super().__init__(
            f"fingerprint {schema_id} of the schema is taken by another one on the schemas topic: {held}; delete that "
            "record (a null value under its key) and restart the services, or change the facet's signature"
        )
        self.schema_id = schema_id


class SchemaUnavailable(StreamError):
    """A schema or program cannot be looked up or announced right now: wait and try again, skip nothing.

    `waits_for_people`: it will not pass by itself, so that a process that starts need not wait for it.
    """

    fact = "cannot be reached right now"
    waits_for_people = False

    def __init__(self, wanted: str, cause: str) -> None:
        super().__init__(f"{wanted} {self.fact}: {cause}")
        self.wanted = wanted
        self.cause = cause


class SchemaGone(SchemaUnavailable):
    """The schemas topic can be read and has lost the schema of a record: its partition waits, and no other."""

    fact = "is gone"

    def __init__(self, schema_id: str, why: str) -> None:
        super().__init__(f"schema {schema_id}", f"it was announced, and {why}")


class DeclarationError(StreamError):
    """A file of `topics/` declares something unusable."""

    def __init__(self, source: str, key: str, found: object, expected: str) -> None:
        super().__init__(f"{source}: {key}: found {found!r}, expected {expected}")
        self.source = source
        self.key = key
        self.found = found
        self.expected = expected


class TopicNameRefused(StreamError):
    """A topic name is invalid in Kafka, or its metrics would not tell it from another name."""

    def __init__(self, topic: str, why: str) -> None:
        super().__init__(f"topic name {topic!r}: {why}")
        self.topic = topic
        self.why = why


class TopicMissing(StreamError):
    """A topic that is needed does not exist. Only `afl-stream topics apply` creates topics.

    `near` are facets that have a topic, and whose names look like that of the facet that has none.
    """

    def __init__(self, topic: str, needed_for: str, near: Sequence[str] = ()) -> None:
        self.topic = topic
        self.needed_for = needed_for
        self.near = tuple(near)
        super().__init__(self.message_with("afl-stream topics apply", "run"))

    def message_with(self, remedy: str, verb: str = "create it with") -> str:
        """Return the message, with the command that creates the topic. The question whether it is a typo goes first."""
        missing = f"topic {self.topic} does not exist and is needed for {self.needed_for}"
        if not self.near and self.needed_for.startswith("facet "):
            # A handler's topic: its facet may not be an event facet at all.
            return f"{missing}, if that is declared as an event facet (others have none); {verb}: {remedy}"
        if not self.near:
            return f"{missing}; {verb}: {remedy}"
        return f"{missing}; {did_you_mean(self.near)} If the name is right, create the topic with: {remedy}"


class TopicTooSmall(StreamError):
    """A topic takes smaller records than `max_event_bytes` lets the runtime write."""

    def __init__(self, topic: str, limit_bytes: int, needed_bytes: int) -> None:
        super().__init__(
            f"topic {topic} takes records of {limit_bytes} bytes, max_event_bytes and headers need {needed_bytes}; "
            "raise the topic's max.message.bytes, or lower max_event_bytes"
        )
        self.topic = topic
        self.limit_bytes = limit_bytes
        self.needed_bytes = needed_bytes


class TooFewBrokers(StreamError):
    """Topics to create are declared with more replicas than the cluster has brokers.

    Or they would get fewer replicas than other topics have, because a broker is away.
    """

    def __init__(
        self, asked: Mapping[str, int], brokers: int, setting: int | None, *, is_one_away: bool = False
    ) -> None:
        """Build the message.

        `asked` maps the topics to their replicas, `setting` is `topics.replication` if that asks for them.
        `is_one_away`: the topics of `asked` exist, with more replicas than brokers answer now.
        """
        has = f"the cluster has {brokers} broker{'' if brokers == 1 else 's'}"
        fewer = f"{brokers} or fewer, or leave it out: then there are as many replicas as brokers, three at most"
        if is_one_away:
            said = _one_is_away(asked, brokers)
        elif setting is not None and setting > brokers:
            said = f"topics.replication is {setting}, and {has}: set it (AFL_TOPICS_REPLICATION) to {fewer}"
        else:
            listing = ", ".join(f"{topic} {count}" for topic, count in asked.items())
            said = f"topics/ declares more replicas than there can be ({listing}): {has}. Declare {fewer}"
        super().__init__(f"{said}. Nothing was created")
        self.asked, self.brokers = dict(asked), brokers


def _one_is_away(having: Mapping[str, int], brokers: int) -> str:
    most, number = max(having.values()), len(having)
    topics = "topics has" if number == 1 else "topics have"
    answer = "1 broker answers" if brokers == 1 else f"{brokers} brokers answer"
    away = "one is away" if most - brokers == 1 else f"{most - brokers} are away"
    return (
        f"{number} of the deployment's {topics} {'' if min(having.values()) == most else 'up to '}{most} copies, and "
        f"{answer}: {away}, and new topics would have {brokers} for good. Apply again when all are back, or set "
        f"topics.replication (AFL_TOPICS_REPLICATION) to {brokers}"
    )


class TooManyPartitions(StreamError):
    """Topics to create would give the deployment more partitions than `topics.max_partitions` allows.

    `created` maps the topics to create to their partitions, `there` counts those of the topics that exist.
    """

    def __init__(self, created: Mapping[str, int], there: int, budget: int) -> None:
        wanted = sum(created.values())
        largest = ", ".join(f"{topic} {count}" for topic, count in sorted(created.items(), key=lambda i: -i[1])[:3])
        topics = "1 topic" if len(created) == 1 else f"{len(created)} topics"
        super().__init__(
            f"{topics} to create would add {wanted} partitions to {there}, and topics.max_partitions is {budget}; the "
            f"largest are {largest}. Lower topics.event_partitions, share topics in topics/facet.toml, or raise "
            "topics.max_partitions. Nothing was created"
        )
        self.created, self.there, self.budget = dict(created), there, budget


class TooFewPartitions(StreamError):
    """A topic has fewer partitions than are declared for it."""

    def __init__(self, topic: str, found: int, declared: int, bootstrap: str | None = None) -> None:
        super().__init__(
            f"topic {topic} has {found} partitions, {declared} are declared; "
            f"raise it with: {_raising(topic, declared, bootstrap)}, or declare {found}"
        )
        self.topic, self.found, self.declared = topic, found, declared


class PartitionsDiffer(StreamError):
    """Topics that must have the same number of partitions have different numbers, or another number than is set.

    `found` maps each of the topics to its number, `expected` is the setting's.
    """

    def __init__(self, found: Mapping[str, int], expected: int, bootstrap: str | None = None) -> None:
        counts, most = set(found.values()), max(found.values())
        listing = ", ".join(f"{topic} {count}" for topic, count in found.items())
        setting = f"topics.control_partitions = {most} (AFL_TOPICS_CONTROL_PARTITIONS={most})"
        if len(counts) == 1:
            remedy = f"set {setting} in every process of this deployment"
        else:
            # The number determines a key's partition: running workflows would be spread over two partitions.
            raising = "; ".join(_raising(t, most, bootstrap) for t, count in found.items() if count < most)
            remedy = f"while no workflow runs, raise the smaller ones with: {raising}"
            remedy += "" if most == expected else f", and set {setting}"
        super().__init__(
            f"control, commands and external need {expected} partitions each, as topics.control_partitions says; "
            f"found {listing}: {remedy}"
        )
        self.found, self.expected = dict(found), expected


class AlreadyExists(StreamError):
    """A workflow of this id runs something else. `differences` says what: `start_differences` makes them."""

    def __init__(self, workflow_id: str, name: str, differences: Sequence[str]) -> None:
        super().__init__(
            f"workflow {workflow_id} exists, and is not the one asked for: {'; '.join(differences)}; choose another id"
        )
        self.workflow_id, self.name, self.differences = workflow_id, name, tuple(differences)


class AlreadyPurged(StreamError):
    """A run of this id has ended, and was purged: the id is not used again, and its outputs are gone."""

    def __init__(self, workflow_id: str, name: str, status: str, ended_at_ms: int) -> None:
        ended = datetime.fromtimestamp(ended_at_ms / 1000, UTC)
        super().__init__(
            f"workflow {workflow_id} has run before: it ended as {status} on {ended:%Y-%m-%d %H:%M:%S} UTC, and was "
            f"purged; choose another id to run {name} again"
        )
        self.workflow_id, self.name, self.status, self.ended_at_ms = workflow_id, name, status, ended_at_ms


class NothingToCancel(StreamError):
    """The workflow to cancel was never started."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(f"there is no workflow {workflow_id} to cancel")
        self.workflow_id = workflow_id


class AlreadyEnded(StreamError):
    """The workflow to cancel has already ended."""

    def __init__(self, workflow_id: str, status: str) -> None:
        super().__init__(f"workflow {workflow_id} has ended: it is {status}, there is nothing to cancel")
        self.workflow_id, self.status = workflow_id, status


class NothingToDescribe(StreamError):
    """The workflow to describe was never started."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(f"there is no workflow {workflow_id}")
        self.workflow_id = workflow_id


class NothingToRunAgain(StreamError):
    """The workflow to run again was never started, or is purged."""

    def __init__(self, workflow_id: str, *, is_purged: bool) -> None:
        why = ": it has ended and was purged" if is_purged else ""
        super().__init__(f"there is no workflow {workflow_id} to run again{why}")
        self.workflow_id = workflow_id


class AnswerRefused(StreamError):
    """An answer has no valid token, so its sender has not proved that it received the event."""

    def __init__(self, step_id: str) -> None:
        super().__init__(f"the answer to step {step_id} has no token, or not the one that the event carried")
        self.step_id = step_id


class AnswerNotTaken(StreamError):
    """An answer to a step changes nothing. `outcome` says why: late, duplicate, superseded, ..."""

    def __init__(self, step_id: str, outcome: str, meaning: str) -> None:
        super().__init__(f"the answer to step {step_id} is {outcome}: {meaning}")
        self.step_id, self.outcome = step_id, outcome


class TooManyParked(StreamError):
    """An answer came before its step asked, and no more such answers are kept."""

    def __init__(self, step_id: str, parked: str, limit: str) -> None:
        super().__init__(
            f"step {step_id} has not asked yet, and no more answers are parked: {parked} are, and the limit is {limit}"
        )
        self.step_id = step_id


class AnswerExpired(StreamError):
    """A parked answer expired before its step asked."""

    def __init__(self, step_id: str, waited_s: int) -> None:
        super().__init__(f"step {step_id} did not ask within {waited_s} s")
        self.step_id, self.waited_s = step_id, waited_s


def _raising(topic: str, partitions: int, bootstrap: str | None) -> str:
    """Return the command that raises a topic's number of partitions; Kafka has none that lowers it."""
    address = bootstrap or "HOST:PORT"
    return f"kafka-topics.sh --bootstrap-server {address} --alter --topic {topic} --partitions {partitions}"
