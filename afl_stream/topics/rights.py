"""Rights on a cluster with ACLs: roles, what is asked for, and the names of a deployment as rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Final

from afl_stream.acls import Match, Operation, Resource
from afl_stream.errors import StreamError
from afl_stream.topics.declared import FIXED_KINDS, Topology

#: Reasons that several roles have for a right.
LIMIT: Final = "to know how large its records may be; else Kafka's default"
POLICY: Final = "to say so where its policy would lose records"
JOINS: Final = "joins, and commits offsets"
_DESCRIBE: Final = Operation.DESCRIBE
_READERS: Final = "reads without joining; else brokers log refusals, as clients look for the group all the same"


class Role(StrEnum):
    """Who uses a deployment. Values are words of the command line."""

    EVALUATOR = "evaluator"
    AGENT = "agent"
    AUDIT = "audit"
    PRODUCER = "producer"
    STARTER = "starter"
    OPERATOR = "operator"
    DASHBOARD = "dashboard"
    GATEWAY = "gateway"
    BRIDGE = "bridge"
    PUBSUB_WORKER = "pubsub-worker"
    PUBSUB_CLIENT = "pubsub-client"
    SUBSCRIBER = "subscriber"


class FacetsNeeded(StreamError):
    """The rights of a role depend on facets, and none is given."""

    def __init__(self, role: Role, why: str) -> None:
        super().__init__(f"the rights of {_article(role)} depend on its facets: name them with --facet ({why})")


class OptionOfOthers(StreamError):
    """An option that means nothing for a role."""

    def __init__(self, option: str, role: Role, roles: Sequence[Role]) -> None:
        *most, last = roles
        listed = f"{', '.join(most)} and {last}" if most else last
        super().__init__(f"{option} is for {listed}, found with --role {role}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """Operations on a topic or a group, and why a role needs them.

    `is_optional`: the role works without, and lacks what `why` says.
    """

    resource: Resource
    name: str
    operations: tuple[Operation, ...]
    why: str
    match: Match = Match.LITERAL
    is_optional: bool = False


class ScopeNeeded(StreamError):
    """The rights of a role depend on what it reads and writes, and that is not given."""

    def __init__(self, role: Role, option: str) -> None:
        super().__init__(f"the rights of {_article(role)} depend on what it reads and writes: name it with {option}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """A topic that is subscribed to, by the cluster's name, and the group. `is_prefix`: all groups that begin so.

    `has_letters`: records that cannot be used become dead letters.
    """

    topic: str
    group: str
    is_prefix: bool = False
    has_letters: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeScope:
    """What a bridge reads and writes, beside the events of its facets."""

    reads: tuple[Subscribed, ...] = ()
    writes: tuple[str, ...] = ()
    raises_events: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedScope:
    """The topics of a hosted event-driven workflow, by the cluster's names.

    `taken` are those that clients write to, `given` those that they read. `state`: where requests are stored; None: not
    on a topic.
    """

    group: str
    topics: tuple[str, ...]
    taken: tuple[str, ...]
    given: tuple[str, ...]
    status: str
    letters: str
    state: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How much of a role is asked for.

    `facets`: those of an agent, a gateway or a bridge; for others, the only ones whose topics are used. `known_facets`
    are those of the deployment, named one by one where its facets' topics do not begin alike. `group`: another than the
    settings give. `answers`: a producer also answers steps. `bridge`, `hosted` and `subscribed` are for the roles of
    event-driven workflows. `is_minimal`: without what the role works without.
    """

    facets: tuple[str, ...] = ()
    known_facets: tuple[str, ...] = ()
    group: str | None = None
    answers: bool = False
    bridge: BridgeScope | None = None
    hosted: HostedScope | None = None
    subscribed: tuple[Subscribed, ...] = ()
    is_minimal: bool = False


