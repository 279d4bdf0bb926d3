"""The command `evaluator`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from afl.core.process.signals import draining
from afl.core.process.stopping import StopFlag
from afl_stream.commands.arguments import (
    allow_scripts_option,
    common,
    family_option,
    instance_id_option,
    metrics_port_option,
    new_store_option,
    process_option,
    service,
    until_idle_option,
)
from afl_stream.commands.invocation import Invocation, described_store, open_store, open_transport
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.engine.model.plan import FacetPlan
    from afl.engine.operations.unanswered import WaitingStep
    from afl.stores.public.persistence import EngineStore
    from afl.workers.server_record import ServerRecord
    from afl_stream.commands.sleeping import SleepingRuns
    from afl_stream.evaluator.control_stats import ControlStats
    from afl_stream.settings.config import StreamConfig


@click.command("evaluator")
@until_idle_option
@allow_scripts_option
@new_store_option
@click.option(
    "--processes", type=click.IntRange(min=1), metavar="N", help="Run N evaluators, each with partitions of its own."
)
@click.option("--one-file", is_flag=True, help="With --processes: share one SQLite file; else each has its own.")
@process_option
@family_option
@instance_id_option
@metrics_port_option
@common
@service
def evaluator_command(
    invocation: Invocation, until_idle: bool, processes: int | None, one_file: bool, family: str
) -> ExitCode:
    """Run an evaluator: it applies commands and answers, and publishes events.

    Workflows that have a script are started only with --allow-scripts. Give it to every evaluator of a deployment, or
    to none, because any of them may own a workflow.

    All evaluators of a deployment share one store. An evaluator with another, or with an empty one although its group
    has read records, ends with 3 and says where the right one was last seen; --new-store is for a lost store.

    With --until-idle it does not wait for timers that are not due yet, and says how many runs sleep, and until when.

    With --processes N, on Kafka, this process starts N evaluators, and starts one again that has died. On SQLite each
    has a file of its own for its partitions, and they run on one machine; with --one-file, and on MongoDB, they share
    the store. Later N may be changed by `afl-stream store divide`.

    SIGTERM and Ctrl-C drain: it finishes the current work, then ends with 0.

    \b
    Examples:
      afl-stream evaluator
      afl-stream evaluator --processes 4
      afl-stream evaluator --until-idle
      afl-stream evaluator --allow-scripts
    """
    count = processes if processes is not None else invocation.settings().evaluator.processes
    if invocation.process is None and count > 1:
        from afl_stream.commands.evaluators.processes import run_processes

        return run_processes(invocation, count, one_file=one_file, until_idle=until_idle)
    return _run_one(invocation, until_idle=until_idle, one_file=one_file, family=family)


def _run_one(invocation: Invocation, *, until_idle: bool, one_file: bool, family: str) -> ExitCode:
    from afl.core.process.children import end_with_parent
    from afl.engine.operations.unanswered import all_waiting_steps
    from afl.workers.heartbeat import registered_server
    from afl_stream.commands.evaluators.processes import part_of_store
    from afl_stream.commands.idleness import DRAIN_LIMIT_S, Idleness, ends_when
    from afl_stream.commands.monitoring.evaluators import announced_evaluator, monitored_evaluator, observer_of
    from afl_stream.commands.sleeping import sleeping_runs
    from afl_stream.commands.unanswered import facets_of_steps
    from afl_stream.evaluator.sensitive.redacted_store import redacted
    from afl_stream.evaluator.service import EvaluatorService, tune_collector
    from afl_stream.outage import waited_out

    config, terminal, process = invocation.settings(), invocation.terminal(), invocation.process
    name = "" if process is None else str(process)
    if process is not None:
        end_with_parent(sys.stdin, terminal.warn)
    stop = StopFlag()
    running: list[EvaluatorService] = []
    with (
        open_transport(config, serves=not until_idle) as transport,
        part_of_store(invocation, config, transport, one_file=one_file) as part,
        open_store(config, create=True, part=None if part is None else part.part) as store,
        nullcontext(_server_record(config, store, name, family)) as server_record,
        # Its handlers are the agents', whom the broker sees.
        registered_server(
            server_record,
            trouble=lambda: "; ".join(reason for service in running for reason in service.health().reasons),
        ),
    ):
        tune_collector()
        observer = observer_of(config)
        service = waited_out(
            lambda: EvaluatorService(
                config, transport, store, new_store=invocation.new_store, part=part, observer=observer
            ),
            config.kafka.outage_timeout_s,
        )
        running.append(service)
        if invocation.new_store:
            server_record.running()  # A copy has another id by now.
        terminal.remark(f"evaluator of group {config.evaluator_group}; {ends_when(until_idle)}")
        terminal.remark(described_store(config))
        idleness = Idleness(config)

        def on_idle() -> None:
            without = () if service.loop.stats().owned else [config.evaluator_group]
            if until_idle and idleness.is_over(without, service.has_read_all):
                stop.set()

        with (
            announced_evaluator(config, transport, service, server_record),
            monitored_evaluator(terminal.remark, config, service, store, observer),
            draining(stop.set, service.remaining, limit_s=DRAIN_LIMIT_S, limit_code=ExitCode.UNAVAILABLE, name=name),
        ):
            service.run(stop, lambda _: idleness.busy(), on_idle)
        stats = service.loop.stats()
        waiting = all_waiting_steps(redacted(store, config.sensitive.patterns)) if until_idle else ()
        sleeping = sleeping_runs(store) if until_idle else None
        facets = facets_of_steps(store, waiting)
    _report_end(invocation, stats, waiting if until_idle else None, sleeping, facets)
    return ExitCode.OK


def _server_record(config: StreamConfig, store: EngineStore, name: str, family: str) -> ServerRecord:
    """Return the entry in the list of servers; `name` is which of the processes of a `family` it is, if of one."""
    from afl.core.clock import SystemClock
    from afl.engine.model.store_identity import this_host
    from afl.workers.server_record import ServerRecord
    from afl_stream.commands.evaluators.deaths import id_of_process

    return ServerRecord(
        store,
        SystemClock(),
        service_name="afl-evaluator",
        server_group=config.evaluator_group,
        server_name=name and f"{this_host()} ({name})",
        server_id=family and id_of_process(family, os.getpid()),
    )


def _report_end(
    invocation: Invocation,
    stats: ControlStats,
    waiting: Sequence[WaitingStep] | None,
    sleeping: SleepingRuns | None,
    facets: Mapping[str, FacetPlan],
) -> None:
    """Print what an evaluator has done, and what waits for answers; `waiting` None: that was not looked up."""
    from afl_stream.commands.reports import waiting_document
    from afl_stream.commands.unanswered import unanswered_lines

    terminal = invocation.terminal()
    outcomes = {outcome.value: count for outcome, count in stats.outcomes.items()}
    if terminal.as_json:
        document: dict[str, object] = {
            "outcomes": outcomes,
            "batches": stats.batches,
            "published": stats.published,
            "events": {**stats.events.happened, "dropped_for": dict(stats.events.dropped)},
            "continued": stats.events.continued,
            "timers": asdict(stats.timers),
            "republished": stats.republished,
            "firings": dict(stats.firings),
        }
        listed = {} if waiting is None else {"waiting": [waiting_document(step) for step in waiting]}
        asleep = {} if sleeping is None else {"sleeping": {"runs": sleeping.runs, "next_at_ms": sleeping.next_ms}}
        terminal.document({**document, **listed, **asleep})
    else:
        text = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
        fired = f"timers: {stats.timers.fired} fired; " if stats.timers.fired else ""
        terminal.remark(f"records: {text or 'none'}; {fired}{stats.published} published")
        if stats.events.dropped:
            text = ", ".join(f"{count} {reason}" for reason, count in stats.events.dropped.items())
            terminal.remark(f"external events that became dead letters: {text}")
        for line in unanswered_lines(invocation, waiting or (), facets):
            terminal.remark(line)
        if sleeping is not None:
            terminal.remark(str(sleeping))
