"""The commands `topics plan` and `topics apply`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from afl_stream.commands.arguments import common, files_argument
from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.commands.refusals import CommandRefused
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.compiled.program import CompiledProgram
    from afl_stream.client.client import Client
    from afl_stream.commands.terminal import Terminal
    from afl_stream.settings.config import StreamConfig
    from afl_stream.topics.declared import TopicPlan
    from afl_stream.transport import Transport, TransportError


@click.group("topics")
def topics_group() -> None:
    """Plan and create topics. No other command or service creates a topic."""


@topics_group.command("plan", short_help="Show which topics are missing or differ.")
@files_argument(required=False)
@click.option("--script", is_flag=True, help="Print the commands of Kafka's own tool that create what is missing.")
@common
def topics_plan(invocation: Invocation, files: Sequence[str], script: bool) -> ExitCode:
    """Show which topics are missing or differ from what is declared, and change nothing.

    Checks the topics of the FILEs' facets; without FILEs, those of the deployed programs. --script is for a cluster
    where only an administrator may create topics.

    \b
    Examples:
      afl-stream topics plan
      afl-stream topics plan orders.afl --json
      afl-stream topics plan orders.afl --bootstrap kafka:9092 --script > topics.sh
    """
    if script and invocation.as_json:
        raise click.UsageError("--script and --json are two forms of one output: give one")
    from afl_stream.commands.programs import compile_program
    from afl_stream.embedded.transport import EmbeddedTransport
    from afl_stream.topics.declared import PlanAction

    config, terminal = invocation.settings(), invocation.terminal()
    if script and not config.is_kafka:
        raise CommandRefused("--script is for a Kafka cluster: name one with --bootstrap HOST:PORT or kafka.bootstrap")
    given = [compile_program(files, terminal, invocation.strictness)] if files else []
    if config.is_kafka or config.log_path.exists():
        with open_transport(config) as transport:
            plans = _planned(config, transport, given)
    else:
        # Nothing is created by looking: a plan against an empty broker says the same.
        plans = _planned(config, EmbeddedTransport(), given)
    missing = sum(plan.action is PlanAction.CREATE for plan in plans)
    if script:
        for line in script_lines(plans, config.kafka.bootstrap or ""):
            terminal.line(line)
        terminal.remark(f"{missing} to create" if missing else "nothing is missing")
        return ExitCode.OK
    show_plans(terminal, plans, created="to create")
    if missing:
        terminal.remark(f"{missing} to create; do it with: {invocation.with_files('topics', 'apply', *files)}")
    return ExitCode.OK


@topics_group.command("apply")
@files_argument(required=False)
@common
def topics_apply(invocation: Invocation, files: Sequence[str]) -> ExitCode:
    """Create the topics that are missing. Existing topics are not changed.

    A topic that cannot be created is reported, and does not stop the others.

    \b
    Examples:
      afl-stream topics apply orders.afl
    """
    from afl_stream.client.client import Client
    from afl_stream.commands.programs import compile_program
    from afl_stream.topics.declared import PlanAction
    from afl_stream.transport import NotAuthorized

    config, terminal = invocation.settings(), invocation.terminal()
    given = [compile_program(files, terminal, invocation.strictness)] if files else []
    failures: dict[str, TransportError] = {}
    with open_transport(config, create=True) as transport, Client(config, transport) as client:
        plans = client.apply_topics(
            given or deployed_programs(client, transport),
            on_failure=lambda plan, error: failures.update({plan.spec.name: error}),
        )
    show_plans(terminal, plans, created="created", failures=failures)
    created = sum(plan.action is PlanAction.CREATE for plan in plans) - len(failures)
    differ = sum(plan.action is PlanAction.DIFFERS for plan in plans)
    as_declared = len(plans) - created - differ - len(failures)
    failed = f", {len(failures)} not created" if failures else ""
    terminal.remark(f"{created} created, {as_declared} as declared, {differ} differ{failed}")
    if not failures:
        return ExitCode.OK
    if any(isinstance(error, NotAuthorized) for error in failures.values()):
        script = invocation.with_files("topics", "plan", "--script", *files)
        terminal.warn(f"Error: this user may not create topics; an administrator can run: {script}")
    return ExitCode.UNAVAILABLE


def script_lines(plans: Sequence[TopicPlan], bootstrap: str) -> Iterator[str]:
    """Return a line of shell for each topic that is missing: Kafka's own tool creates it."""
    from afl_stream.topics.declared import PlanAction

    for plan in plans:
        if plan.action is PlanAction.CREATE:
            spec = plan.spec
            words = ["kafka-topics.sh", "--bootstrap-server", bootstrap, "--create", "--if-not-exists"]
            words += ["--topic", spec.name, "--partitions", str(spec.partitions)]
            words += ["--replication-factor", str(spec.replication)]
            for name, value in sorted(spec.settings.items()):
                words += ["--config", f"{name}={value}"]
            yield shlex.join(words)


def _planned(config: StreamConfig, transport: Transport, given: Sequence[CompiledProgram]) -> list[TopicPlan]:
    from afl_stream.client.client import Client

    with Client(config, transport) as client:
        return client.plan_topics(given or deployed_programs(client, transport))


def deployed_programs(client: Client, transport: Transport) -> list[CompiledProgram]:
    """Return the programs that workflows' names point to now."""
    if client.topology.definitions() not in transport.admin().topic_names():
        return []
    by_fingerprint = {fingerprint: name for name, fingerprint in client.definitions.workflows().items()}
    return [client.definitions.find(name, fingerprint)[0] for fingerprint, name in by_fingerprint.items()]


def show_plans(
    terminal: Terminal,
    plans: Sequence[TopicPlan],
    *,
    created: str,
    failures: Mapping[str, TransportError] | None = None,
) -> None:
    """Write a table of planned topics. `created`: the word for those that were missing; `failures`: by topic."""
    from afl_stream.topics.declared import PlanAction

    failures = failures or {}
    if terminal.as_json:
        terminal.document([
            {
                "topic": plan.spec.name,
                "action": plan.action.value,
                "partitions": plan.spec.partitions,
                "replication": plan.spec.replication,
                "settings": dict(plan.spec.settings),
                "differences": list(plan.differences),
                **({"error": str(failures[plan.spec.name])} if plan.spec.name in failures else {}),
            }
            for plan in plans
        ])  # fmt: skip
        return
    words = {PlanAction.CREATE: created, PlanAction.OK: "as declared", PlanAction.DIFFERS: "differs"}
    rows = []
    for plan in plans:
        failure = failures.get(plan.spec.name)
        state = words[plan.action] if failure is None else "not created"
        text = "; ".join(plan.differences) if failure is None else str(failure)
        rows.append((plan.spec.name, str(plan.spec.partitions), state, text))
    terminal.table(("topic", "partitions", "state", ""), rows, right=("partitions",), whole=("topic",))
