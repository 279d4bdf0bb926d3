"""The least rights of the roles of AFL workflows: topics, groups, operations, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from afl_stream.acls import Match, Operation
from afl_stream.topics.rights import JOINS, LIMIT, POLICY, FacetsNeeded, Right, RightNames, Role

_READ: Final = Operation.READ
_WRITE: Final = Operation.WRITE
_CREATE: Final = Operation.CREATE
_DESCRIBE: Final = Operation.DESCRIBE
_CONFIGS: Final = Operation.DESCRIBE_CONFIGS

_LISTED: Final = "to be listed by `afl-stream servers`"
_SCHEMAS: Final = "to read and write Avro; the schemas of answers, commands and events are there after a deploy"
_REPLIES: Final = "to get the evaluators' replies, and to wait for the end of runs"


def evaluator(names: RightNames) -> Iterator[Right]:
    """Yield the rights of an evaluator."""
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
    yield names.group(names.scope.group or names.config.evaluator_group, _READ, JOINS)


def agent(names: RightNames) -> Iterator[Right]:
    """Yield the rights of an agent of some facets. Raises FacetsNeeded."""
    scope = names.scope
    if not scope.facets:
        raise FacetsNeeded(Role.AGENT, "each facet has a topic and a group of its own")
    yield from _events_of_facets(names)
    yield names.topic("control", _WRITE, why="answers")
    yield names.topic("control", _CONFIGS, why=f"{LIMIT}; {POLICY}", is_optional=True)
    yield names.topic("schemas", _READ, why=_SCHEMAS)
    yield names.topic("schemas", _CONFIGS, why=POLICY, is_optional=True)
    yield names.topic("definitions", _READ, why="to hold still while its facet is paused", is_optional=True)
    yield names.topic("lifecycle", _READ, why="to skip the events of cancelled runs", is_optional=True)
    yield names.topic("presence", _WRITE, why=_LISTED, is_optional=True)
    yield from _groups_of_facets(names)


def _events_of_facets(names: RightNames) -> Iterator[Right]:
    """Yield the rights on the events of the facets that are worked on, and on their dead letters."""
    yield from names.facets(_READ, why="reads the events of its facets, and of no other")
    yield from names.facets(_CONFIGS, why=POLICY, is_optional=True)
    topics = [names.topology.facet(name) for name in names.scope.facets]
    yield from names.letters(_WRITE, why="gives up events", originals=topics)
    yield from names.letters(_CONFIGS, why=LIMIT, originals=topics, is_optional=True)


def _groups_of_facets(names: RightNames) -> Iterator[Right]:
    scope = names.scope
    groups = [scope.group] if scope.group else [names.config.agent_group(facet) for facet in scope.facets]
    for group in dict.fromkeys(groups):
        yield names.group(group, _READ, JOINS)


def gateway(names: RightNames) -> Iterator[Right]:
    """Yield the rights of a gateway: of an agent, if it serves facets, and of those who start runs and answer."""
    if names.scope.facets:
        yield from _events_of_facets(names)
        yield from _groups_of_facets(names)
        yield names.topic("presence", _WRITE, why=_LISTED, is_optional=True)
    yield names.topic("control", _WRITE, why="answers for its workers, and for those who answer steps")
    yield names.topic("commands", _WRITE, why="starts and moves runs, and asks how they stand")
    yield names.topic("external", _WRITE, why="raises external events")
    for kind in ("control", "commands", "external"):
        yield names.topic(kind, _CONFIGS, why=LIMIT, is_optional=True)
    yield names.topic("lifecycle", _READ, why="to get the evaluators' replies: how runs stand, and how they ended")
    yield names.topic("definitions", _READ, why="looks programs up, and checks inputs; holds facets that are paused")
    yield names.topic("schemas", _READ, why=_SCHEMAS)
    yield names.topic("schemas", _CONFIGS, why=POLICY, is_optional=True)


def audit(names: RightNames) -> Iterator[Right]:
    """Yield the rights of an audit."""
    for kind, what in (
        ("control", "answers"), ("commands", "commands"), ("external", "external events"), ("lifecycle", "milestones")
    ):  # fmt: skip
        yield names.topic(kind, _READ, why=f"writes down {what}")
        yield names.topic(kind, _CONFIGS, why=POLICY, is_optional=True)
    yield from names.facets(_READ, why="writes down events")
    yield from names.letters(_READ, why="writes down dead letters")
    yield names.topic("schemas", _READ, why="reads the schemas of records")
    yield names.topic("schemas", _CONFIGS, why=POLICY, is_optional=True)
    yield names.topic("presence", _WRITE, why=_LISTED, is_optional=True)
    group, match = names.scope.group or names.audit_group(), Match.LITERAL if names.scope.group else Match.PREFIXED
    yield names.group(group, _READ, f"{JOINS}; an audit to standard output has no group", match)


def producer(names: RightNames) -> Iterator[Right]:
    """Yield the rights of a program outside that raises events, and may answer steps."""
    yield names.topic("external", _WRITE, why="raises external events")
    yield names.topic("external", _CONFIGS, why=LIMIT, is_optional=True)
    if names.scope.answers:
        yield names.topic("control", _WRITE, why="answers steps")
        yield names.topic("control", _CONFIGS, why=LIMIT, is_optional=True)
    yield names.topic("schemas", _READ, why=f"{_SCHEMAS}; JSON needs none")
    yield names.topic("lifecycle", _READ, why=_REPLIES, is_optional=True)


def starter(names: RightNames) -> Iterator[Right]:
    """Yield the rights of a program that starts runs."""
    yield names.topic("commands", _WRITE, why="starts, cancels, moves and runs again; keeps schedules")
    yield names.topic("commands", _CONFIGS, why=LIMIT, is_optional=True)
    yield names.topic("definitions", _READ, why="looks programs up, and checks inputs")
    yield names.topic("schemas", _READ, why=_SCHEMAS)
    yield names.topic("lifecycle", _READ, why=_REPLIES, is_optional=True)


def operator(names: RightNames) -> Iterator[Right]:
    """Yield the rights of an operator: all commands."""
    yield from _operating(names, (_CREATE, _CONFIGS))
    yield names.of_hosted(_READ, _WRITE, _CREATE, _CONFIGS, why="creates topics of hosted workflows; shows requests")
    yield from names.groups("`why` tells who is there")


def dashboard(names: RightNames) -> Iterator[Right]:
    """Yield the rights of a dashboard, which may be one that only reads."""
    if names.config.dashboard.read_only:
        yield from _looking(names)
    else:
        yield from _operating(names, (_CONFIGS,))
    yield from names.groups("shows members and lag")


def _operating(names: RightNames, more: tuple[Operation, ...]) -> Iterator[Right]:
    both = (_READ, _WRITE, *more)
    yield names.topic("control", *both, why="shows answers; answers by hand; replays dead letters")
    yield names.topic("commands", *both, why="shows commands; starts, cancels, moves, runs again, keeps schedules")
    yield names.topic("external", *both, why="shows and raises external events")
    yield from names.facets(*both, why="shows events; replays dead letters")
    yield names.topic("lifecycle", *both, why="shows milestones; writes those of pauses")
    yield names.topic("definitions", *both, why="deploys programs; pauses and resumes")
    yield names.topic("schemas", *both, why="reads and announces the schemas of records")
    yield from names.letters(*both, why="shows, drops and replays dead letters")
    yield names.topic("presence", _READ, *more, why="lists servers")


def _looking(names: RightNames) -> Iterator[Right]:
    for kind, what in (
        ("control", "answers"), ("commands", "commands"), ("external", "external events"), ("lifecycle", "milestones"),
        ("definitions", "programs and pauses"), ("schemas", "schemas, and reads records"), ("presence", "servers"),
    ):  # fmt: skip
        yield names.topic(kind, _READ, _CONFIGS, why=f"shows {what}")
    yield from names.facets(_READ, _CONFIGS, why="shows events")
    yield from names.letters(_READ, _CONFIGS, why="shows dead letters")
