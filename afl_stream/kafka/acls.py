"""ACLs as Kafka's admin client knows them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its documented names, not marked as exported
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from afl_stream.acls import Acl, Match, Operation, Resource
from afl_stream.kafka.errors import error_of
from afl_stream.kafka.waits import result_of
from afl_stream.transport import NotAuthorized, TransportError

_REQUEST_TIMEOUT_S: Final = 15.0
_RESOURCES: Final = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.CLUSTER: ResourceType.BROKER,
    Resource.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}


class AclsHaveNoEffect(TransportError):
    """The brokers have no authorizer."""

    def __init__(self) -> None:
        super().__init__(
            "the brokers have no authorizer (their setting authorizer.class.name), so ACLs have no effect: every user "
            "may do everything"
        )


def read_acls(client: AdminClient, principal: str, address: str = "") -> frozenset[Acl]:
    """Return the ACLs of a user, but for kinds that have no name here.

    Raises NotAuthorized, KafkaException and TimeoutError.
    """
    anything: Any = None  # Its types do not know that None is any name, or any host.
    wanted = AclBindingFilter(
        ResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        principal,
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    asked = client.describe_acls(wanted, request_timeout=_REQUEST_TIMEOUT_S)
    found = result_of(asked, _REQUEST_TIMEOUT_S + 1.0, f"the ACLs of {principal}", address=address)
    if not found:
        # A question that was refused is answered by none, too: the client library does not pass on the refusal.
        cluster = client.describe_cluster(include_authorized_operations=True, request_timeout=_REQUEST_TIMEOUT_S)
        told = result_of(cluster, _REQUEST_TIMEOUT_S + 1.0, "what this user may do", address=address)
        if AclOperation.DESCRIBE not in (told.authorized_operations or ()):
            raise NotAuthorized("the cluster", "to read ACLs", Operation.DESCRIBE)
    return frozenset(acl for binding in found if (acl := _acl(binding)) is not None)


def write_acls(client: AdminClient, acls: Collection[Acl], address: str = "") -> None:
    """Create ACLs; those that exist stay.

    Raises NotAuthorized, AclsHaveNoEffect, KafkaException and TimeoutError for the first that is refused.
    """
    if not acls:
        return
    asked = client.create_acls([_binding(acl) for acl in acls], request_timeout=_REQUEST_TIMEOUT_S)
    for created in asked.values():
        try:
            result_of(created, _REQUEST_TIMEOUT_S + 1.0, "new ACLs", address=address)
        except KafkaException as error:
            code = error_of(error).code()
            if code == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                # Its text is a page about the request, for those who read the code of brokers.
                raise NotAuthorized("the cluster", "to create ACLs", Operation.ALTER) from error
            if code == KafkaError.SECURITY_DISABLED:
                raise AclsHaveNoEffect from error
            raise


def _binding(acl: Acl) -> AclBinding:
    return AclBinding(
        _RESOURCES[acl.resource],
        acl.name,
        ResourcePatternType[acl.match.name],
        acl.principal,
        acl.host,
        AclOperation[acl.operation.name],
        AclPermissionType.DENY if acl.is_denied else AclPermissionType.ALLOW,
    )


def _acl(binding: Any) -> Acl | None:
    resource = next((ours for ours, theirs in _RESOURCES.items() if theirs is binding.restype), None)
    operation, match = binding.operation.name, binding.resource_pattern_type.name
    if resource is None or operation not in Operation.__members__ or match not in Match.__members__:
        return None
    return Acl(
        principal=binding.principal,
        resource=resource,
        name=binding.name,
        match=Match[match],
        operation=Operation[operation],
        host=binding.host,
        is_denied=binding.permission_type is AclPermissionType.DENY,
    )
