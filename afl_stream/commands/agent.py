"""The command `agent`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from afl.core.process.click_groups import LazyGroup
from afl.core.process.signals import draining
from afl.core.process.stopping import StopFlag
from afl_stream.commands.arguments import (
    common,
    facets_option,
    find_modules_here,
    handlers_option,
    instance_id_option,
    metrics_port_option,
    retry_option,
    service,
    unless_subcommand,
    until_idle_option,
)
from afl_stream.commands.invocation import Invocation, open_store, open_transport
from afl_stream.commands.refusals import not_named, refuse_unused_facets
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.engine.model.entities import HandledCount
    from afl_stream.agent.agent import Agent, AgentCounts
    from afl_stream.commands.idleness import Idleness
    from afl_stream.commands.terminal import Terminal

_READ_TIMEOUT_S = 0.1


_COMMANDS = {
    "probe": ("afl_stream.commands.probing.command:probe_command", "Ask an agent in any language, and judge it."),
}


@click.group("agent", cls=LazyGroup, table=_COMMANDS, invoke_without_command=True)
@unless_subcommand
@handlers_option
@facets_option
@click.option("--registry", is_flag=True, help="Handle what is registered in the store, and follow its changes.")
@click.option("--topics", multiple=True, metavar="PATTERN", help="With --registry: facets that match, as billing.*")
@click.option(
    "--refresh",
    "refresh_s",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="With --registry: how often it is read.",
)
@click.option("--group", metavar="NAME", help="One consumer group for all facets; by default each has its own.")
@click.option("--check", is_flag=True, help="Run nothing; say which handlers and deployed facets go together.")
@retry_option
@until_idle_option
@instance_id_option
@metrics_port_option
@common
@service
def agent_command(
    invocation: Invocation,
    handlers: Sequence[str],
    registry: bool,
    topics: Sequence[str],
    check: bool,
    facets: Sequence[str],
    **options: Any,
) -> ExitCode:
    """Run an agent: it takes the events of facets and answers them with what the handlers return.

    With --registry these are the handlers of `afl-stream handlers`. It follows changes: it subscribes to a facet that
    is registered, replaces a changed handler, and unsubscribes from a facet that is removed.

    SIGTERM and Ctrl-C drain: running handlers finish and are answered, then it ends with 0; with 1 when a handler is
    still running at the end of the grace period (its event is handled again).

    With --check nothing runs: it says which handlers belong to no event facet of the deployed programs, and which
    facets have no handler, and ends with 1 if there are any. Several --handlers are checked together.

    \b
    Examples:
      afl-stream agent --handlers shop.handlers
      afl-stream agent --handlers ./pay.py --facet billing.Pay --until-idle
      afl-stream agent --handlers shop.billing:refund=billing.Refund
      afl-stream agent --handlers shop.handlers --retry 'attempts=3, backoff=0.5, on=ConnectionError'
      afl-stream agent --registry --topics 'billing.*'
      afl-stream agent --handlers shop.handlers --check
      afl-stream agent probe --facet billing.Pay --payload '{"order": "17"}'
    """
    if not (handlers or registry):
        raise click.UsageError("nothing to handle: give --handlers MODULE, or --registry")
    if topics and not registry:
        raise click.UsageError("--topics goes with --registry")
    find_modules_here()
    patterns = topics if registry else None
    if check:
        from afl_stream.commands.agent_check import check_agent

        return check_agent(invocation, handlers, facets, patterns)
    return _run(invocation, handlers=handlers, facets=facets, patterns=patterns, **options)


def _run(
    invocation: Invocation,
    *,
    handlers: Sequence[str],
    facets: Sequence[str],
    patterns: Sequence[str] | None,
    refresh_s: float,
    group: str | None,
    retry: str,
    until_idle: bool,
) -> ExitCode:
    """Run an agent: of these modules, or with `patterns` (none: of all facets) of what is registered in the store."""
    from afl.core.clock import SystemClock
    from afl.workers.heartbeat import registered_server
    from afl.workers.server_record import ServerRecord
    from afl_stream.agent.agent import Agent, AgentConfig
    from afl_stream.agent.observer import AgentObserver
    from afl_stream.agent.registry_agent import RegistryAgent
    from afl_stream.commands.idleness import DRAIN_LIMIT_S, Idleness, ends_when
    from afl_stream.commands.monitoring.agents import announced_agent, monitored_agent
    from afl_stream.commands.stored_handlers import StoredHandlers
    from afl_stream.evaluator.service import tune_collector
    from afl_stream.reading.group_reader import LostRecords

    config, terminal = invocation.settings(), invocation.terminal()
    if retry:
        config = replace(config, agent=replace(config.agent, retry=retry))
    lost = LostRecords.EARLIEST if config.agent.lost_records == "continue" else LostRecords.STOP
    observer = AgentObserver() if config.metrics.are_on else None
    settings = AgentConfig(stream=config, group=group, facets=tuple(facets), lost_records=lost, observer=observer)
    with ExitStack() as opened:
        transport = opened.enter_context(open_transport(config, serves=not until_idle))
        if patterns is None:
            agent, server_id = Agent(settings, transport), ""
        else:
            store = opened.enter_context(open_store(config, create=True))
            registry = StoredHandlers(store)
            agent = RegistryAgent(registry, settings, transport, topics=patterns, refresh_interval_s=refresh_s)
            server = ServerRecord(
                store,
                SystemClock(),
                service_name="afl-agent",
                server_group=group or f"{config.prefix}agent",
                server_name="",
            )
            server_id = server.server_id
            opened.enter_context(
                registered_server(
                    server, agent.registered_names, lambda: _handled_counts(agent), lambda: _trouble(agent)
                )
            )
        for argument in handlers:
            agent.load_handlers(argument)
        if handlers:
            refuse_unused_facets(facets, agent.registered_names())
        if len(handlers) == 1 and (more := not_named(facets, agent.registered_names())):
            terminal.warn(
                f"Note: {handlers[0]} names its facets itself, so --facet leaves none out: also {', '.join(more)}"
            )
        tune_collector()
        agent.start()
        stop = StopFlag()
        limit_s = config.agent.grace_s + DRAIN_LIMIT_S
        asked = stop.set if until_idle else agent.stop
        opened.enter_context(announced_agent(transport, agent, server_id))
        opened.enter_context(monitored_agent(terminal.remark, agent))
        with draining(asked, agent.remaining, limit_s=limit_s, limit_code=ExitCode.UNAVAILABLE):
            terminal.remark(
                f"agent for {', '.join(agent.registered_names()) or 'nothing yet'}; {ends_when(until_idle)}"
            )
            code = _run_until_idle(agent, stop, Idleness(config)) if until_idle else agent.run()
    _report_end(terminal, agent.counts)
    return ExitCode.WORK_LEFT if code else ExitCode.OK


def _report_end(terminal: Terminal, counts: AgentCounts) -> None:
    """Print what an agent has done."""
    if terminal.as_json:
        terminal.document(asdict(counts))
    else:
        reported = [f"{counts.read} read", f"{counts.answered} answered", f"{counts.failed} of them failed"]
        left_out = {
            "skipped (run cancelled or reset)": counts.cancelled,
            "skipped (run ended)": counts.ended,
            "skipped (not to be handled here or again)": counts.skipped,
            "dead-lettered": counts.dead_lettered,
        }
        reported += [f"{count} {what}" for what, count in left_out.items() if count]
        terminal.remark(f"events: {', '.join(reported)}")


def _handled_counts(agent: Agent) -> list[HandledCount]:
    """Return an agent's counters, as the list of servers shows them."""
    from afl.engine.model.entities import HandledCount

    return [HandledCount(facet, count.handled, count.failed) for facet, count in agent.counts_by_facet().items()]


def _trouble(agent: Agent) -> str:
    health = agent.health()
    # One that starts, or ends, is not in trouble for that: its state says it.
    return "; ".join(reason for reason in health.reasons if not reason.startswith("the agent "))


def _run_until_idle(agent: Agent, stop: StopFlag, idleness: Idleness) -> int:
    try:
        while not stop.is_set():
            if agent.turn(_READ_TIMEOUT_S) or agent.has_work:
                idleness.busy()
            elif idleness.is_over(agent.groups_without_partitions, agent.has_read_all):
                break
    except BaseException:
        agent.close()
        raise
    return agent.close()
