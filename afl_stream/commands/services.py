"""The commands `evaluator`, `agent` and `audit`: one service in this process, until a signal or until it is idle."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, replace
from pathlib import Path

from afl.core.clock import SystemClock
from afl.core.process.private_files import protect
from afl.core.process.signals import draining
from afl.core.process.standard_streams import takes_utf
from afl.core.process.stopping import StopFlag
from afl.engine.model.entities import HandledCount
from afl.engine.operations.unanswered import all_waiting_steps
from afl.stores.public.persistence import EngineStore
from afl.workers.heartbeat import registered_server
from afl.workers.server_record import ServerRecord
from afl_stream.agent.agent import Agent, AgentConfig
from afl_stream.agent.registry_agent import RegistryAgent
from afl_stream.audit.audit import Audit, AuditConfig, AuditFile, AuditStream
from afl_stream.audit.group import group_of
from afl_stream.audit.lines import AuditSink
from afl_stream.commands.idleness import Idleness
from afl_stream.commands.invocation import Invocation, open_store, open_transport, told_store
from afl_stream.commands.refusals import refuse_unused_facets
from afl_stream.commands.reports import waiting_document
from afl_stream.commands.stored_handlers import StoredHandlers
from afl_stream.commands.unanswered import facets_of_steps, unanswered_lines
from afl_stream.evaluator.service import EvaluatorService, tune_collector
from afl_stream.exit_codes import ExitCode
from afl_stream.outage import waited_out
from afl_stream.reading.group_reader import LostRecords
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import Start

_READ_TIMEOUT_S = 0.1
#: How long a drain may take before the process ends all the same: then it waits for something that does not answer. An
#: agent's handlers have their grace period before that.
_DRAIN_LIMIT_S = 20.0


def run_evaluator(invocation: Invocation, *, until_idle: bool) -> ExitCode:
    """Run an evaluator."""
    config, terminal = invocation.settings(), invocation.terminal()
    stop = StopFlag()
    running: list[EvaluatorService] = []
    with (
        open_transport(config) as transport,
        open_store(config, create=True) as store,
        nullcontext(_server("afl-evaluator", config.evaluator_group, store)) as server_record,
        # Its handlers are the agents', whom the broker sees.
        registered_server(
            server_record,
            trouble=lambda: "; ".join(reason for service in running for reason in service.health().reasons),
        ),
    ):
        tune_collector()
        service = waited_out(
            lambda: EvaluatorService(config, transport, store, new_store=invocation.new_store),
            config.kafka.outage_timeout_s,
        )
        running.append(service)
        if invocation.new_store:
            server_record.running()  # A copy has another id by now.
        terminal.remark(f"evaluator of group {config.evaluator_group}; {_until(until_idle)}")
        terminal.remark(told_store(config))
        idleness = Idleness(config)

        def on_idle() -> None:
            without = () if service.loop.stats().owned else [config.evaluator_group]
            if until_idle and idleness.is_over(without, service.has_read_all):
                stop.set()

        with draining(stop.set, service.remaining, limit_s=_DRAIN_LIMIT_S, limit_code=ExitCode.UNAVAILABLE):
            service.run(stop, lambda _: idleness.busy(), on_idle)
        stats = service.loop.stats()
        waiting = all_waiting_steps(store) if until_idle else ()
        facets = facets_of_steps(store, waiting)
    outcomes = {outcome.value: count for outcome, count in stats.outcomes.items()}
    if terminal.as_json:
        document = {"outcomes": outcomes, "batches": stats.batches, "published": stats.published}
        listed = {"waiting": [waiting_document(step) for step in waiting]} if until_idle else {}
        terminal.document({**document, **listed})
    else:
        text = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
        terminal.remark(f"records: {text or 'none'}; {stats.published} published")
        for line in unanswered_lines(invocation, waiting, facets):
            terminal.remark(line)
    return ExitCode.OK


def _server(service_name: str, group: str, store: EngineStore) -> ServerRecord:
    """Return the record of a service that has a store, for the list of servers."""
    return ServerRecord(store, SystemClock(), service_name=service_name, server_group=group, server_name="")


def _handled_counts(agent: Agent) -> list[HandledCount]:
    """Return an agent's counters, as the list of servers shows them."""
    return [HandledCount(facet, count.handled, count.failed) for facet, count in agent.counts_by_facet().items()]


def _trouble(agent: Agent) -> str:
    health = agent.health()
    # One that starts, or ends, is not in trouble for that: its state says it.
    return "; ".join(reason for reason in health.reasons if not reason.startswith("the agent "))


