"""`agent --check`: whether handlers and the event facets of the deployed programs go together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase

from afl.compiled.program import CompiledProgram
from afl.core.handlers.calling import short_name
from afl.core.text.near_names import near_names
from afl_stream.agent.agent import Agent, AgentConfig
from afl_stream.client.client import Client
from afl_stream.commands.invocation import Invocation, open_store, open_transport
from afl_stream.commands.refusals import refuse_unused_facets
from afl_stream.commands.stored_handlers import StoredHandlers
from afl_stream.commands.topics.plans import deployed_programs
from afl_stream.exit_codes import ExitCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmatched:
    """A handler that no event reaches, and why."""

    handler: str
    reason: str
    near: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What came of comparing handlers with facets."""

    #: By facet: the name under which its handler is registered.
    handled: Mapping[str, str]
    unmatched: Sequence[Unmatched]
    unhandled: Sequence[str]

    @property
    def is_complete(self) -> bool:
        """Whether each handler has a facet, and each facet a handler."""
        return not self.unmatched and not self.unhandled


def check_agent(
    invocation: Invocation,
    handlers: Sequence[str],
    facets: Sequence[str],
    patterns: Sequence[str] | None,
) -> ExitCode:
    """Compare the handlers of modules, and those registered in the store, with what is deployed, and report it.

    `patterns` None: without the store. Ends with WORK_LEFT where something has no counterpart.
    """
    config = invocation.settings()
    with ExitStack() as opened:
        transport = opened.enter_context(open_transport(config))
        agent = Agent(AgentConfig(stream=config, facets=tuple(facets)), transport)
        for argument in handlers:
            agent.load_handlers(argument)
        names = agent.registered_names()
        if handlers:
            refuse_unused_facets(facets, names)
        if patterns is not None:
            stored = StoredHandlers(opened.enter_context(open_store(config))).registrations()
            names += [one.facet_name for one in stored if _matches(one.facet_name, patterns)]
        client = opened.enter_context(Client(config, transport))
        programs = deployed_programs(client, transport)
    match = matched(dict.fromkeys(names), programs)
    _report(invocation, match, has_programs=bool(programs))
    return ExitCode.OK if match.is_complete and programs else ExitCode.WORK_LEFT


def matched(names: Iterable[str], programs: Iterable[CompiledProgram]) -> Match:
    """Return which of the registered names and of the programs' event facets go together."""
    others: dict[str, str] = {}
    facets: dict[str, None] = {}
    for program in programs:
        facets.update(dict.fromkeys(facet.qualified_name for facet in program.event_facets()))
        for name, declared in program.declarations.items():
            others[name] = (
                "it is the runtime's own"
                if declared.is_library
                else f"it is a {declared.kind.value}, which asks no handler"
            )
    handled: dict[str, str] = {}
    unmatched: list[Unmatched] = []
    for name in names:
        meant = [facet for facet in facets if name in (facet, short_name(facet))]
        handled.update(dict.fromkeys(meant, name))
        if not meant and name in others:
            unmatched.append(Unmatched(handler=name, reason=f"{others[name]}"))
        elif not meant:
            near = tuple(near_names(name, list(facets))[:1])
            unmatched.append(
                Unmatched(handler=name, reason="no deployed program has an event facet of this name", near=near)
            )
    return Match(handled=handled, unmatched=unmatched, unhandled=[facet for facet in facets if facet not in handled])


def _report(invocation: Invocation, match: Match, *, has_programs: bool) -> None:
    terminal = invocation.terminal()
    if terminal.as_json:
        terminal.document(
            {
                "handled": dict(match.handled),
                "unmatched": [
                    {"handler": one.handler, "reason": one.reason, "near": list(one.near)} for one in match.unmatched
                ],
                "unhandled": list(match.unhandled),
            }
        )
        return
    if not has_programs:
        terminal.warn("no program is deployed here: afl-stream deploy FILE.afl")
        return
    for facet, name in match.handled.items():
        terminal.line(f"{facet}: handled" + (f", as {name}" if name != facet else ""))
    for one in match.unmatched:
        hint = f"; did you mean {' or '.join(one.near)}?" if one.near else ""
        terminal.line(f"{one.handler}: a handler without a facet: {one.reason}{hint}")
    for facet in match.unhandled:
        terminal.line(f"{facet}: no handler here")
    terminal.remark(
        f"{len(match.handled)} facets handled, {len(match.unhandled)} without a handler here, {len(match.unmatched)}"
        " handlers without a facet"
    )


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
