"""The command `evaluator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from afl.core.process.signals import draining
from afl.core.process.stopping import StopFlag
from afl_stream.commands.arguments import allow_scripts_option, common, new_store_option, service, until_idle_option
from afl_stream.commands.invocation import Invocation, described_store, open_store, open_transport
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.engine.model.plan import FacetPlan
    from afl.engine.operations.unanswered import WaitingStep
    from afl_stream.commands.sleeping import SleepingRuns
    from afl_stream.evaluator.control_stats import ControlStats


@click.command("evaluator")
@until_idle_option
@allow_scripts_option
@new_store_option
@common
@service
def evaluator_command(invocation: Invocation, until_idle: bool) -> ExitCode:
    """Run an evaluator: it applies commands and answers, and publishes events.

    Workflows that have a script are started only with --allow-scripts. Give it to every evaluator of a deployment, or
    to none, because any of them may own a workflow.

    All evaluators of a deployment share one store. An evaluator with another, or with an empty one although its group
    has read records, ends with 3 and says where the right one was last seen; --new-store is for a lost store.

    With --until-idle it does not wait for timers that are not due yet, and says how many runs sleep, and until when.

    SIGTERM and Ctrl-C drain: it finishes the current work, then ends with 0.

    \b
    Examples:
      afl-stream evaluator
      afl-stream evaluator --until-idle
      afl-stream evaluator --allow-scripts
    """
    from afl.core.clock import SystemClock
    from afl.engine.operations.unanswered import all_waiting_steps
    from afl.workers.heartbeat import registered_server
    from afl.workers.server_record import ServerRecord
    from afl_stream.commands.idleness import DRAIN_LIMIT_S, Idleness, ends_when
    from afl_stream.commands.sleeping import sleeping_runs
    from afl_stream.commands.unanswered import facets_of_steps
    from afl_stream.evaluator.service import EvaluatorService, tune_collector
    from afl_stream.outage import waited_out

    config, terminal = invocation.settings(), invocation.terminal()
    stop = StopFlag()
    running: list[EvaluatorService] = []
    with (
        open_transport(config) as transport,
        open_store(config, create=True) as store,
        nullcontext(
            ServerRecord(
                store,
                SystemClock(),
                service_name="afl-evaluator",
                server_group=config.evaluator_group,
                server_name="",
            )
        ) as server_record,
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
        terminal.remark(f"evaluator of group {config.evaluator_group}; {ends_when(until_idle)}")
        terminal.remark(described_store(config))
        idleness = Idleness(config)

        def on_idle() -> None:
            without = () if service.loop.stats().owned else [config.evaluator_group]
            if until_idle and idleness.is_over(without, service.has_read_all):
                stop.set()

        with draining(stop.set, service.remaining, limit_s=DRAIN_LIMIT_S, limit_code=ExitCode.UNAVAILABLE):
            service.run(stop, lambda _: idleness.busy(), on_idle)
        stats = service.loop.stats()
        waiting = all_waiting_steps(store) if until_idle else ()
        sleeping = sleeping_runs(store) if until_idle else None
        facets = facets_of_steps(store, waiting)
    _report_end(invocation, stats, waiting if until_idle else None, sleeping, facets)
    return ExitCode.OK


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
