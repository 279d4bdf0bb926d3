"""The least rights of each role on a cluster with ACLs, and the ACLs that give them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from afl_stream.acls import Acl
from afl_stream.topics import pubsub_rights, role_rights
from afl_stream.topics.declared import Topology
from afl_stream.topics.rights import OptionOfOthers, Right, RightNames, Role, Scope

_ROLES: Final[Mapping[Role, Callable[[RightNames], Iterator[Right]]]] = {
    Role.EVALUATOR: role_rights.evaluator,
    Role.AGENT: role_rights.agent,
    Role.AUDIT: role_rights.audit,
    Role.PRODUCER: role_rights.producer,
    Role.STARTER: role_rights.starter,
    Role.OPERATOR: role_rights.operator,
    Role.DASHBOARD: role_rights.dashboard,
    Role.GATEWAY: role_rights.gateway,
    Role.BRIDGE: pubsub_rights.bridge,
    Role.PUBSUB_WORKER: pubsub_rights.pubsub_worker,
    Role.PUBSUB_CLIENT: pubsub_rights.pubsub_client,
    Role.SUBSCRIBER: pubsub_rights.subscriber,
}


def rights_of(role: Role, topology: Topology, scope: Scope | None = None) -> list[Right]:
    """Return the least rights with which a role does all of its work.

    Raises FacetsNeeded for an agent without facets, and where the topics of facets do not begin alike and no facet is
    known; ScopeNeeded for a role of event-driven workflows without what it reads; OptionOfOthers for a group or answers
    of a role that has none.
    """
    scope = scope or Scope()
    if scope.group is not None and role not in (Role.EVALUATOR, Role.AGENT, Role.AUDIT):
        raise OptionOfOthers("--group", role, (Role.EVALUATOR, Role.AGENT, Role.AUDIT))
    if scope.answers and role is not Role.PRODUCER:
        raise OptionOfOthers("--answers", role, (Role.PRODUCER,))
    names = RightNames(topology, role, scope)
    found = [*_ROLES[role](names), names.readers()]
    return [right for right in found if not (scope.is_minimal and right.is_optional)]


def acls_of(rights: Sequence[Right], principal: str, host: str = "*") -> list[Acl]:
    """Return the ACLs that give these rights to a user, each once, in order."""
    acls = [
        Acl(principal=principal, resource=one.resource, name=one.name, match=one.match, operation=operation, host=host)
        for one in rights
        for operation in one.operations
    ]
    return list(dict.fromkeys(acls))
