"""What the rights of a role depend on: facets of programs, and what bridges, workflows and subscriptions touch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click

from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.commands.refusals import CommandRefused, NotFound

if TYPE_CHECKING:
    from afl.compiled.program import CompiledProgram
    from afl_stream.settings.config import StreamConfig
    from afl_stream.topics.rights import HostedScope, Right, Scope, Subscribed

#: The roles that an option is for; without one it would say nothing.
_ROLES_OF: Final = {
    "--declaration": ("bridge",),
    "--workflow": ("pubsub-worker", "pubsub-client"),
    "--topic": ("subscriber",),
    "--name": ("bridge", "subscriber"),
}
_BRIDGE_NAME: Final = "bridge"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeOptions:
    """The options that say how much of a role is asked for."""

    role: str
    facets: tuple[str, ...]
    group: str | None
    answers: bool
    minimal: bool
    declaration: str | None
    workflow: str | None
    topics: tuple[str, ...]
    name: str | None

    def check(self) -> None:
        """Raise UsageError for an option of another role."""
        given = {
            "--declaration": self.declaration, "--workflow": self.workflow, "--topic": self.topics, "--name": self.name
        }  # fmt: skip
        for option, value in given.items():
            if value and self.role not in (roles := _ROLES_OF[option]):
                raise click.UsageError(f"{option} is for {' and '.join(roles)}, found with --role {self.role}")
        if self.declaration is not None and self.facets:
            raise click.UsageError("--declaration says which facets the bridge answers: leave out --facet")


def rights_asked_for(
    invocation: Invocation, config: StreamConfig, files: Sequence[str], options: ScopeOptions
) -> list[Right]:
    """Return the rights of a role. Raises what rights_of raises, NotFound for unknown facets, and CommandRefused."""
    from afl_stream.topics.acls import rights_of
    from afl_stream.topics.declared import Topology
    from afl_stream.topics.rights import FacetsNeeded, Role

    role, topology = Role(options.role), Topology(config)
    scope = _scope(config, options)
    known: list[str] | None = None
    if files or scope.facets:
        known = _known_facets(invocation, config, files)
        _check_facets(config, scope.facets, known)
    while True:
        try:
            return rights_of(role, topology, replace(scope, known_facets=tuple(known or ())))
        except FacetsNeeded:
            if known is not None or role is Role.AGENT:
                raise
            known = _known_facets(invocation, config, files) or []


def _scope(config: StreamConfig, options: ScopeOptions) -> Scope:
    from afl_stream.topics.rights import Role, Scope

    scope = Scope(
        facets=options.facets, group=options.group, answers=options.answers, is_minimal=options.minimal,
        subscribed=_subscribed(config, options), hosted=_hosted(config, options.workflow),
    )  # fmt: skip
    if options.declaration is not None:
        from afl_stream.bridge.bridge import Bridge
        from afl_stream.commands.bridge import declared_by

        bridge = Bridge(config, name=options.name or _BRIDGE_NAME)
        declared_by(options.declaration)(bridge)
        return replace(scope, facets=bridge.facets, bridge=bridge.scope)
    if options.role == Role.GATEWAY and not options.facets:
        served = {*config.gateway.polled_facets, *config.gateway.webhook_urls()}
        return replace(scope, facets=tuple(sorted(served)))
    return scope


def _hosted(config: StreamConfig, workflow: str | None) -> HostedScope | None:
    if workflow is None:
        return None
    from afl_stream.commands.pubsub.stores import keeps_requests_on_topic
    from afl_stream.commands.pubsub.workflows import load_workflow
    from afl_stream.pubsub.hosting.topics import WorkflowTopics

    loaded = load_workflow(workflow)
    definition = loaded.definition
    return WorkflowTopics(config, definition.name, definition.topics).scope(
        taken=[topic.name for topic in (*definition.input_topics, *definition.in_workflow_input_topics)],
        given=[topic.name for topic in definition.output_topics],
        has_state=keeps_requests_on_topic(config, loaded),
    )


def _subscribed(config: StreamConfig, options: ScopeOptions) -> tuple[Subscribed, ...]:
    from afl_stream.commands.pubsub.subscribing import UNNAMED
    from afl_stream.pubsub.subscriptions.settings import subscription_group
    from afl_stream.topics.declared import check_topic_name
    from afl_stream.topics.rights import Subscribed

    group, is_prefix = subscription_group(config, options.name or UNNAMED), options.name is None
    topics = [check_topic_name(topic) for topic in options.topics]
    return tuple(Subscribed(topic=topic, group=group, is_prefix=is_prefix) for topic in topics)


def _check_facets(config: StreamConfig, facets: Sequence[str], known: list[str] | None) -> None:
    """Refuse facets that no program has, as far as programs are known, and those without a topic."""
    from afl.core.text.near_names import near_names

    for facet in facets:
        if known is not None and facet not in known:
            near = near_names(facet, known)
            raise NotFound("event facet", facet, "" if near else f"there are {', '.join(known) or 'none'}", near)
        if not config.dispatch.is_topic(facet):
            raise CommandRefused(f"events of {facet} are tasks in the store (dispatch.*): no topic has them")


def _known_facets(invocation: Invocation, config: StreamConfig, files: Sequence[str]) -> list[str] | None:
    """Return the event facets of the files, or of the deployed programs; None where these cannot be looked at."""
    from afl_stream.commands.programs import compile_program

    if files:
        return _event_facets([compile_program(files, invocation.terminal(), invocation.strictness)], config)
    if not config.is_kafka and not config.log_path.exists():
        return None
    from afl_stream.client.client import Client
    from afl_stream.commands.topics.plans import deployed_programs
    from afl_stream.transport import NotAuthorized

    with open_transport(config) as transport, Client(config, transport) as client:
        try:
            return _event_facets(deployed_programs(client, transport), config) or None
        except NotAuthorized:
            # Who gives rights need not have those of reading programs.
            return None


def _event_facets(programs: Sequence[CompiledProgram], config: StreamConfig) -> list[str]:
    found = {facet.qualified_name for program in programs for facet in program.event_facets()}
    return sorted(facet for facet in found if config.dispatch.is_topic(facet))
