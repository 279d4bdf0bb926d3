"""The commands `topics plan`, `topics apply`, `deploy` and `config`."""

from __future__ import annotations

from collections.abc import Sequence

from afl.compiled import CompiledProgram
from afl_stream.client import Client
from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.commands.programs import compile_program
from afl_stream.commands.refusals import NotFound
from afl_stream.commands.terminal import Terminal
from afl_stream.config import StreamConfig
from afl_stream.embedded import EmbeddedTransport
from afl_stream.errors import TopicMissing
from afl_stream.exit_codes import ExitCode
from afl_stream.topics import PlanAction, TopicPlan
from afl_stream.transport import Transport


def plan_topics(invocation: Invocation, files: Sequence[str]) -> ExitCode:
    """Show what `topics apply` would do."""
    config, terminal = invocation.settings(), invocation.terminal()
    given = [compile_program(files, terminal)] if files else []
    if config.log_path.exists():
        with open_transport(config) as transport:
            plans = _planned(config, transport, given)
    else:
        # Nothing is created by looking: a plan against an empty broker says the same.
        plans = _planned(config, EmbeddedTransport(), given)
    _show(terminal, plans, created="to create")
    missing = sum(plan.action is PlanAction.CREATE for plan in plans)
    if missing:
        terminal.remark(f"{missing} to create; do it with: {invocation.command_line('topics', 'apply', *files)}")
    return ExitCode.OK


def apply_topics(invocation: Invocation, files: Sequence[str]) -> ExitCode:
    """Create what is missing."""
    config, terminal = invocation.settings(), invocation.terminal()
    given = [compile_program(files, terminal)] if files else []
    with open_transport(config, create=True) as transport, Client(config, transport) as client:
        plans = client.apply_topics(given or _deployed(client, transport))
    _show(terminal, plans, created="created")
    created = sum(plan.action is PlanAction.CREATE for plan in plans)
    differ = sum(plan.action is PlanAction.DIFFERS for plan in plans)
    terminal.remark(f"{created} created, {len(plans) - created - differ} as declared, {differ} differ")
    return ExitCode.OK


def deploy(invocation: Invocation, files: Sequence[str]) -> ExitCode:
    """Publish the program of the files."""
    config, terminal = invocation.settings(), invocation.terminal()
    program = compile_program(files, terminal)
    # `topics apply` without files knows only what is deployed, and this is not yet.
    remedy = invocation.command_line("topics", "apply", *files)
    with open_transport(config, remedy=remedy) as transport, Client(config, transport) as client:
        try:
            client.deploy(program)
        except TopicMissing as error:
            why = f"{error.needed_for} needs it; create it with: {remedy}"
            raise NotFound("topic", error.topic, why) from error
        topics = {facet.qualified_name: client.topology.facet(facet.qualified_name) for facet in program.event_facets()}
    workflows = [workflow.qualified_name for workflow in program.workflows()]
    if terminal.as_json:
        terminal.document({"program": program.fingerprint, "workflows": workflows, "topics": topics})
        return ExitCode.OK
    terminal.line(f"deployed {program.fingerprint[:12]}: {', '.join(workflows) or 'no workflow'}")
    for facet, topic in topics.items():
        terminal.line(f"  events of {facet} go to {topic}")
    if workflows:
        terminal.remark(f"start one with: {invocation.command_line('start', workflows[0])}")
    return ExitCode.OK


def show_config(invocation: Invocation) -> ExitCode:
    """Show every setting, secrets masked."""
    config, terminal = invocation.settings(), invocation.terminal()
    described = config.describe()
    if terminal.as_json:
        terminal.document(described)
    else:
        rows = [(key, "-" if value is None else str(value)) for key, value in described.items()]
        terminal.table(("setting", "value"), rows)
    return ExitCode.OK


def _planned(config: StreamConfig, transport: Transport, given: Sequence[CompiledProgram]) -> list[TopicPlan]:
    with Client(config, transport) as client:
        return client.plan_topics(given or _deployed(client, transport))


def _deployed(client: Client, transport: Transport) -> list[CompiledProgram]:
    """The programs that workflows' names point to now."""
    if client.topology.definitions() not in transport.admin().topics():
        return []
    by_fingerprint = {fingerprint: name for name, fingerprint in client.definitions.workflows().items()}
    return [client.definitions.find(name, fingerprint)[0] for fingerprint, name in by_fingerprint.items()]


def _show(terminal: Terminal, plans: Sequence[TopicPlan], *, created: str) -> None:
    if terminal.as_json:
        terminal.document([
            {
                "topic": plan.spec.name,
                "action": plan.action.value,
                "partitions": plan.spec.partitions,
                "replication": plan.spec.replication,
                "settings": dict(plan.spec.settings),
                "differences": list(plan.differences),
            }
            for plan in plans
        ])  # fmt: skip
        return
    words = {PlanAction.CREATE: created, PlanAction.OK: "as declared", PlanAction.DIFFERS: "differs"}
    rows = [
        (plan.spec.name, str(plan.spec.partitions), words[plan.action], "; ".join(plan.differences)) for plan in plans
    ]
    terminal.table(("topic", "partitions", "state", ""), rows, right=("partitions",))