class RightNames:
    """The names of a deployment's topics and groups, as rights."""

    def __init__(self, topology: Topology, role: Role, scope: Scope) -> None:
        self.topology, self.scope, self._role = topology, scope, role
        self.config = topology.config
        self._fixed: Mapping[str, str] = {kind: getattr(topology, kind)() for kind in FIXED_KINDS}

    def topic(self, kind: str, *operations: Operation, why: str, is_optional: bool = False) -> Right:
        """Return a right on a topic that every deployment has once."""
        name = self.topology.presence() if kind == "presence" else self._fixed[kind]
        return Right(resource=Resource.TOPIC, name=name, operations=operations, why=why, is_optional=is_optional)

    def facets(self, *operations: Operation, why: str, is_optional: bool = False) -> Iterator[Right]:
        """Yield the right on the events of all facets, or on those that were named, one by one."""
        start = "" if self.scope.facets else self._facets_start()
        names = {} if not start else dict.fromkeys([start], Match.PREFIXED)
        named = self.scope.facets or (() if start else self.scope.known_facets)
        if not start and not named:
            raise FacetsNeeded(self._role, "no program is deployed, and topics of facets have no beginning in common")
        shared = () if self.scope.facets else self.topology.shared_topics()
        literal = [*map(self.topology.facet, named), *shared]
        names |= {name: Match.LITERAL for name in literal if not (start and name.startswith(start))}
        for name, match in names.items():
            yield Right(
                resource=Resource.TOPIC, name=name, match=match, operations=operations, why=why, is_optional=is_optional
            )

    def letters(
        self, *operations: Operation, why: str, originals: Sequence[str] = (), is_optional: bool = False
    ) -> Iterator[Right]:
        """Yield the right on the dead letters of these topics, or of all topics."""
        names = {self.topology.dlq(original): Match.LITERAL for original in originals}
        if not names:
            names[common_start(self.topology.dlq("a"), self.topology.dlq("b"))] = Match.PREFIXED
        for name, match in names.items():
            yield Right(
                resource=Resource.TOPIC, name=name, match=match, operations=operations, why=why, is_optional=is_optional
            )

    def group(self, name: str, operation: Operation, why: str, match: Match = Match.LITERAL) -> Right:
        """Return a right on a group of consumers."""
        return Right(resource=Resource.GROUP, name=name, match=match, operations=(operation,), why=why)

    def named(self, name: str, *operations: Operation, why: str, is_optional: bool = False) -> Right:
        """Return a right on a topic by its name on the cluster."""
        return Right(resource=Resource.TOPIC, name=name, operations=operations, why=why, is_optional=is_optional)

    def of_hosted(self, *operations: Operation, why: str) -> Right:
        """Return the right on the topics of all hosted event-driven workflows."""
        start = common_start(self.topology.pubsub("a", "a"), self.topology.pubsub("b", "b"))
        return Right(resource=Resource.TOPIC, name=start, match=Match.PREFIXED, operations=operations, why=why)

    def groups(self, why: str) -> Iterator[Right]:
        """Yield the right to look at the groups of all services."""
        config = self.config
        yield self.group(config.evaluator_group, _DESCRIBE, why)
        start = common_start(config.agent_group("a"), config.agent_group("b"))
        if start:
            yield self.group(start, _DESCRIBE, why, Match.PREFIXED)
        else:
            for facet in self.scope.facets or self.scope.known_facets:
                yield self.group(config.agent_group(facet), _DESCRIBE, why)
        yield self.group(self.audit_group(), _DESCRIBE, why, Match.PREFIXED)

    def readers(self) -> Right:
        """Return the right of readers that join no group: each has a name of its own, which no group has."""
        return Right(
            resource=Resource.GROUP, name=f"{self.config.prefix}reader-", match=Match.PREFIXED,
            operations=(_DESCRIBE,), why=_READERS, is_optional=True,
        )  # fmt: skip

    def audit_group(self) -> str:
        """Return the beginning of the groups of audits."""
        return f"{self.config.prefix}audit"

    def _facets_start(self) -> str:
        """Return the beginning of the topics of all facets; "" where other topics begin so, too."""
        topology = self.topology
        start = common_start(topology.facet("a"), topology.facet("b"))
        others = (*self._fixed.values(), topology.presence(), topology.dlq("a"))
        return "" if any(other.startswith(start) for other in others) else start


def common_start(one: str, other: str) -> str:
    """Return the beginning that two names have in common."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(letter for letter, _ in alike)


def _article(role: Role) -> str:
    return f"{'an' if role[0] in 'aeiou' else 'a'} {role}"
