"""The least rights of each role on a cluster with ACLs: topics, groups, operations, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Final

from afl_stream.acls import Acl, Match, Operation, Resource
from afl_stream.errors import StreamError
from afl_stream.topics.declared import FIXED_KINDS, Topology

_READ: Final = Operation.READ
_WRITE: Final = Operation.WRITE
_CREATE: Final = Operation.CREATE
_DESCRIBE: Final = Operation.DESCRIBE
_CONFIGS: Final = Operation.DESCRIBE_CONFIGS

_LISTED: Final = "to be listed by `afl-stream servers`"
_SCHEMAS: Final = "to read and write Avro; the schemas of answers, commands and events are there after a deploy"
_LIMIT: Final = "to know how large its records may be; else Kafka's default"
_POLICY: Final = "to say so where its policy would lose records"
_READERS: Final = "reads without joining; else brokers log refusals, as clients look for the group all the same"
_REPLIES: Final = "to get the evaluators' replies, and to wait for the end of runs"


class Role(StrEnum):
    """Who uses a deployment. Values are words of the command line."""

    EVALUATOR = "evaluator"
    AGENT = "agent"
    AUDIT = "audit"
    PRODUCER = "producer"
    STARTER = "starter"
    OPERATOR = "operator"
    DASHBOARD = "dashboard"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How much of a role is asked for.

    `facets`: those of an agent; for others, the only ones whose topics are used. `known_facets` are those of the
    deployment, named one by one where its facets' topics do not begin alike. `group`: another than the settings give.
    `answers`: a producer also answers steps. `is_minimal`: without what the role works without.
    """

    facets: tuple[str, ...] = ()
    known_facets: tuple[str, ...] = ()
    group: str | None = None
    answers: bool = False
    is_minimal: bool = False


def rights_of(role: Role, topology: Topology, scope: Scope | None = None) -> list[Right]:
    """Return the least rights with which a role does all of its work.

    Raises FacetsNeeded for an agent without facets, and where the topics of facets do not begin alike and no facet is
    known; OptionOfOthers for a group or answers of a role that has none.
    """
    scope = scope or Scope()
    if scope.group is not None and role not in (Role.EVALUATOR, Role.AGENT, Role.AUDIT):
        raise OptionOfOthers("--group", role, (Role.EVALUATOR, Role.AGENT, Role.AUDIT))
    if scope.answers and role is not Role.PRODUCER:
        raise OptionOfOthers("--answers", role, (Role.PRODUCER,))
    names = _Names(topology, role, scope)
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


class _Names:
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
            names[_common_start(self.topology.dlq("a"), self.topology.dlq("b"))] = Match.PREFIXED
        for name, match in names.items():
            yield Right(
                resource=Resource.TOPIC, name=name, match=match, operations=operations, why=why, is_optional=is_optional
            )

    def group(self, name: str, operation: Operation, why: str, match: Match = Match.LITERAL) -> Right:
        """Return a right on a group of consumers."""
        return Right(resource=Resource.GROUP, name=name, match=match, operations=(operation,), why=why)

    def groups(self, why: str) -> Iterator[Right]:
        """Yield the right to look at the groups of all services."""
        config = self.config
        yield self.group(config.evaluator_group, _DESCRIBE, why)
        start = _common_start(config.agent_group("a"), config.agent_group("b"))
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
        start = _common_start(topology.facet("a"), topology.facet("b"))
        others = (*self._fixed.values(), topology.presence(), topology.dlq("a"))
        return "" if any(other.startswith(start) for other in others) else start


def _evaluator(names: _Names) -> Iterator[Right]:
    own = [names.topology.control(), names.topology.commands(), names.topology.external()]
    # With a registry nothing new is announced on the topic.
    schemas = (_READ,) if names.config.registry.urls else (_READ, _WRITE)
    yield names.topic("control", _READ, _CONFIGS, why="reads answers")
    yield names.topic("commands", _READ, _WRITE, _CONFIGS, why="reads commands, and starts the runs of schedules")
    yield names.topic("external", _READ, _CONFIGS, why="reads external events")
    yield from names.facets(
        _WRITE, _CONFIGS, why="publishes events, checks their size, and publishes them again at half of the retention"
    )
    yield names.topic("lifecycle", _WRITE, _CONFIGS, why="publishes milestones, and replies to commands and answers")
    yield names.topic(
        "definitions", _READ, _WRITE, _CONFIGS, why="reads programs and pauses; claims the deployment for its store"
    )
    yield names.topic("schemas", *schemas, _CONFIGS, why="reads and announces the schemas of records")
    yield from names.letters(_WRITE, _CONFIGS, why="gives up records that cannot be read or applied", originals=own)
    yield names.topic("presence", _WRITE, why=_LISTED, is_optional=True)
    yield names.group(names.scope.group or names.config.evaluator_group, _READ, "joins, and commits offsets")