def run_agent(
    invocation: Invocation,
    *,
    handlers: Sequence[str],
    facets: Sequence[str],
    patterns: Sequence[str] | None,
    refresh_s: float,
    group: str | None,
    until_idle: bool,
) -> ExitCode:
    """Run an agent: of these modules, or with `patterns` (none: of all facets) of what is registered in the store."""
    config, terminal = invocation.settings(), invocation.terminal()
    settings = AgentConfig(stream=config, group=group, facets=tuple(facets))
    with ExitStack() as opened:
        transport = opened.enter_context(open_transport(config))
        if patterns is None:
            agent = Agent(settings, transport)
        else:
            store = opened.enter_context(open_store(config, create=True))
            registry = StoredHandlers(store)
            agent = RegistryAgent(registry, settings, transport, topics=patterns, refresh_interval_s=refresh_s)
            server = _server("afl-agent", group or f"{config.prefix}agent", store)
            opened.enter_context(
                registered_server(
                    server, agent.registered_names, lambda: _handled_counts(agent), lambda: _trouble(agent)
                )
            )
        for argument in handlers:
            agent.load_handlers(argument)
        if handlers:
            refuse_unused_facets(facets, agent.registered_names())
        tune_collector()
        agent.start()
        stop = StopFlag()
        limit_s = config.agent.grace_s + _DRAIN_LIMIT_S
        asked = stop.set if until_idle else agent.stop
        with draining(asked, agent.remaining, limit_s=limit_s, limit_code=ExitCode.UNAVAILABLE):
            terminal.remark(f"agent for {', '.join(agent.registered_names()) or 'nothing yet'}; {_until(until_idle)}")
            code = _run_until_idle(agent, stop, Idleness(config)) if until_idle else agent.run()
        counts = agent.counts
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
    return ExitCode.WORK_LEFT if code else ExitCode.OK


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


def run_audit(
    invocation: Invocation,
    *,
    file: Path | None,
    group: str | None,
    from_beginning: bool,
    from_end: bool,
    until_idle: bool,
) -> ExitCode:
    """Run an audit: into a file in a group, or to standard output without one."""
    config = invocation.settings()
    if file is None:
        # A line reports lost records: with a stop, the reader would begin again and find fewer.
        start = Start.LATEST if from_end else Start.EARLIEST
        settings = replace(_audit_config(config), alone=start, lost_records=LostRecords.EARLIEST)
        text = f"audit to stdout from {'now on' if from_end else 'the beginning'}, in no group"
    else:
        settings = replace(_audit_config(config), group=group_of(config, file, group), from_beginning=from_beginning)
        text = f"audit of group {settings.group} to {file}"
    return _run_audit(invocation, settings, file, text, until_idle=until_idle)


def _audit_config(config: StreamConfig) -> AuditConfig:
    return AuditConfig(stream=config, commands=True, external=True, lifecycle=True)


def _run_audit(
    invocation: Invocation, settings: AuditConfig, file: Path | None, intent: str, *, until_idle: bool
) -> ExitCode:
    config, terminal = invocation.settings(), invocation.terminal()
    with open_transport(config) as transport:
        if file is not None:
            protect(file, config.data_dir)
        out = invocation.out or sys.stdout
        in_ascii = not takes_utf(out)
        sink: AuditSink = AuditStream(out.buffer, in_ascii=in_ascii) if file is None else AuditFile(file)
        audit = Audit(settings, transport, sink)
        waited_out(audit.start, config.kafka.outage_timeout_s)
        with draining(audit.stop, limit_s=_DRAIN_LIMIT_S, limit_code=ExitCode.UNAVAILABLE):
            terminal.remark(f"{intent}; {_until(until_idle)}")
            if until_idle:
                _read_to_the_end(audit, Idleness(config))
            else:
                audit.run()
        counts = audit.counts
    if terminal.as_json and file is not None:
        terminal.document(asdict(counts))
    else:
        terminal.remark(f"{counts.written} records written, {counts.unreadable} of them unreadable")
    return ExitCode.OK


def _read_to_the_end(audit: Audit, idleness: Idleness) -> None:
    try:
        while not audit.is_stopping:
            before = audit.counts
            if audit.turn(audit.config.poll_timeout_s) or audit.counts.repeated != before.repeated:
                idleness.busy()
            else:
                without = () if audit.has_partitions or audit.group is None else [audit.group]
                if idleness.is_over(without, audit.has_read_all):
                    break
    finally:
        audit.close()


def _until(until_idle: bool) -> str:
    return "ends when it is idle" if until_idle else "Ctrl-C drains and ends it"
