"""The commands `topics plan` and `topics apply`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

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


#: Forms of a plan, by their names on the command line.
FORMATS: Final = ("table", "terraform", "strimzi", "kafka-topics")


@click.command("plan")
@files_argument(required=False)
@click.option("--check", is_flag=True, help="End with 1 if a topic is missing or differs.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    help="A file for those who create topics: terraform and strimzi name every topic, kafka-topics what is missing.",
)
@click.option("--cluster", metavar="NAME", help="For strimzi: the Kafka resource that the topics belong to.")
@click.option("--script", is_flag=True, help="The same as --format kafka-topics.")
@common
def topics_plan(
    invocation: Invocation, files: Sequence[str], check: bool, form: str, cluster: str | None, script: bool
) -> ExitCode:
    """Show which topics are missing or differ from what is declared, and change nothing.

    Checks the topics of the FILEs' facets; without FILEs, those of the deployed programs. --format is for a cluster
    where only an administrator, or a pipeline, may create topics.

    \b
    Examples:
      afl-stream topics plan
      afl-stream topics plan orders.afl --check
      afl-stream topics plan orders.afl --format terraform > topics.tf
      afl-stream topics plan orders.afl --format strimzi --cluster my-cluster > topics.yaml
      afl-stream topics plan orders.afl --bootstrap kafka:9092 --format kafka-topics > topics.sh
    """
    form = _chosen_form(form, script, cluster, invocation.as_json)
    from afl_stream.commands.programs import compile_program
    from afl_stream.embedded.transport import EmbeddedTransport
    from afl_stream.topics.declared import PlanAction

    config, terminal = invocation.settings(), invocation.terminal()
    if form == "kafka-topics" and not config.is_kafka:
        given_as = "--script" if script else "--format kafka-topics"
        raise CommandRefused(
            f"{given_as} is for a Kafka cluster: name one with --bootstrap HOST:PORT or kafka.bootstrap"
        )
    given = [compile_program(files, terminal, invocation.strictness)] if files else []
    if config.is_kafka or config.log_path.exists():
        with open_transport(config) as transport:
            plans = _planned(config, transport, given)
    else:
        # Nothing is created by looking: a plan against an empty broker says the same.
        plans = _planned(config, EmbeddedTransport(), given)
    missing = sum(plan.action is PlanAction.CREATE for plan in plans)
    differ = sum(plan.action is PlanAction.DIFFERS for plan in plans)
    if form == "table":
        show_plans(terminal, plans, created="to create")
        if missing:
            terminal.remark(f"{missing} to create; do it with: {invocation.with_files('topics', 'apply', *files)}")
    else:
        _export(terminal, config, plans, form, cluster or "")
    if not check or not (missing or differ):
        return ExitCode.OK
    terminal.remark(f"not as declared: {missing} missing, {differ} differ, of {len(plans)}")
    return ExitCode.WORK_LEFT


def _chosen_form(form: str, script: bool, cluster: str | None, as_json: bool) -> str:
    from afl_stream.topics.exports import is_cluster_name

    if script:
        if form not in ("table", "kafka-topics"):
            raise click.UsageError(f"--script and --format {form} are two forms of one output: give one")
        form = "kafka-topics"
    if as_json and form != "table":
        given_as = "--script" if script else f"--format {form}"
        raise click.UsageError(f"{given_as} and --json are two forms of one output: give one")
    if form == "strimzi" and cluster is None:
        raise click.UsageError("--format strimzi needs --cluster NAME: `kubectl get kafka` lists the names")
    if cluster is not None and form != "strimzi":
        raise click.UsageError("--cluster is for --format strimzi")
    if cluster is not None and not is_cluster_name(cluster):
        raise click.UsageError(f"--cluster: no resource of Kubernetes can be called {cluster!r}")
    return form


def _export(terminal: Terminal, config: StreamConfig, plans: Sequence[TopicPlan], form: str, cluster: str) -> None:
    from afl_stream.topics.declared import PlanAction, TopicPlan
    from afl_stream.topics.exports import kafka_topics_lines, strimzi_lines, terraform_lines

    missing = sum(plan.action is PlanAction.CREATE for plan in plans)
    if not config.is_kafka:
        # The embedded log's own topics say nothing about the cluster's.
        plans = [TopicPlan(spec=plan.spec, action=PlanAction.CREATE) for plan in plans]
    match form:
        case "terraform":
            lines = terraform_lines(plans)
        case "strimzi":
            lines = strimzi_lines(plans, cluster)
        case _:
            lines = kafka_topics_lines(plans, config.kafka.bootstrap or "")
    for line in lines:
        terminal.line(line)
    if form == "kafka-topics":
        terminal.remark(f"{missing} to create" if missing else "nothing is missing")
        return
    partitions = sum(max(plan.spec.partitions, plan.found_partitions or 0) for plan in plans)
    asked = f"{missing} of them missing" if config.is_kafka else "as declared; no cluster was asked (--bootstrap)"
    terminal.remark(f"{len(plans)} topics, {partitions} partitions, {asked}")


@click.command("apply")
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
