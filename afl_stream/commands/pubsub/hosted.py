"""The commands `pubsub topics` and `pubsub run`: a workflow on the cluster."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from afl.core.process.signals import draining
from afl_stream.commands.arguments import common, service, until_idle_option
from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.commands.pubsub.workflows import load_workflow, workflow_argument
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.pubsub.hosting.counters import WorkerCounts
    from afl_stream.pubsub.hosting.worker import WorkflowWorker
    from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
    from afl_stream.settings.config import StreamConfig
    from afl_stream.transport import Transport

#: How often a worker that ends when it is idle looks whether it is.
_LOOK_S: Final = 0.1


@click.command("topics")
@workflow_argument
@click.option("--apply", "is_applied", is_flag=True, help="Create what is missing. Existing topics are not changed.")
@common
def topics_command(invocation: Invocation, workflow: str, is_applied: bool) -> ExitCode:
    """Show which topics the workflow needs, and which of them are missing; --apply creates these.

    \b
    Examples:
      afl-stream pubsub topics shop.flow:review
      afl-stream pubsub topics shop.flow:review --apply --bootstrap kafka:9092
    """
    from afl_stream.commands.topics.plans import show_plans
    from afl_stream.embedded.transport import EmbeddedTransport
    from afl_stream.pubsub.hosting.topics import WorkflowTopics, apply_topics, plan_topics
    from afl_stream.topics.declared import PlanAction

    config, terminal, definition = invocation.settings(), invocation.terminal(), load_workflow(workflow).definition
    topics = WorkflowTopics(config, definition.name, definition.topics)
    if is_applied or config.is_kafka or config.log_path.exists():
        with open_transport(config, create=is_applied) as transport:
            plans = apply_topics(topics, transport) if is_applied else plan_topics(topics, transport)
    else:
        # Nothing is created by looking: a plan against an empty broker says the same.
        plans = plan_topics(topics, EmbeddedTransport())
    show_plans(terminal, plans, created="created" if is_applied else "to create")
    missing = sum(plan.action is PlanAction.CREATE for plan in plans)
    if missing and not is_applied:
        remedy = invocation.command_line("pubsub", "topics", workflow, "--apply")
        terminal.remark(f"{missing} to create; do it with: {remedy}")
    return ExitCode.OK


@click.command("run")
@workflow_argument
@until_idle_option
@common
@service
def run_command(invocation: Invocation, workflow: str, until_idle: bool) -> ExitCode:
    """Run a worker of the workflow: it takes the requests of its partitions, and other workers take theirs.

    The events of requests are in the event store, which all workers share. SIGTERM and Ctrl-C drain: requests go on for
    `pubsub.grace_s`, and are left to another worker then. With --until-idle it ends when no request can go on, and says
    how many wait for an answer.

    \b
    Examples:
      afl-stream pubsub run shop.flow:review --bootstrap kafka:9092
      afl-stream pubsub run shop.flow:review --until-idle
    """
    from afl.core.process.collector import tune_collector

    loaded = load_workflow(workflow)
    tune_collector()
    remedy = invocation.command_line("pubsub", "topics", workflow, "--apply")
    with open_transport(invocation.settings(), remedy=remedy, serves=not until_idle) as transport:
        counts, waiting = asyncio.run(_run(invocation, loaded, transport, until_idle=until_idle))
    terminal = invocation.terminal()
    if terminal.as_json:
        terminal.document(asdict(counts) if waiting is None else {**asdict(counts), "requests_waiting": waiting})
    else:
        reported = [f"{count} {name.replace('_', ' ')}" for name, count in asdict(counts).items() if count]
        terminal.remark(", ".join(reported) or "nothing was done")
        if waiting:
            listed = invocation.command_line("pubsub", "requests", workflow, "--status", "waiting")
            terminal.remark(f"{waiting} {'requests wait' if waiting > 1 else 'request waits'} for an answer: {listed}")
    return ExitCode.OK


async def _run(
    invocation: Invocation, workflow: EventDrivenWorkflow, transport: Transport, *, until_idle: bool
) -> tuple[WorkerCounts, int | None]:
    """Run a worker, and return what it has done, and how many requests wait; None: that was not looked up."""
    from afl_stream.commands.idleness import ends_when
    from afl_stream.commands.pubsub.stores import described_event_store, opened_event_store
    from afl_stream.pubsub.event_stores.store import RequestStatus
    from afl_stream.pubsub.hosting.config import WorkerConfig
    from afl_stream.pubsub.hosting.worker import WorkflowWorker

    config = invocation.settings()
    settings = WorkerConfig(stream=config)
    async with opened_event_store(config, workflow, transport=transport, create=True) as store:
        worker = WorkflowWorker(workflow, transport, store, settings)

        def remaining() -> str:
            count = worker.health().open_requests
            return f"{count} requests at work" if count else ""

        limit_s = config.pubsub.grace_s + settings.ending_s
        with draining(worker.stop, remaining, limit_s=limit_s, limit_code=ExitCode.UNAVAILABLE):
            async with worker:
                invocation.terminal().remark(
                    f"worker of {workflow.name}; {described_event_store(config, workflow)}; {ends_when(until_idle)}"
                )
                await (_until_idle(worker, config) if until_idle else worker.until_stopped())
        waiting = await store.requests(workflow.name, [RequestStatus.WAITING]) if until_idle else None
        return worker.counts, None if waiting is None else len(waiting)


async def _until_idle(worker: WorkflowWorker, config: StreamConfig) -> None:
    """Wait until nothing is left to do, or the worker is told to stop. Raises NoPartitions."""
    from afl_stream.commands.idleness import Idleness

    idleness = Idleness(config)
    worker.watch_for_idleness()
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(worker.until_stopped(), _LOOK_S)
            return
        without = worker.groups_without_partitions
        if not without and not worker.is_idle():
            idleness.busy()
        elif idleness.is_over(without):
            return
