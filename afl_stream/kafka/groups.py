"""Groups of consumers on a Kafka cluster, described by its brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from afl_stream.group_members import GroupMember, GroupView
from afl_stream.kafka.error_codes import Decision, decision_of
from afl_stream.kafka.errors import error_of
from afl_stream.kafka.waits import result_of

_REQUEST_TIMEOUT_S: Final = 5.0
#: When librdkafka gives up describing a group: as late as it allows. A request that it gives up while it looks for the
#: group's coordinator aborts the process once the coordinator is found (its issue 4605, open in 2.16.1). Time-outs are
#: kept here instead, and a request without an answer ends with its client.
NEVER_S: Final = 3_600.0
#: What brokers say of a group that does not exist, from 4.0 on.
_NO_GROUP: Final = KafkaError.GROUP_ID_NOT_FOUND


def group_names(client: AdminClient, address: str = "") -> list[str]:
    """Return the names of all groups that this user may see. Raises KafkaException and TimeoutError."""
    asked = client.list_consumer_groups(request_timeout=_REQUEST_TIMEOUT_S)
    found = result_of(asked, _REQUEST_TIMEOUT_S + 1.0, "what groups there are", address=address)
    return sorted(group.group_id for group in found.valid)


def describe_groups(client: AdminClient, names: Sequence[str], address: str = "") -> dict[str, GroupView]:
    """Return the groups of these names; those that this user may not describe are left out.

    Raises KafkaException, and TimeoutError: then close the client, which still has the request.
    """
    if not names:
        return {}
    asked = client.describe_consumer_groups(list(names), request_timeout=NEVER_S)
    found: dict[str, GroupView] = {}
    for name, future in asked.items():
        try:
            described = result_of(future, _REQUEST_TIMEOUT_S, f"group {name}", address=address)
        except KafkaException as error:
            code = error_of(error)
            if code.code() == _NO_GROUP:
                found[name] = GroupView(name=name)
                continue
            if decision_of(code) is Decision.NOT_ALLOWED:
                continue
            raise
        found[name] = GroupView(name=name, members=tuple(_member(member) for member in described.members))
    return found


def _member(member: Any) -> GroupMember:
    held = () if member.assignment is None else member.assignment.topic_partitions
    return GroupMember(
        client_id=member.client_id or "",
        host=(member.host or "").removeprefix("/"),
        partitions=frozenset((partition.topic, partition.partition) for partition in held),
    )
