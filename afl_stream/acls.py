"""Access control lists of a cluster: which user may do what, and topics that they hide from a user."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from afl_stream.errors import TopicMissing
from afl_stream.transport import NotAuthorized, UnknownTopic


class Operation(StrEnum):
    """What a user does. Values are those of Kafka's own tools."""

    ALL = "All"
    ALTER = "Alter"
    ALTER_CONFIGS = "AlterConfigs"
    CLUSTER_ACTION = "ClusterAction"
    CREATE = "Create"
    DELETE = "Delete"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"
    READ = "Read"
    WRITE = "Write"


class Resource(StrEnum):
    """What it is done to. Values are those of Kafka's own tools."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"


class Match(StrEnum):
    """Whether an ACL is for one name, or for all that begin with it."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Acl:
    """One right of one user. `is_denied`: it is taken, whatever other ACLs give."""

    principal: str
    resource: Resource
    name: str
    match: Match
    operation: Operation
    host: str = "*"
    is_denied: bool = False

    def __str__(self) -> str:
        """Say it in words, without the user."""
        verb = "not " if self.is_denied else ""
        names = f"{self.resource} {self.name}{'*' if self.match is Match.PREFIXED else ''}"
        where = "" if self.host == "*" else f" from {self.host}"
        return f"{verb}{self.operation} on {names}{where}"


@runtime_checkable
class KeepsAcls(Protocol):
    """The part of an admin that reads and creates ACLs. It needs DESCRIBE and ALTER on the cluster."""

    def acls_of(self, principal: str) -> frozenset[Acl]:
        """Return the ACLs of a user. Raises NotAuthorized, BrokerUnavailable."""

    def create_acls(self, acls: Collection[Acl]) -> None:
        """Create these ACLs; those that exist stay. Raises NotAuthorized, BrokerUnavailable."""


@runtime_checkable
class KnowsHiddenTopics(Protocol):
    """The part of an admin that tells a topic that does not exist from one that its user may not see."""

    def hidden(self, names: Iterable[str]) -> frozenset[str]:
        """Return those of these topics that this user may not see: it is not told whether they exist."""


def hidden_topic(topic: str) -> NotAuthorized:
    """Return the error for a topic that this user may not see."""
    return NotAuthorized(f"topic {topic}", "hidden: the broker does not tell whether it exists", Operation.DESCRIBE)


def unlisted(admin: object, topic: str) -> UnknownTopic | NotAuthorized:
    """Return the error for a topic that the broker does not list: it is missing, or hidden from this user."""
    return hidden_topic(topic) if hidden_among(admin, [topic]) else UnknownTopic(topic)


def hidden_among(admin: object, names: Collection[str]) -> frozenset[str]:
    """Return those of these topics that the user may not see; none where there are no users."""
    return admin.hidden(names) if names and isinstance(admin, KnowsHiddenTopics) else frozenset()


class TopicHidden(TopicMissing):
    """A topic that is needed is hidden from this user: no ACL lets it see the topic, so it may or may not exist.

    `role`: the options of `afl-stream topics acls` that give the right, such as `--role audit`.
    """

    def __init__(self, topic: str, needed_for: str, role: str) -> None:
        self.role = role
        super().__init__(topic, needed_for)

    def message_with(self, remedy: str = "", verb: str = "") -> str:  # noqa: ARG002 - what creates topics does not help
        """Return the message, with the command that gives the right."""
        return (
            f"topic {self.topic} is hidden from this user, and is needed for {self.needed_for}: no ACL gives Describe "
            f"on topic {self.topic} (Read and Write give it, too), so the broker does not tell whether it exists. An "
            f"administrator gives all rights of a role with: afl-stream topics acls {self.role} --principal User:NAME "
            "--apply"
        )


def check_visible(admin: object, topic: str, needed_for: str, role: str) -> None:
    """Raise TopicHidden if this topic, which the broker does not list, is one that this user may not see.

    `role`: as in TopicHidden.
    """
    if hidden_among(admin, [topic]):
        raise TopicHidden(topic, needed_for, role)


def not_listed(admin: object, topic: str, needed_for: str, role: str, near: Sequence[str] = ()) -> TopicMissing:
    """Return the error for a topic that the broker does not list; asks it whether this user may see the topic.

    `role`: as in TopicHidden; `near`: as in TopicMissing.
    """
    if hidden_among(admin, [topic]):
        return TopicHidden(topic, needed_for, role)
    return TopicMissing(topic, needed_for, near)