def _agent(names: _Names) -> Iterator[Right]:
    scope, topology = names.scope, names.topology
    if not scope.facets:
        raise FacetsNeeded(Role.AGENT, "each facet has a topic and a group of its own")
    yield from names.facets(_READ, why="reads the events of its facets, and of no other")
    yield from names.facets(_CONFIGS, why=_POLICY, is_optional=True)
    yield names.topic("control", _WRITE, why="answers")
    yield names.topic("control", _CONFIGS, why=f"{_LIMIT}; {_POLICY}", is_optional=True)
    topics = [topology.facet(name) for name in scope.facets]
    yield from names.letters(_WRITE, why="gives up events", originals=topics)
    yield from names.letters(_CONFIGS, why=_LIMIT, originals=topics, is_optional=True)
    yield names.topic("schemas", _READ, why=_SCHEMAS)
    yield names.topic("schemas", _CONFIGS, why=_POLICY, is_optional=True)
    yield names.topic("definitions", _READ, why="to hold still while its facet is paused", is_optional=True)
    yield names.topic("lifecycle", _READ, why="to skip the events of cancelled runs", is_optional=True)
    yield names.topic("presence", _WRITE, why=_LISTED, is_optional=True)
    groups = [scope.group] if scope.group else [names.config.agent_group(facet) for facet in scope.facets]
    for group in dict.fromkeys(groups):
        yield names.group(group, _READ, "joins, and commits offsets")


def _audit(names: _Names) -> Iterator[Right]:
    for kind, what in (
        ("control", "answers"), ("commands", "commands"), ("external", "external events"), ("lifecycle", "milestones")
    ):  # fmt: skip
        yield names.topic(kind, _READ, why=f"writes down {what}")
        yield names.topic(kind, _CONFIGS, why=_POLICY, is_optional=True)
    yield from names.facets(_READ, why="writes down events")
    yield from names.letters(_READ, why="writes down dead letters")
    yield names.topic("schemas", _READ, why="reads the schemas of records")
    yield names.topic("schemas", _CONFIGS, why=_POLICY, is_optional=True)
    yield names.topic("presence", _WRITE, why=_LISTED, is_optional=True)
    group, match = names.scope.group or names.audit_group(), Match.LITERAL if names.scope.group else Match.PREFIXED
    yield names.group(group, _READ, "joins, and commits offsets; an audit to standard output has no group", match)


def _producer(names: _Names) -> Iterator[Right]:
    yield names.topic("external", _WRITE, why="raises external events")
    yield names.topic("external", _CONFIGS, why=_LIMIT, is_optional=True)
    if names.scope.answers:
        yield names.topic("control", _WRITE, why="answers steps")
        yield names.topic("control", _CONFIGS, why=_LIMIT, is_optional=True)
    yield names.topic("schemas", _READ, why=f"{_SCHEMAS}; JSON needs none")
    yield names.topic("lifecycle", _READ, why=_REPLIES, is_optional=True)


def _starter(names: _Names) -> Iterator[Right]:
    yield names.topic("commands", _WRITE, why="starts, cancels and runs again; keeps schedules")
    yield names.topic("commands", _CONFIGS, why=_LIMIT, is_optional=True)
    yield names.topic("definitions", _READ, why="looks programs up, and checks inputs")
    yield names.topic("schemas", _READ, why=_SCHEMAS)
    yield names.topic("lifecycle", _READ, why=_REPLIES, is_optional=True)


def _operator(names: _Names) -> Iterator[Right]:
    yield from _operating(names, (_CREATE, _CONFIGS))
    yield from names.groups("`why` tells who is there")


def _dashboard(names: _Names) -> Iterator[Right]:
    if names.config.dashboard.read_only:
        yield from _looking(names)
    else:
        yield from _operating(names, (_CONFIGS,))
    yield from names.groups("shows members and lag")


def _operating(names: _Names, more: tuple[Operation, ...]) -> Iterator[Right]:
    both = (_READ, _WRITE, *more)
    yield names.topic("control", *both, why="shows answers; answers by hand; replays dead letters")
    yield names.topic("commands", *both, why="shows commands; starts, cancels, runs again, keeps schedules")
    yield names.topic("external", *both, why="shows and raises external events")
    yield from names.facets(*both, why="shows events; replays dead letters")
    yield names.topic("lifecycle", *both, why="shows milestones; writes those of pauses")
    yield names.topic("definitions", *both, why="deploys programs; pauses and resumes")
    yield names.topic("schemas", *both, why="reads and announces the schemas of records")
    yield from names.letters(*both, why="shows, drops and replays dead letters")
    yield names.topic("presence", _READ, *more, why="lists servers")


def _looking(names: _Names) -> Iterator[Right]:
    for kind, what in (
        ("control", "answers"), ("commands", "commands"), ("external", "external events"), ("lifecycle", "milestones"),
        ("definitions", "programs and pauses"), ("schemas", "schemas, and reads records"), ("presence", "servers"),
    ):  # fmt: skip
        yield names.topic(kind, _READ, _CONFIGS, why=f"shows {what}")
    yield from names.facets(_READ, _CONFIGS, why="shows events")
    yield from names.letters(_READ, _CONFIGS, why="shows dead letters")


_ROLES: Final[Mapping[Role, Callable[[_Names], Iterator[Right]]]] = {
    Role.EVALUATOR: _evaluator,
    Role.AGENT: _agent,
    Role.AUDIT: _audit,
    Role.PRODUCER: _producer,
    Role.STARTER: _starter,
    Role.OPERATOR: _operator,
    Role.DASHBOARD: _dashboard,
}


def _common_start(one: str, other: str) -> str:
    """Return the beginning that two names have in common."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(letter for letter, _ in alike)


def _article(role: Role) -> str:
    return f"{'an' if role[0] in 'aeiou' else 'a'} {role}"
