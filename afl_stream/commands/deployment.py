"""The commands `topics plan`, `topics apply`, `deploy` and `config`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from afl.compiled.program import CompiledProgram
from afl_stream.client.client import Client
from afl_stream.commands.invocation import Invocation, open_transport, told_store
from afl_stream.commands.programs import compile_program
from afl_stream.commands.refusals import CommandRefused, NotFound
from afl_stream.commands.terminal import Terminal
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.errors import TopicMissing
from afl_stream.exit_codes import ExitCode
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import PlanAction, TopicPlan
from afl_stream.transport import NotAuthorized, Transport, TransportError


def plan_topics(invocation: Invocation, files: Sequence[str], *, script: bool) -> ExitCode:
    """Show what `topics apply` would do; with `script`, as commands for a user who has the right to do it."""
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
    _show(terminal, plans, created="to create")
    if missing:
        terminal.remark(f"{missing} to create; do it with: {invocation.with_files('topics', 'apply', *files)}")
    return ExitCode.OK


def script_lines(plans: Sequence[TopicPlan], bootstrap: str) -> Iterator[str]:
    """Return a line of shell for each topic that is missing: Kafka's own tool creates it."""
    for plan in plans:
        if plan.action is PlanAction.CREATE:
            spec = plan.spec
            words = ["kafka-topics.sh", "--bootstrap-server", bootstrap, "--create", "--if-not-exists"]
            words += ["--topic", spec.name, "--partitions", str(spec.partitions)]
            words += ["--replication-factor", str(spec.replication)]
            for name, value in sorted(spec.settings.items()):
                words += ["--config", f"{name}={value}"]
            yield shlex.join(words)


def apply_topics(invocation: Invocation, files: Sequence[str]) -> ExitCode:
    """Create what is missing. A topic that cannot be created is reported, and does not stop the others."""
    config, terminal = invocation.settings(), invocation.terminal()
    given = [compile_program(files, terminal, invocation.strictness)] if files else []
    failures: dict[str, TransportError] = {}
    with open_transport(config, create=True) as transport, Client(config, transport) as client:
        plans = client.apply_topics(
            given or _deployed(client, transport),
            on_failure=lambda plan, error: failures.update({plan.spec.name: error}),
        )
    _show(terminal, plans, created="created", failures=failures)
    created = sum(plan.action is PlanAction.CREATE for plan in plans) - len(failures)
    differ = sum(plan.action is PlanAction.DIFFERS for plan in plans)
    as_declared = len(plans) - created - differ - len(failures)
    failed = f", {len(failures)} not created" if failures else ""
    terminal.remark(f"{created} created, {as_declared} as declared, {differ} differ{failed}")
    if not failures:
        return ExitCode.OK
    if any(isinstance(error, NotAuthorized) for error in failures.values()):
        script = invocation.with_files("topics", "plan", "--script", *files)
        terminal.warn(f"Error: this user may not create topics; for somebody who may: {script}")
    return ExitCode.UNAVAILABLE


def deploy(invocation: Invocation, files: Sequence[str]) -> ExitCode:
    """Publish the program of the files."""
    config, terminal = invocation.settings(), invocation.terminal()
    program = compile_program(files, terminal, invocation.strictness)
    # `topics apply` without files knows only deployed programs, and this one is not yet deployed.
    remedy = invocation.with_files("topics", "apply", *files)
    with open_transport(config, remedy=remedy) as transport, Client(config, transport) as client:
        try:
            client.deploy(program)
        except TopicMissing as error:
            why = f"{error.needed_for} needs it; create it with: {remedy}"
            raise NotFound("topic", error.topic, why) from error
        facets = [facet.qualified_name for facet in program.event_facets()]
        topics = {facet: client.topology.facet(facet) for facet in facets if client.topology.carries(facet)}
    workflows = [workflow.qualified_name for workflow in program.workflows()]
    if terminal.as_json:
        terminal.document({"program": program.fingerprint, "workflows": workflows, "topics": topics})
        return ExitCode.OK
    terminal.line(f"deployed {program.fingerprint[:12]}: {', '.join(workflows) or 'no workflow'}")
    for facet in facets:
        where = f"go to {topics[facet]}" if facet in topics else "are tasks in the store"
        terminal.line(f"  events of {facet} {where}")
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
        rows = [(key, _setting_text(value)) for key, value in described.items()]
        terminal.table(("setting", "value"), rows)
    terminal.remark(told_store(config))
    return ExitCode.OK


def _setting_text(value: object) -> str:
    """Return a setting's value as it is written in a settings file."""
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _planned(config: StreamConfig, transport: Transport, given: Sequence[CompiledProgram]) -> list[TopicPlan]:
    with Client(config, transport) as client:
        return client.plan_topics(given or _deployed(client, transport))


def _deployed(client: Client, transport: Transport) -> list[CompiledProgram]:
    """Return the programs that workflows' names point to now."""
    if client.topology.definitions() not in transport.admin().topic_names():
        return []
    by_fingerprint = {fingerprint: name for name, fingerprint in client.definitions.workflows().items()}
    return [client.definitions.find(name, fingerprint)[0] for fingerprint, name in by_fingerprint.items()]


def _show(
    terminal: Terminal,
    plans: Sequence[TopicPlan],
    *,
    created: str,
    failures: Mapping[str, TransportError] | None = None,
) -> None:
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
